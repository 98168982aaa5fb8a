"""Ending what is left of a child's session: shells and tools whose parent is already dead.

A process group does not reach them (a shell makes groups of its own) and their parent can no
longer name them, but they stay in the session and were started with the child's marker in their
environment. Both must match: a session id can be reused by a stranger, and a process that left the
session on purpose is not ours to end.
"""

import signal
from typing import Final

import trio

from runtime import process_table
from runtime.errors import ProcessesSurvived
from runtime.identity import ProcessIdentity, signal_exactly, wait_gone

MARKER_VARIABLE: Final = "PI_WORKFLOWS_CHILD"
"""Environment variable by which a child and all it starts are recognised."""

_UNDECIDED_S: Final = 0.001
"""Pause before looking again at a process in the middle of exec, which takes microseconds."""


async def end_session(session_id: int, marker: str, *, within_s: float = 5.0) -> None:
    """Kill every process of the session that carries `marker` and wait until none is left.

    Shielded from cancellation, bounded by `within_s` seconds.

    Raises:
        ProcessesSurvived: Some were still there at the end of the wait.
        PermissionError: One of them runs as another user.
    """
    with trio.move_on_after(within_s, shield=True):
        while True:
            marked, undecided = _members(session_id, marker)
            for member in marked:
                signal_exactly(member, signal.SIGKILL)
            for member in marked:
                await wait_gone(member)
            if not marked and not undecided:
                return
            if not marked:
                await trio.sleep(_UNDECIDED_S)
    raise ProcessesSurvived(
        f"processes of session {session_id} did not end within {within_s:g} s",
        hint="Look for processes in uninterruptible sleep (state D), such as hung disk access.",
    )


def _members(session_id: int, marker: str) -> tuple[list[ProcessIdentity], list[ProcessIdentity]]:
    """Return the living processes of the session: those marked, and those that may be."""
    marked: list[ProcessIdentity] = []
    undecided: list[ProcessIdentity] = []
    for pid in process_table.pids():
        state = process_table.read_process(pid)
        if state is None or state.has_ended or state.session_id != session_id:
            continue
        is_marked = process_table.started_with(pid, MARKER_VARIABLE, marker)
        if is_marked is not False:
            found = undecided if is_marked is None else marked
            found.append(ProcessIdentity(pid, state.start_identity))
    return marked, undecided
