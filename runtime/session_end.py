"""Ending what is left of a child's session: shells and tools whose parent is already dead.

A process group does not reach them (a shell makes groups of its own) and their parent can no
longer name them, but they stay in the session. That alone proves nothing: a session's number is
its leader's process id and can be used again. A session is ours while either holds:

- its leader, the child, still has its process id, if only as an unreaped zombie: Linux gives no
  process or session a number that one still has. Then every member is ours, whatever it did to
  its environment and whoever it runs as. So a child is reaped *after* its session was ended.
- a living member was started with the child's unguessable marker in its environment: it keeps the
  number from being used again. Then every member is ours, too.

What is left when neither holds cannot be proven ours and is left alone: processes that all cleared
their environment and whose runner has been reaped before its session was ended, which takes that
the server and the runner were both killed. A process that left the session on purpose is not ours
to end either. Where the system is not Linux, only the marker counts, for each process alone.
"""

import signal
import sys
from dataclasses import dataclass
from typing import Final

import trio

from pi_workflows.protocol.template import MARKER_VARIABLE
from runtime import process_table
from runtime.errors import ProcessesSurvived
from runtime.identity import ProcessIdentity, identity_of, signal_exactly, wait_gone
from runtime.process_state import ProcessState

END_WAIT_S: Final = 5.0
"""How long killed processes may take to end; only ones stuck in the kernel need longer."""

STUCK_HINT: Final = (
    "Look for processes of another user, such as sudo's, which only that user can end, and for "
    "ones in uninterruptible sleep (state D), such as hung disk access."
)

_UNDECIDED_S: Final = 0.001
"""Pause before looking again at a process in the middle of exec, which takes microseconds."""

_PROTECTED_S: Final = 0.02
"""Pause before looking again at a process that cannot be killed: it runs as another user."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What one look at a session has shown.

    Attributes:
        ours: Proven; the leader is never among them.
        is_undecided: Somebody else is there of whom it cannot be told yet.
    """

    ours: tuple[ProcessIdentity, ...]
    is_undecided: bool


async def end_session(
    leader: ProcessIdentity, marker: str, *, within_s: float = END_WAIT_S
) -> None:
    """Kill what is left of the leader's session, without the leader, and wait until it is gone.

    Looks again until nothing that is provably ours is there: a process may start others while it
    is being killed. Shielded from cancellation, bounded by `within_s` seconds.

    Args:
        leader: The child; alive, a zombie, or gone.
        marker: What the child was given in its environment.

    Raises:
        ProcessesSurvived: Some were still there at the end of the wait: stuck in the kernel, or
            running as another user and so out of reach.
    """
    found = _Found((), is_undecided=True)
    unseen: OSError | None = None
    with trio.move_on_after(within_s, shield=True):
        while True:
            try:
                found = _look(leader, marker)
                if not found.ours and not found.is_undecided:
                    return
                reached = [member for member in found.ours if _kill(member)]
                for member in reached:
                    await wait_gone(member)
            except OSError as error:  # No descriptor is left; somebody may give one back.
                unseen, reached = error, []
                found = _Found(found.ours, is_undecided=False)
            if not reached:
                await trio.sleep(_UNDECIDED_S if found.is_undecided else _PROTECTED_S)
    pids = ", ".join(str(member.pid) for member in found.ours) or "not yet known"
    raise ProcessesSurvived(
        f"processes of session {leader.pid} did not end within {within_s:g} s: {pids}",
        hint=STUCK_HINT,
    ) from unseen


def _kill(member: ProcessIdentity) -> bool:
    """Tell whether it will be gone soon; False when it runs as another user."""
    try:
        signal_exactly(member, signal.SIGKILL)
    except PermissionError:
        return False
    return True


def _look(leader: ProcessIdentity, marker: str) -> _Found:
    """Find the members of the session that are ours at this moment.

    The members are read first and the proof is taken afterwards: what keeps the number from being
    used again now has kept it all the time, because it is older than any later user.
    """
    members = [m for m in process_table.session_members(leader.pid) if m.pid != leader.pid]
    if not members:
        return _Found((), is_undecided=False)
    if sys.platform == "linux" and identity_of(leader.pid) == leader:
        return _found(members)
    marks = [(member, _is_marked(member, marker)) for member in members]
    if sys.platform == "linux" and any(is_marked for _, is_marked in marks):
        return _found(members)
    marked = [member for member, is_marked in marks if is_marked]
    return _found(marked, is_undecided=any(is_marked is None for _, is_marked in marks))


def _is_marked(member: ProcessState, marker: str) -> bool | None:
    """Tell whether it carries the marker and is still the same in the session; None: not yet."""
    is_marked = process_table.started_with(member.pid, MARKER_VARIABLE, marker)
    if is_marked and process_table.read_process(member.pid) != member:
        return None
    return is_marked


def _found(members: list[ProcessState], *, is_undecided: bool = False) -> _Found:
    ours = tuple(ProcessIdentity(member.pid, member.start_identity) for member in members)
    return _Found(ours, is_undecided)
