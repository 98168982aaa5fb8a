"""Take the updates of one runner: checked, limited in their rate, each stored once.

The rate is counted in memory, one bucket per tenure. A run that gets a new runner begins with a
full bucket: a crash costs at least a second, in which a fifth of a burst would have come back
anyway, and a row per update would make the limit dearer than what it limits.
"""

from dataclasses import dataclass
from typing import Final, cast

import trio

from actors.runner_channel import RunnerMessage
from actors.services import Services
from pi_workflows.protocol.ids import WorkerEpoch
from pi_workflows.protocol.updates import (
    BURST,
    RATE_PER_S,
    UPDATE_INVALID,
    UPDATE_RATE,
    update_problem,
)
from runtime.token_bucket import TokenBucket
from store.authority import Permit
from store.blobs import Blob
from store.run_messages import Answered
from store.update_messages import UpdateMessage, publish_once
from store.updates import NewUpdate

_FIELDS: Final = frozenset({"attemptId", "type", "key", "data"})
_RATE_TEXT: Final = (
    f"{UPDATE_RATE}: a run may publish {RATE_PER_S} updates a second, and {BURST} at once after a "
    "while without; say less often how it goes"
)


@dataclass(frozen=True, slots=True)
class Refused:
    """An update that was turned away before the store saw it; `error` begins with its code."""

    error: str


class RunnerUpdates:
    """Where the updates of one run arrive, for one tenure."""

    def __init__(self, services: Services, run_id: str, permit: Permit) -> None:
        self._services: Final = services
        self._run_id: Final = run_id
        self._permit: Final = Permit(permit.actor, permit.claim)
        self._bucket: Final = TokenBucket(RATE_PER_S, BURST, trio.current_time())

    async def publish(
        self, worker_epoch: WorkerEpoch, message: RunnerMessage
    ) -> Answered | Refused:
        """Store one update, or say why not; nothing is queued.

        Raises:
            ClaimLostError: this server no longer owns the run.
        """
        wanted = _parse(message)
        if isinstance(wanted, Refused):
            return wanted
        if not self._bucket.take(trio.current_time()):
            return Refused(_RATE_TEXT)
        sent = UpdateMessage(
            self._run_id, worker_epoch, message.message_id, message.fingerprint, wanted
        )
        return await self._services.store.insist(lambda tx: publish_once(tx, self._permit, sent))


def _parse(message: RunnerMessage) -> NewUpdate | Refused:
    payload = message.payload
    attempt_id = payload.get("attemptId")
    if payload.keys() != _FIELDS or not isinstance(attempt_id, str):
        return Refused(f"{UPDATE_INVALID}: it has exactly {', '.join(sorted(_FIELDS))}")
    problem = update_problem(payload["type"], payload["key"], payload["data"])
    if problem is not None:
        return Refused(f"{UPDATE_INVALID}: {problem}")
    return NewUpdate(
        attempt_id,
        cast("str", payload["type"]),
        cast("str", payload["key"]),
        Blob.of_json(payload["data"]),
    )
