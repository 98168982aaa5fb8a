"""The store of one process of the pool: the real store actor, which stands at its sync points.

The write lock is waited for at a point, too, and never in SQLite or on a clock.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, final

from typing_extensions import override

from pi_workflows.chaos.inline_store import InlineStore
from pi_workflows.chaos.procs_results import told
from pi_workflows.chaos.scene import AnswerLost, Command
from runtime.chaos.procs_child import Stand
from runtime.chaos.subject import Answer
from runtime.sync_points import SyncPoint
from store.database import Writer
from store.errors import StateBusyError
from store.opening import connect_writer
from store.transaction import IdSource

ALL_POINTS: Final = frozenset(
    {
        SyncPoint.COMMAND_BEFORE_BEGIN,
        SyncPoint.COMMAND_AFTER_BEGIN,
        SyncPoint.COMMAND_AFTER_COMMAND,
        SyncPoint.COMMAND_BEFORE_COMMIT,
        SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY,
    }
)
"""Where a process can stand in a command."""

FEWEST_POINTS: Final = ALL_POINTS - {SyncPoint.COMMAND_AFTER_COMMAND}
"""Without the one from which nothing but the next point can be reached, and nothing differs: for
every order of a scenario, where each point multiplies their number."""


def place_of(request_point: str, point: SyncPoint) -> str:
    """Return the name of a place: `claim after_begin`, `claim after_commit`."""
    name = point.value.partition(".")[2].removesuffix("_before_reply")
    return f"{request_point} {name}"


@final
class WaitingWriter(Writer):
    """A writing connection that asks before it tries for the lock again.

    Attributes:
        wait: called while somebody else holds the lock.
    """

    @classmethod
    def connected(cls, path: Path) -> "WaitingWriter":
        """Connect to a database that others may write to; nothing is checkpointed on closing."""
        writer = cls(connect_writer(path).connection)
        writer.keep_log()
        return writer

    wait: Callable[[], None]

    @override
    def begin_immediate(self) -> None:
        while True:
            try:
                super().begin_immediate()
            except StateBusyError:
                self.wait()
            else:
                return


@final
class _StandingPoints:
    """The sync points of the store actor, at which the process stands; see `SyncPoints`.

    Attributes:
        how: the word with which it was let go on after the commit.
        is_open: a transaction has begun, and has not been committed.
    """

    def __init__(self, points: Collection[SyncPoint], stand: Stand) -> None:
        self._points: Final = points
        self._stand: Final = stand
        self._request_point = ""
        self.how = "go"
        self.is_open = False

    def begin(self, request_point: str) -> None:
        """Have the points of another request."""
        self._request_point = request_point
        self.how = "go"

    def note_end(self) -> None:
        """Tell that the lock was given back without a commit, if that is so."""
        if self.is_open:
            self.is_open = False
            self._stand.note(freed=True)

    def busy(self) -> None:
        """Stand until somebody has given a lock back."""
        self._stand.at(f"{self._request_point} busy", busy=True)

    def is_armed(self, point: SyncPoint) -> bool:
        return point in self._points

    def reached(self, point: SyncPoint) -> None:
        match point:
            case SyncPoint.COMMAND_BEFORE_BEGIN:
                self.note_end()  # The first try was abandoned, for want of a savepoint.
            case SyncPoint.COMMAND_AFTER_BEGIN:
                self.is_open = True
            case SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY:
                self.is_open = False
                self._stand.note(freed=True, committed=True)
            case _:
                pass
        if point in self._points:
            self.how = self._stand.at(place_of(self._request_point, point))


@final
class ProcessStore:
    """The store actor of one actor of a scene."""

    def __init__(
        self, writer: WaitingWriter, ids: IdSource, stand: Stand, points: Collection[SyncPoint]
    ) -> None:
        """Take over a writer for as long as the actor acts.

        Args:
            points: where to stand.
        """
        self._writer: Final = writer
        self._stand: Final = stand
        self._points: Final = _StandingPoints(points, stand)
        self._store: Final = InlineStore(writer, stand, ids, self._points)
        writer.wait = self._points.busy

    def carry_out(self, request_point: str, command: Command[Any]) -> object:
        """Run a command; once more if its request is to come twice.

        The controller learns of an answer at the instant at which the store gives it.

        Raises:
            AnswerLost: the answer was to get lost.
            GivenUp: the order ends here; nothing stays open.
            Exception: whatever the command was refused for.
        """

        def answered(reply: object) -> None:
            if self._points.how != "drop":
                self._stand.note(acknowledged=request_point, result=told(reply))

        self._store.answered = answered
        answer = self._run(request_point, command)
        how, self._store.answered = self._points.how, _unheard
        if how == "duplicate":
            self._run(request_point, command)
        if how == "drop":
            raise AnswerLost
        if answer.error is not None:
            raise answer.error
        return answer.result

    def _run(self, request_point: str, command: Command[Any]) -> Answer:
        self._points.begin(request_point)
        try:
            [answer] = self._store.carry_out([command])
        except BaseException:
            self._writer.rollback()
            raise
        self._points.note_end()
        return answer


def _unheard(_reply: object) -> None:
    """Nobody hears the answer to a copy."""
