"""The process groups of this child's own shell commands, so that none outlives it."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress


class ShellGroups:
    """Every shell command runs in a group of its own; a group's id is its leader's pid.

    A group is entered in the same locked step that starts it, and forgotten before its leader is
    reaped, so a signal sent from here never meets a reused id.
    """

    _LOCK_S = 1.0  # A start that hangs in exec must not hold back the end of the process.

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._closed = False

    @property
    def in_use(self) -> bool:
        """True while a command is at work; never waits for a start."""
        return bool(self._groups)

    def start(self, spawn: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Start a group leader and remember its group.

        Raises:
            OSError, ValueError: from `spawn`; also OSError once the groups were killed.
        """
        with self._lock:
            if self._closed:
                raise OSError("the runner is ending")
            process = spawn()
            self._groups.add(process.pid)
            return process

    def forget(self, group: int) -> None:
        """Stop tracking a group; call it before its leader is reaped."""
        with self._lock:
            self._groups.discard(group)

    def kill_all(self) -> None:
        """SIGKILL every tracked group and refuse new ones; safe from any thread."""
        locked = self._lock.acquire(timeout=self._LOCK_S)
        try:
            self._closed = True
            for group in self._groups:
                signal_group(group, signal.SIGKILL)
        finally:
            if locked:
                self._lock.release()


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group that may be gone already."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
