"""What the engine loop has still to tell the server, and the one place that exchanges messages.

Everything that has to be recorded between two pieces of user code travels in one message; only a
list too large for a frame is cut. The first refusal ends the loop.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar, cast

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.runner import transitions
from pi_workflows.runner.messages import Call, CallResult, Ending, ExitReason, Reply, Send

_T = TypeVar("_T")
Steps: TypeAlias = Generator[Send | Call, Reply | CallResult, _T]
"""A part of the loop: yields messages and calls, and returns something."""


class LoopEnded(Exception):
    """The server refused a message or the claim is gone."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason.value)
        self.ending = ending


class Outgoing:
    """The transitions that are not sent yet, and the run's revision as last heard."""

    def __init__(self) -> None:
        self._revision: int | None = None
        self._unsent: list[JsonObject] = []

    def add(self, transition: JsonObject) -> None:
        """Let a transition travel with the next message."""
        self._unsent.append(transition)

    def commit(self) -> Steps[list[JsonObject]]:
        """Send what is unsent and return one reply per transition, in order.

        Raises:
            LoopEnded: the server refused it, or this child's claim is gone.
        """
        replies: list[JsonObject] = []
        batches, self._unsent = transitions.into_messages(self._unsent), []
        for batch in batches:
            reply = yield from self._exchange(self.advance(batch))
            replies += cast("list[JsonObject]", reply.result.get("transitions", []))
        return replies

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
            raise LoopEnded(Ending(ExitReason.FAILED, text))
        self.moved_to(reply.revision)
        return reply
