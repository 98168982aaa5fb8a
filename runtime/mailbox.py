"""A bounded mailbox between actors: ask with a reply, or tell; two lanes, urgent first.

Guarantees:

- A cancelled `ask` was either withdrawn before the actor took it, or its outcome is awaited:
  *Cancelled means not executed*.
- Within a lane messages are taken in the order in which they got in; a waiting sender is never
  overtaken by a later one of its lane. A full normal lane never holds up the urgent one.
- Every asker gets an answer, whichever way the actor ends: the one given, or a refusal.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from enum import IntEnum
from types import TracebackType
from typing import Generic, Self, TypeVar, cast, final

import outcome
import trio

from runtime.errors import MailboxClosed, MailboxFull

Message = TypeVar("Message")
Reply = TypeVar("Reply")


def _ended() -> Exception:
    return MailboxClosed("the actor behind this mailbox has ended")


class Lane(IntEnum):
    """Which messages are taken first."""

    URGENT = 0
    NORMAL = 1


@final
class Letter(Generic[Message, Reply]):
    """One message on its way, and the place for its answer.

    Attributes:
        message: What was sent.
        lane: The lane it came through.
    """

    __slots__ = ("_asker", "_mailbox", "lane", "message")

    def __init__(
        self,
        mailbox: "Mailbox[Message, Reply]",
        message: Message,
        lane: Lane,
        asker: trio.lowlevel.Task | None,
    ) -> None:
        self.message = message
        self.lane = lane
        self._mailbox = mailbox
        self._asker = asker

    @property
    def wants_reply(self) -> bool:
        """Whether somebody still waits for the answer."""
        return self._asker is not None

    def answer(self, reply: Reply) -> None:
        """Give the asker its reply; nothing happens for a told or already answered letter."""
        self._settle(outcome.Value(reply))

    def refuse(self, error: Exception) -> None:
        """Raise `error` at the asker; nothing happens for a told or already answered letter."""
        self._settle(outcome.Error(error))

    def _settle(self, result: outcome.Outcome[Reply]) -> None:
        asker, self._asker = self._asker, None
        self._mailbox._forget(self)  # noqa: SLF001 - one mechanism in two classes
        if asker is not None:
            trio.lowlevel.reschedule(asker, result)


@final
class Mailbox(Generic[Message, Reply]):
    """The inbox of one actor.

    The reading actor holds it open with `with mailbox:`; leaving closes it, so that no asker
    waits for an actor that has ended, whichever way it ended.
    """

    def __init__(self, capacity: int = 256) -> None:
        """Make an empty mailbox with room for `capacity` untaken messages in each lane."""
        assert capacity >= 1
        self._capacity = capacity
        self._lanes: tuple[OrderedDict[Letter[Message, Reply], None], ...] = (
            OrderedDict(),
            OrderedDict(),
        )
        self._room = (trio.Semaphore(capacity), trio.Semaphore(capacity))
        self._taken: set[Letter[Message, Reply]] = set()
        self._arrivals = trio.lowlevel.ParkingLot()
        self._closed_by: Callable[[], Exception] | None = None

    def __len__(self) -> int:
        """Return how many messages wait untaken."""
        return sum(len(lane) for lane in self._lanes)

    def __enter__(self) -> Self:
        """Hold the mailbox open for the reading actor."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it and refuse what was taken and never answered."""
        self.close()
        assert self._closed_by is not None
        for letter in list(self._taken):
            letter.refuse(self._closed_by())

    async def ask(self, message: Message, *, lane: Lane = Lane.NORMAL) -> Reply:
        """Send `message` and return the actor's reply; waits for room first.

        Cancelled before the actor took the message: it is withdrawn and never handled.
        Cancelled later: the answer is awaited and returned, the cancellation strikes at the
        caller's next checkpoint.

        Raises:
            MailboxClosed: The actor has ended, or ended before it answered.
            Exception: Whatever the actor refused the letter with.
        """
        await self._enter(lane)
        letter = Letter(self, message, lane, trio.lowlevel.current_task())
        self._put(letter)

        def withdraw(_: object) -> trio.lowlevel.Abort:
            if letter in self._taken:
                return trio.lowlevel.Abort.FAILED
            del self._lanes[lane][letter]
            self._room[lane].release()
            return trio.lowlevel.Abort.SUCCEEDED

        return cast("Reply", await trio.lowlevel.wait_task_rescheduled(withdraw))

    async def tell(self, message: Message, *, lane: Lane = Lane.NORMAL) -> None:
        """Deliver `message` without waiting for it to be handled; waits for room.

        Raises:
            MailboxClosed: The actor has ended.
        """
        await self._enter(lane)
        self._put(Letter(self, message, lane, None))
        await trio.lowlevel.cancel_shielded_checkpoint()

    def tell_nowait(self, message: Message, *, lane: Lane = Lane.NORMAL) -> None:
        """Deliver `message` at once, from synchronous code.

        Raises:
            MailboxClosed: The actor has ended.
            MailboxFull: There is no room, or others wait for it already.
        """
        self._require_open()
        try:
            self._room[lane].acquire_nowait()
        except trio.WouldBlock:
            raise MailboxFull(f"{self._capacity} messages wait already") from None
        self._put(Letter(self, message, lane, None))

    async def take(self) -> Letter[Message, Reply]:
        """Return the next letter, urgent lane first; waits for one, and for nothing else.

        While letters wait no other task gets a turn: an actor that does not wait between two of
        them has to yield by itself. (A turn of a busy loop is half a millisecond and more.)

        A cancelled call has taken nothing. Every letter taken must be answered or refused;
        leaving `with mailbox` refuses what was not.

        Raises:
            MailboxClosed: The mailbox was closed.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not len(self):
            self._require_open()
            await self._arrivals.park()
        return next(self._pop())

    def take_waiting(self, count_max: int) -> list[Letter[Message, Reply]]:
        """Return up to `count_max` letters that wait now, urgent ones first; never waits."""
        letters = self._pop()
        return [letter for _, letter in zip(range(count_max), letters, strict=False)]

    def close(self, refusal: Callable[[], Exception] = _ended) -> None:
        """Refuse everything untaken; later sends and takes fail too.

        What was taken stays the actor's to answer: it may have been carried out already.

        Args:
            refusal: Makes the error for each asker, a fresh one each time. A second close does
                nothing.
        """
        if self._closed_by is not None:
            return
        self._closed_by = refusal
        for room in self._room:
            for _ in range(room.statistics().tasks_waiting):
                room.release()
        for letter in self._pop():
            letter.refuse(refusal())
        self._arrivals.unpark_all()

    def _require_open(self) -> None:
        if self._closed_by is not None:
            raise self._closed_by()

    async def _enter(self, lane: Lane) -> None:
        """Take a place in the lane; gives nobody a turn while there is one."""
        self._require_open()
        await trio.lowlevel.checkpoint_if_cancelled()
        room = self._room[lane]
        if room.value:
            room.acquire_nowait()
            return
        await room.acquire()
        self._require_open()

    def _put(self, letter: Letter[Message, Reply]) -> None:
        self._lanes[letter.lane][letter] = None
        self._arrivals.unpark()

    def _pop(self) -> Iterator[Letter[Message, Reply]]:
        for waiting, room in zip(self._lanes, self._room, strict=True):
            while waiting:
                letter, _ = waiting.popitem(last=False)
                room.release()
                if letter.wants_reply:
                    self._taken.add(letter)
                yield letter

    def _forget(self, letter: Letter[Message, Reply]) -> None:
        self._taken.discard(letter)
