"""Talk to one runner child: its messages in order, each checked against who may send it."""

import hashlib
from dataclasses import dataclass
from typing import Final, cast

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.frames import FrameError, encode_frame, parse_canonical
from pi_workflows.protocol.ids import WorkerEpoch
from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.protocol.version import RUNNER_MESSAGE
from runtime.line_stream import LineStream

_FIELDS: Final = frozenset(
    {
        "schema",
        "messageId",
        "operation",
        "runId",
        "generation",
        "runnerEpoch",
        "expectedRevision",
        "payload",
    }
)

_MESSAGE_ID_MAX: Final = 64
_ERROR_CHARS_MAX: Final = 2_048


class RunnerProtocolError(ValueError):
    """The child sent something that is no message; it is stopped and counts as crashed."""


class StaleRunner(Exception):
    """The child speaks for another generation or epoch; it is told `claimLost` and must end.

    Attributes:
        message_id: of what it sent; None when that names none.
    """

    def __init__(self, message_id: str | None) -> None:
        super().__init__("the sender's generation or epoch is not the one that is served")
        self.message_id = message_id


@dataclass(frozen=True, slots=True)
class Credentials:
    """For whom a child may speak."""

    run_id: str
    generation: int
    runner_epoch: str


@dataclass(frozen=True, slots=True)
class RunnerMessage:
    """One proposal or read of the child.

    Attributes:
        expected_revision: run revision the child has seen; None where it builds on none.
        line: the frame as it came.
    """

    message_id: str
    operation: str
    expected_revision: int | None
    payload: JsonObject
    line: bytes

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the frame: an equal repeat is answered alike."""
        return hashlib.sha256(self.line).digest()


class RunnerChannel:
    """Frames over the child's dedicated socket."""

    def __init__(self, lines: LineStream, credentials: Credentials) -> None:
        """Wrap the child's stream."""
        self._lines: Final = lines
        self._credentials: Final = credentials

    @property
    def worker_epoch(self) -> WorkerEpoch:
        """The child's epoch."""
        return WorkerEpoch(self._credentials.runner_epoch)

    async def launch(self, envelope: JsonObject) -> None:
        """Send the launch envelope, the first frame.

        Raises:
            trio.BrokenResourceError: the child is gone.
        """
        await self._lines.send(encode_frame(envelope))

    async def receive(self) -> RunnerMessage | None:
        """Return the next message; None when the child has closed its end.

        Raises:
            StaleRunner: it speaks for another generation or epoch (checked before the payload).
            RunnerProtocolError: it sent no message.
            trio.BrokenResourceError: the connection broke.
        """
        try:
            line = await self._lines.receive()
            if line is None:
                return None
            frame = parse_canonical(line)
        except FrameError as error:
            raise RunnerProtocolError(str(error)) from error
        return self._parse(frame, line)

    async def reply(
        self,
        message: RunnerMessage,
        outcome: WorkerMessageOutcome,
        *,
        revision: int | None = None,
        result: JsonObject | None = None,
        error: str | None = None,
    ) -> None:
        """Answer a message.

        Raises:
            FrameTooLarge: the answer exceeds a frame.
            trio.BrokenResourceError: the child is gone.
        """
        answer: JsonObject = {"messageId": message.message_id, "outcome": outcome.value}
        if revision is not None:
            answer["revision"] = revision
        if result is not None:
            answer["result"] = result
        if error is not None:
            answer["error"] = error[:_ERROR_CHARS_MAX]
        await self._lines.send(encode_frame(answer))

    async def turn_away(self, stale: StaleRunner) -> None:
        """Tell a child that it may not speak for the run any more.

        Raises:
            trio.BrokenResourceError: the child is gone.
        """
        if stale.message_id is not None:
            answer: JsonObject = {
                "messageId": stale.message_id,
                "outcome": WorkerMessageOutcome.CLAIM_LOST.value,
            }
            await self._lines.send(encode_frame(answer))

    def _parse(self, frame: JsonObject, line: bytes) -> RunnerMessage:
        credentials = self._credentials
        sender = (frame.get("runId"), frame.get("generation"), frame.get("runnerEpoch"))
        message_id = frame.get("messageId")
        if sender != (credentials.run_id, credentials.generation, credentials.runner_epoch):
            raise StaleRunner(message_id if isinstance(message_id, str) else None)
        expected = frame.get("expectedRevision")
        payload = frame.get("payload")
        if (
            not frame.keys() <= _FIELDS
            or frame.get("schema") != RUNNER_MESSAGE
            or not isinstance(message_id, str)
            or not 0 < len(message_id) <= _MESSAGE_ID_MAX
            or not isinstance(frame.get("operation"), str)
            or not _is_revision(expected)
            or not isinstance(payload, dict)
        ):
            raise RunnerProtocolError("a runner message has unknown or malformed fields")
        return RunnerMessage(
            message_id,
            cast("str", frame["operation"]),
            cast("int | None", expected),
            payload,
            line,
        )


def _is_revision(value: JsonValue) -> bool:
    return value is None or (type(value) is int and value >= 0)
