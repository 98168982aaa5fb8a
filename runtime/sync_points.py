"""Named places where a test harness can stop or kill a process; inert in production.

The armed form is reached only through an explicit constructor argument, never through the
environment: a leaked variable must not be able to stop a server. On the user's own state it cannot
be made at all.
"""

import os
import signal
import threading
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, final

from runtime.live_state import refuse_live_state

RELEASE: Final = b"r"
"""The byte by which a harness lets a stopped process go on."""

DIE: Final = b"k"
"""The byte by which a harness makes a stopped process kill itself with SIGKILL, right there."""


class SyncPoint(StrEnum):
    """Every place a harness can stop at; a new member is swept by the harness without more."""

    COMMAND_BEFORE_BEGIN = "cmd.before_begin"
    COMMAND_AFTER_BEGIN = "cmd.after_begin"
    COMMAND_AFTER_COMMAND = "cmd.after_command"
    COMMAND_BEFORE_COMMIT = "cmd.before_commit"
    COMMAND_AFTER_COMMIT_BEFORE_REPLY = "cmd.after_commit_before_reply"
    COMMAND_AFTER_REPLY = "cmd.after_reply"
    START_LOCK_HELD = "start.lock_held"
    START_DATABASE_OPEN = "start.database_open"
    START_EPOCH_TAKEN = "start.epoch_taken"
    START_CHILDREN_ENDED = "start.children_ended"
    START_LEASES_EXPIRED = "start.leases_expired"
    START_EFFECTS_SETTLED = "start.effects_settled"
    START_SOCKET_BOUND = "start.socket_bound"
    CLAIM_BEFORE_COMMIT = "claim.before_commit"
    RUNNER_AFTER_SPAWN_BEFORE_ATTACH = "runner.after_spawn_before_attach"
    RUNNER_READY_BEFORE_REPLY = "runner.ready_before_reply"
    EFFECT_AFTER_APPLY_BEFORE_SETTLE = "effect.after_apply_before_settle"
    SOCKET_MID_FRAME = "socket.mid_frame"


class SyncPoints(Protocol):
    """What production code sees: a call that costs nothing unless a harness armed the place."""

    def reached(self, point: SyncPoint) -> None:
        """Stop here if armed: the whole process waits until the harness answers."""
        ...

    def is_armed(self, point: SyncPoint) -> bool:
        """Tell whether `reached` would stop; for places that must be prepared first."""
        ...


@final
class InertSyncPoints:
    """The production form: nothing is armed."""

    def reached(self, point: SyncPoint) -> None:
        """Return at once."""

    def is_armed(self, point: SyncPoint) -> bool:  # noqa: ARG002 - the protocol's signature
        """Return False."""
        return False


@final
class ArmedSyncPoints:
    """Reports armed places over a dedicated descriptor and blocks there until told.

    Line protocol: the process writes the point's name and a newline, then reads one byte:
    `RELEASE` goes on, `DIE` kills the process with SIGKILL. End of file means that the harness
    is gone: the process goes on and never stops again. The call blocks the calling thread, and
    so the event loop when it is made there: nothing else of the process may move meanwhile.
    """

    def __init__(self, descriptor: int, points: Collection[SyncPoint], state_dir: Path) -> None:
        """Arm `points` over `descriptor`, which is made blocking and stays the caller's.

        Args:
            state_dir: the state that the process works on.

        Raises:
            LiveStateRefused: It is the user's own.
        """
        refuse_live_state(state_dir)
        os.set_blocking(descriptor, True)
        self._descriptor = descriptor
        self._points = frozenset(points)
        self._turn = threading.Lock()

    def is_armed(self, point: SyncPoint) -> bool:
        """Tell whether `reached` would stop at `point`."""
        return point in self._points

    def reached(self, point: SyncPoint) -> None:
        """Report `point` and block until the harness answers; returns at once if not armed."""
        if point not in self._points:
            return
        with self._turn:
            if not self._points:
                return
            try:
                os.write(self._descriptor, f"{point}\n".encode())
                answer = os.read(self._descriptor, 1)
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
            if answer == DIE:
                os.kill(os.getpid(), signal.SIGKILL)
            if not answer:
                self._points = frozenset()
