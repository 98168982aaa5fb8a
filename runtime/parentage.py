"""Who has started whom, proven for one moment."""

import os

from runtime.identity import Liveness, ProcessIdentity, identity_of, is_alive


def leader_started_by(parent: ProcessIdentity, pid: int) -> ProcessIdentity | None:
    """Return who has `pid`, if it leads a process group of its own and `parent` is its parent.

    None also when it has ended, or cannot be seen. What was read belongs to one process, for its
    identity is the same before and after; a child that has not been reaped keeps its number.
    """
    # Rarely asked, and nothing else needs it on Linux: every start of a server would wait for it.
    import psutil  # noqa: PLC0415

    before = identity_of(pid)
    try:
        is_wanted = psutil.Process(pid).ppid() == parent.pid and os.getpgid(pid) == pid
    except (psutil.Error, OSError):
        return None
    if before is None or not is_wanted or is_alive(parent) is not Liveness.ALIVE:
        return None
    return before if identity_of(pid) == before and is_alive(before) is Liveness.ALIVE else None
