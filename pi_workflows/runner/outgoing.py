"""What the engine loop has still to tell the server, and the one place that exchanges messages.

Everything that has to be recorded between two pieces of user code travels in one message. A body
too large for it goes ahead, in parts, and is named by reference. The first refusal ends the loop.
"""

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar, cast

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.content import ContentInvalid
from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.runner.bodies import Arriving, Bodies, named, parts
from pi_workflows.runner.messages import Call, CallResult, Ending, ExitReason, Reply, Send

_T = TypeVar("_T")
Steps: TypeAlias = Generator[Send | Call, Reply | CallResult, _T]
"""A part of the loop: yields messages and calls, and returns something."""


Hear: TypeAlias = Callable[[JsonObject], None]
"""Takes the reply to one transition."""


class LoopEnded(Exception):
    """The server refused a message or the claim is gone."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason.value)
        self.ending = ending


class Outgoing:
    """The transitions that are not sent yet, and the run's revision as last heard.

    Attributes:
        bodies: measures values; the bytes it makes are those that are sent.
    """

    def __init__(self) -> None:
        self._revision: int | None = None
        self._unsent: list[tuple[JsonObject, Hear | None]] = []
        self.bodies = Bodies()

    def add(self, transition: JsonObject, hear: Hear | None = None) -> None:
        """Let a transition travel with the next message.

        Args:
            hear: is given the reply to it; None when nobody waits for one.
        """
        self._unsent.append((transition, hear))

    def commit(self) -> Steps[list[JsonObject]]:
        """Send what is unsent and return one reply per transition, in order.

        Raises:
            LoopEnded: the server refused it, or this child's claim is gone.
        """
        batch: list[JsonObject] = []
        large: dict[str, bytes] = {}
        unsent = self._unsent
        for transition, _ in unsent:
            placed, lifted = self.bodies.lift(transition)
            batch.append(placed)
            large |= lifted
        for content in large.values():
            for part in parts(content):
                yield from self._exchange(part)
        self._unsent = []
        self.bodies.forget()
        if not batch:
            return []
        reply = yield from self._exchange(self.advance(batch))
        replies = cast("list[JsonObject]", reply.result.get("transitions", []))
        for (_, hear), told in zip(unsent, replies, strict=False):
            if hear is not None:
                hear(told)
        return replies

    def body(self, holder: JsonObject, name: str) -> Steps[JsonValue]:
        """Return a value of a reply, read in parts if the reply only names it.

        Raises:
            LoopEnded: as `commit`; also when what comes is not what was named.
        """
        value, reference = named(holder, name)
        if reference is None:
            return value
        try:
            arriving = Arriving(reference)
            while not arriving.is_complete:
                reply = yield from self._exchange(Send("content.read", arriving.wanted(), None))
                arriving.take(reply.result)
            return arriving.value()
        except ContentInvalid as error:
            raise LoopEnded(Ending(ExitReason.REJECTED, str(error))) from error

    def ask(self, operation: str, payload: JsonObject) -> Steps[Reply]:
        """Send any other message and return its reply.

        Raises:
            LoopEnded: as `commit`.
        """
        return (yield from self._exchange(Send(operation, payload, self._revision)))

    def advance(self, batch: list[JsonObject]) -> Send:
        """Return the message that carries these transitions, on the revision as it stands."""
        return Send("run.advance", {"transitions": cast("list[JsonValue]", batch)}, self._revision)

    def moved_to(self, revision: int | None) -> None:
        """Note that the run has moved to this revision; None says nothing."""
        if revision is not None:
            self._revision = revision

    def _exchange(self, message: Send) -> Steps[Reply]:
        reply = yield message
        assert isinstance(reply, Reply)
        if reply.outcome is WorkerMessageOutcome.CLAIM_LOST:
            raise LoopEnded(Ending(ExitReason.CLAIM_LOST))
        if reply.outcome is WorkerMessageOutcome.REJECTED:
            text = reply.error or f"the server refused {message.operation}"
            raise LoopEnded(Ending(ExitReason.REJECTED, text))
        self.moved_to(reply.revision)
        return reply
