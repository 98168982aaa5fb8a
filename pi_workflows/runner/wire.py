"""The frames of the runner protocol as the child writes and reads them; no I/O.

A socket carries them in the child process, a stream in memory in a simulation.
"""

from dataclasses import dataclass
from typing import cast

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import FrameError, encode_frame
from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.protocol.version import RUNNER_MESSAGE
from pi_workflows.runner.messages import ExitReason, Reply, Send


@dataclass(frozen=True, slots=True)
class Identity:
    """What every message of this child carries."""

    run_id: str
    generation: int
    runner_epoch: str


def message_frame(identity: Identity, message_id: str, message: Send) -> bytes:
    """Return a message as one frame.

    Raises:
        FrameTooLarge: it exceeds a frame.
    """
    return encode_frame(
        {
            "schema": RUNNER_MESSAGE,
            "messageId": message_id,
            "operation": message.operation,
            "runId": identity.run_id,
            "generation": identity.generation,
            "runnerEpoch": identity.runner_epoch,
            "expectedRevision": message.expected_revision,
            "payload": message.payload,
        }
    )


def exiting(reason: ExitReason, detail: str | None) -> Send:
    """Return the farewell of a child that ends."""
    payload: JsonObject = {"reason": reason.value}
    if detail is not None:
        payload["detail"] = detail
    return Send("runner.exiting", payload, None)


def parse_reply(frame: JsonObject) -> Reply:
    """Read the server's answer to a message.

    Raises:
        FrameError: its outcome is missing or unknown.
    """
    try:
        outcome = WorkerMessageOutcome(cast("str", frame["outcome"]))
    except (KeyError, ValueError) as error:
        raise FrameError("a reply has no known outcome") from error
    return Reply(
        outcome=outcome,
        revision=cast("int | None", frame.get("revision")),
        result=cast("JsonObject", frame.get("result") or {}),
        error=cast("str | None", frame.get("error")),
    )
