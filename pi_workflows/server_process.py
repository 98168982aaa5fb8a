"""The server as a process: `python -m pi_workflows.server_process IDLE_EXIT_MS`.

This is what a client starts; `pi-workflows server run` does the same behind the command line's
library, which a start on demand would have to wait for.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from pi_workflows.client.discovery import prepare_directories
from pi_workflows.client.python_path import forget_foreign_paths
from pi_workflows.protocol.paths import StatePaths


def serve(
    paths: StatePaths,
    *,
    idle_exit_ms: int | None = None,
    report: Callable[[str, str], None] | None = None,
    announce: Callable[[str], None] | None = None,
) -> int:
    """Run the server in this process, as `pi_workflows.server.main` does, and return its code.

    Raises:
        StartFailed: the directories cannot be made.
    """
    prepare_directories(paths)
    forget_foreign_paths(os.environ)
    # The template warms up while this process imports the server.
    from runtime.template_program import start_if_used  # noqa: PLC0415

    template = start_if_used()
    # Late: the server brings everything that a quick command must not import.
    from pi_workflows.server import main  # noqa: PLC0415

    return main(
        paths, idle_exit_ms=idle_exit_ms, template=template, report=report, announce=announce
    )


if __name__ == "__main__":
    sys.exit(serve(StatePaths(Path.home().absolute()), idle_exit_ms=int(sys.argv[1]) or None))
