"""Linux's process table, read from /proc: exact start ticks, sessions, environments."""

import os
from functools import cache
from pathlib import Path
from typing import Final

from runtime.clock import uptime_s
from runtime.process_state import ProcessState

SCHEME: Final = "linux-proc-start"
"""How start identities made here begin: `linux-proc-start:<boot id>:<start ticks>`."""

_PROC: Final = Path("/proc")
# Numbers of proc(5), which counts from 1; `_fields` starts with number 3.
_STATE: Final = 3 - 3
_SESSION: Final = 6 - 3
_THREADS: Final = 20 - 3
_START_TICKS: Final = 22 - 3
_ENVIRONMENT: Final = slice(50 - 3, 52 - 3)
_ENDED_STATES: Final = frozenset({"Z", "X", "x"})


@cache
def boot_id() -> str:
    """Return the kernel's random id of this boot.

    Raises:
        OSError: It cannot be read, for example under systemd's `ProcSubset=pid`.
    """
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def read_process(pid: int) -> ProcessState | None:
    """Return what /proc says about `pid`; None when it shows no such process."""
    try:
        fields = _fields(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A main thread that has ended before the others looks like a zombie, too.
    has_ended = fields[_STATE] in _ENDED_STATES and int(fields[_THREADS]) <= 1
    return ProcessState(
        pid=pid,
        start_identity=f"{SCHEME}:{boot_id()}:{fields[_START_TICKS]}",
        session_id=int(fields[_SESSION]),
        has_ended=has_ended,
    )


def age_s(start_identity: str) -> float | None:
    """Return for how many seconds a process has been there; None if not of this boot."""
    scheme, _, started = start_identity.partition(":")
    boot, _, ticks = started.partition(":")
    if scheme != SCHEME or boot != boot_id() or not ticks.isdigit():
        return None
    return uptime_s() - int(ticks) / os.sysconf("SC_CLK_TCK")


def pids() -> list[int]:
    """Return the ids of all processes /proc shows, in no order."""
    # Twice per run: a `Path` for each entry costs more than the whole list of names.
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208


def started_with(pid: int, variable: str, value: str) -> bool | None:
    """Tell whether `pid` was started with this environment variable; False if unreadable.

    None means that it cannot be told at this moment: the process is ending, or in the middle of
    exec, where its new environment is not in place yet (seen: close-on-exec descriptors are
    closed before, so a parent can believe that the program runs already).
    """
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
        if not environment:
            start, end = _fields(pid)[_ENVIRONMENT]
            return False if start == end != "0" else None
    except OSError:
        return False
    return f"{variable}={value}".encode() in environment.split(b"\0")


def _fields(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the third on, the state."""
    stat = (_PROC / str(pid) / "stat").read_bytes()
    # The second field is the program's name in parentheses and may hold spaces and parentheses:
    # what follows the last one starts with field 3.
    return stat[stat.rindex(b")") + 2 :].decode("ascii").split()
