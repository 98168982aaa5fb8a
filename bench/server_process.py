"""A real server in a home directory of its own, ended whatever happens."""

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pi_workflows.client.channel import open_channel
from pi_workflows.client.errors import Unavailable
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.server import CAPACITY_VARIABLE

_READY_S: Final = 20.0
_STOP_S: Final = 20.0
_LOOK_S: Final = 0.02


class ServerFailed(RuntimeError):
    """The server did not come up; the text is what it said."""


@contextmanager
def running_server(home: Path, capacity: int) -> Generator[StatePaths]:
    """Run a server for `home` with room for `capacity` runners; stop it in the end.

    Raises:
        ServerFailed: it ended early or was not ready in time.
    """
    said = home / "server.output"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pi_workflows.cli", "server", "run"],
            env={**os.environ, "HOME": str(home), CAPACITY_VARIABLE: str(capacity)},
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        paths = StatePaths(home)
        _await_ready(process, paths, said)
        yield paths
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(process: "subprocess.Popen[bytes]", paths: StatePaths, said: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            open_channel(paths.socket).close()
        except Unavailable:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(said.read_text(errors="replace")) from None
            time.sleep(_LOOK_S)
        else:
            return
