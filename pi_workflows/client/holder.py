"""The exact process that holds the server's lock, for ending a server of another version.

A pid alone may name another process by now; the holder is the one whose start value equals what
the lock file says. On Linux the signal goes through a pidfd that was opened before the comparison,
so it cannot reach a later process.
"""

import os
import select
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pi_workflows.protocol.canonical import CanonicalError, parse_json
from pi_workflows.protocol.paths import StatePaths

TERMINATE_MS: Final = 5_000
"""How long the holder may take to end after SIGTERM before it is killed (C §1)."""

_START_TICKS_FIELD: Final = 19
"""Index of `starttime` in /proc/<pid>/stat after the parenthesised command name."""


@dataclass(frozen=True, slots=True)
class Holder:
    """What the lock file says about the server."""

    pid: int
    start_identity: str

    def open(self) -> int | None:
        """Return a pidfd of exactly this process; None if it is gone or cannot be proven."""
        if sys.platform != "linux":
            return None
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return None
        if _start_identity(self.pid) == self.start_identity and not await_end(descriptor, 0):
            return descriptor
        os.close(descriptor)
        return None


def read_holder(paths: StatePaths) -> Holder | None:
    """Return the holder that the lock file names; None if there is no readable lock file."""
    try:
        lock = parse_json(paths.lock.read_bytes())
    except (OSError, CanonicalError):
        return None
    if not isinstance(lock, dict):
        return None
    pid, start_identity = lock.get("pid"), lock.get("startIdentity")
    if not isinstance(pid, int) or pid <= 0 or not isinstance(start_identity, str):
        return None
    return Holder(pid, start_identity)


def left_by_a_crash(paths: StatePaths) -> bool:
    """Say whether a lock file names a process that is proven gone; a clean stop leaves none."""
    holder = read_holder(paths)
    if holder is None or sys.platform != "linux":
        return False
    descriptor = holder.open()
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def stopped_in_order(paths: StatePaths) -> bool:
    """Say whether a server that was there a moment ago has taken socket and lock file away."""
    return not paths.lock.exists() and not paths.socket.exists()


def await_end(descriptor: int, wait_ms: int) -> bool:
    """Wait for the process of a pidfd to end; False when it still runs after `wait_ms`."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(wait_ms))


def end_holder(paths: StatePaths) -> bool:
    """End the exact process that holds the lock: SIGTERM, five seconds, SIGKILL.

    Returns:
        True when it has ended, False when no such process could be proven to run.
    """
    holder = read_holder(paths)
    descriptor = None if holder is None else holder.open()
    if descriptor is None or sys.platform != "linux":
        return False
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not await_end(descriptor, TERMINATE_MS):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            await_end(descriptor, TERMINATE_MS)
    except ProcessLookupError:
        return True
    finally:
        os.close(descriptor)
    return True


def _start_identity(pid: int) -> str | None:
    """Return `linux-proc-start:<boot id>:<ticks>` of a process, None if it is gone."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    ticks = stat.rpartition(")")[2].split()[_START_TICKS_FIELD]
    return f"linux-proc-start:{boot_id}:{ticks}"
