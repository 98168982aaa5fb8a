"""The process table through psutil, where there is no /proc to read start ticks from.

Weaker than `procfs`: creation times come in hundredths of a second and follow the wall clock.
"""

import os
from typing import Final

import psutil

from runtime.clock import epoch_s
from runtime.process_state import ProcessState

SCHEME: Final = "psutil-create-time"
"""How start identities made here begin: `psutil-create-time:<seconds since the epoch>`."""


def read_process(pid: int) -> ProcessState | None:
    """Return what the system says about `pid`; None when there is no such process."""
    try:
        process = psutil.Process(pid)
        return ProcessState(
            pid=pid,
            start_identity=f"{SCHEME}:{process.create_time():.2f}",
            session_id=os.getsid(pid),
            has_ended=process.status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD},
        )
    except (psutil.Error, ProcessLookupError, PermissionError):
        return None


def age_s(start_identity: str) -> float | None:
    """Return for how many seconds a process has been there; None for a foreign identity."""
    scheme, _, started_at = start_identity.partition(":")
    try:
        return epoch_s() - float(started_at) if scheme == SCHEME else None
    except ValueError:
        return None


def pids() -> list[int]:
    """Return the ids of all processes, in no order."""
    return psutil.pids()


def started_with(pid: int, variable: str, value: str) -> bool | None:
    """Tell whether `pid` was started with this environment variable; False if unreadable.

    Never None, which `procfs` answers where it cannot be told yet.
    """
    try:
        return psutil.Process(pid).environ().get(variable) == value
    except (psutil.Error, OSError):
        return False
