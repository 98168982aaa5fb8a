"""The best process table this system has, chosen once."""

import os
import sys

from runtime.process_state import ProcessState

if sys.platform == "linux":
    from runtime.procfs import SCHEME, age_s, pids, read_process, started_with
else:
    from runtime.psutil_table import SCHEME, age_s, pids, read_process, started_with

__all__ = ["SCHEME", "age_s", "pids", "read_process", "session_members", "started_with"]


def session_members(session_id: int) -> list[ProcessState]:
    """Return the processes of the session that have not ended, its leader included, in no order.

    One system call for each process of the machine; only members are read.
    """
    members = []
    for pid in pids():
        if _session_of(pid) == session_id:
            state = read_process(pid)
            if state is not None and state.session_id == session_id and not state.has_ended:
                members.append(state)
    return members


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None
