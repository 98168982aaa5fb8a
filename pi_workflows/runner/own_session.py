"""The rest of the runner's own session: what user code has started past the shell groups."""

import os
import select
import signal
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

_BOUND_S: Final = 1.0
"""How long the end of the runner may be held back; what is killed ends in milliseconds."""


def kill_rest_of_session() -> None:
    """SIGKILL everything in the session that this process leads, but itself; from any thread.

    Repeated until nothing is left, for what is killed may have started more; at most a second.
    Does nothing in a process that leads no session, such as a forked child, and where there are
    no pidfds. What belongs to another user, or has left the session, stays.
    """
    if sys.platform != "linux" or os.getsid(0) != os.getpid():
        return
    until = time.monotonic() + _BOUND_S
    with suppress(OSError):  # Without descriptors nothing can be named exactly.
        while _kill_members(until) and time.monotonic() < until:
            pass


def _kill_members(until: float) -> bool:
    """Kill what is there now and wait for its end; tell whether there was something."""
    with ExitStack() as stack:
        poll = select.poll()
        killed = 0
        for member in _members(stack):
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(member, signal.SIGKILL)
                poll.register(member, select.POLLIN)
                killed += 1
        left = killed
        while left and (ended := poll.poll(max(0.0, until - time.monotonic()) * 1000)):
            for descriptor, _ in ended:
                poll.unregister(descriptor)
            left -= len(ended)
        return killed > 0


def _members(stack: ExitStack) -> list[int]:
    """Return a pidfd of each living member but this process.

    Whether it is a member is asked again once the descriptor is open: if it is one then, the
    descriptor holds it, or a process that has ended since.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_member(int(entry.name)):
            with suppress(ProcessLookupError):
                member = os.pidfd_open(int(entry.name))
                stack.callback(os.close, member)
                if _is_member(int(entry.name)) and not _has_ended(member):
                    found.append(member)
    return found


def _is_member(pid: int) -> bool:
    try:
        return pid != os.getpid() and os.getsid(pid) == os.getpid()
    except (ProcessLookupError, PermissionError):
        return False


def _has_ended(member: int) -> bool:
    poll = select.poll()
    poll.register(member, select.POLLIN)
    return bool(poll.poll(0))
