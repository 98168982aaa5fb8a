"""Sends the updates of one try to the server, and says clearly when one is refused."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from pi_workflows.authoring.errors import UpdateRefused
from pi_workflows.authoring.updates import Update
from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.protocol.updates import UPDATE_REFUSED
from pi_workflows.runner.cancellation import Cancellation, CancelReason
from pi_workflows.runner.channel import Stopped, TurnOver
from pi_workflows.runner.messages import Reply, Send

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

Speak: TypeAlias = Callable[[Send], Reply]
"""Sends one message for the code that runs now; raises `TurnOver` or `Stopped`."""

_TOO_LATE: Final = {
    CancelReason.DEADLINE: "the node's deadline has passed",
    CancelReason.STOP: "the run is being stopped",
}


class Publisher:
    """Publishes for one try; from any thread, and waits for the server's answer.

    Raises:
        UpdateRefused: when called: it came too late, or the server does not take it.
    """

    def __init__(self, speak: Speak, attempt_id: str, cancellation: Cancellation) -> None:
        self._speak: Final = speak
        self._attempt_id: Final = attempt_id
        self._cancellation: Final = cancellation

    def __call__(self, update: Update) -> None:
        """Publish one update; when this returns it is stored."""
        reason = self._cancellation.reason
        if reason is not None:
            raise UpdateRefused(UPDATE_REFUSED, f"the update is not sent: {_TOO_LATE[reason]}")
        payload: JsonObject = {
            "attemptId": self._attempt_id,
            "type": update.type,
            "key": update.key,
            "data": cast("JsonObject", update.data),
        }
        try:
            reply = self._speak(Send("run.publishUpdate", payload, None))
        except TurnOver as over:
            text = "the update is not sent: its node has ended"
            raise UpdateRefused(UPDATE_REFUSED, text) from over
        except Stopped as stopped:
            text = f"the update is not sent: {_TOO_LATE[CancelReason.STOP]}"
            raise UpdateRefused(UPDATE_REFUSED, text) from stopped
        if reply.outcome is WorkerMessageOutcome.REJECTED:
            code, separator, text = (reply.error or "").partition(": ")
            raise UpdateRefused(code if separator else UPDATE_REFUSED, text or code)
