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
    with launched_server(home, capacity) as process:
        await_ready(process, home)
        yield StatePaths(home)


@contextmanager
def launched_server(home: Path, capacity: int) -> Generator["subprocess.Popen[bytes]"]:
    """Start a server for `home`, ready or not; stop it in the end."""
    with _output(home).open("wb") as output:
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
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_ready(process: "subprocess.Popen[bytes]", home: Path) -> None:
    """Wait until the server answers.

    Raises:
        ServerFailed: it ended early or was not ready in time.
    """
    paths = StatePaths(home)
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            open_channel(paths.socket).close()
        except Unavailable:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(_output(home).read_text(errors="replace")) from None
            time.sleep(_LOOK_S)
        else:
            return


def _output(home: Path) -> Path:
    return home / "server.output"
