"""A server that kills itself before one of its operations on the database's files.

`dying_server.py NUMBER`: at which operation, counted from 1. They are those of creating the
database and of making the log of a dead server durable; a number beyond them kills nobody.
"""

import os
import signal
import sys
from functools import partial
from pathlib import Path

import trio
from typing_extensions import override

from actors.state_files import DiskStateFiles
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.server import serve
from runtime.live_state import LiveStateRefused, refuse_live_state
from runtime.world import production_world
from store.files import OsFiles


class DyingFiles(OsFiles):
    """The real file operations, up to the one that is the last."""

    def __init__(self, last: int) -> None:
        self._left = last

    @override
    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_") and name != "size":
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__getattribute__(name)


if __name__ == "__main__":
    paths = StatePaths(Path.home())
    try:
        refuse_live_state(paths.state_dir)
    except LiveStateRefused as refused:
        sys.exit(f"pi-workflows: {refused}")
    state = DiskStateFiles(paths, DyingFiles(int(sys.argv[1])))
    trio.run(partial(serve, production_world(), paths, 4, state=state))
