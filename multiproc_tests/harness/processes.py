"""Exact processes: watched and signalled through a pidfd, so that a reused pid is never meant."""

import os
import select
import signal
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

BOUND_S: Final = 120.0
"""Longest any wait of these tests may take; a healthy one takes a fraction of it.

A machine that many share may stand still for half a minute.
"""


class ExactProcess:
    """A process that was alive when this was made."""

    def __init__(self, pid: int) -> None:
        self.pid: Final = pid
        self._descriptor: Final = os.pidfd_open(pid)

    @property
    def is_alive(self) -> bool:
        """False once it has ended, reaped or not."""
        return not self.ended_within(0)

    def kill(self) -> None:
        """End it by SIGKILL and wait for its end."""
        self.send(signal.SIGKILL)
        self.await_end()

    def send(self, number: signal.Signals) -> None:
        """Signal it."""
        signal.pidfd_send_signal(self._descriptor, number)

    def await_end(self) -> None:
        """Wait until it has ended."""
        assert self.ended_within(BOUND_S), f"process {self.pid} did not end"

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)

    def ended_within(self, seconds: float) -> bool:
        """Wait so long for its end; say whether it has come."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def let_end(pid: int) -> None:
    """Give a process that is ending by itself ten seconds; on a busy machine that takes time.

    Raises:
        ProcessLookupError: it is gone.
    """
    process = ExactProcess(pid)
    process.ended_within(10)
    process.close()


def started_under(home: Path) -> dict[int, str]:
    """Return the living processes of this home: command lines by pid.

    They were started with this HOME, or work inside it, where a runner works and all that it
    starts, whatever that did to its environment.
    """
    wanted = f"HOME={home}".encode()

    def belongs(folder: Path) -> bool:
        if wanted in (folder / "environ").read_bytes().split(b"\0"):
            return True
        return (folder / "cwd").readlink().is_relative_to(home)

    return _living(belongs)


def in_sessions(sessions: Collection[int]) -> dict[int, str]:
    """Return the living processes of these sessions: command lines by pid."""
    return _living(lambda folder: os.getsid(int(folder.name)) in sessions)


def _living(wanted: Callable[[Path], bool]) -> dict[int, str]:
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in {"Z", "X"} and wanted(folder):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = command
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def environment_of(pid: int) -> list[bytes]:
    """Return the settings that a process was started with."""
    environment = (Path("/proc") / str(pid) / "environ").read_bytes()
    return [entry for entry in environment.split(b"\0") if entry]


def marker_of(pid: int) -> str:
    """Return the marker by which a server finds what its child has started."""
    prefix = b"PI_WORKFLOWS_CHILD="
    (marker,) = [entry for entry in environment_of(pid) if entry.startswith(prefix)]
    return marker.removeprefix(prefix).decode()
