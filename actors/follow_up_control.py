"""What people ask of follow-ups: queue one, take one back, list those of a run."""

from typing import Annotated, Final

from pydantic import Field

from actors.client_requests import ClientRequest, Payload
from actors.services import HUMAN, Services
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import CommandOutcome
from store import follow_up_views, receipts
from store.authority import Permit
from store.blobs import Blob
from store.follow_up_views import ITEMS_MAX
from store.follow_ups import (
    REASON_CHARS_MAX,
    SOURCE_CHARS_MAX,
    FollowUpReply,
    NewFollowUp,
    queue_follow_up,
    remove_follow_up,
)
from store.receipts import Reply
from store.transaction import Transaction

SOURCE_DEFAULT: Final = "client"


class FollowUpQueue(Payload):
    """`followUp.queue`; without a request id the key of the command stands for it."""

    prompt: str
    request_id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    source: Annotated[str, Field(min_length=1, max_length=SOURCE_CHARS_MAX)] = SOURCE_DEFAULT


class FollowUpRemove(Payload):
    """`followUp.remove`."""

    follow_up_id: Annotated[str, Field(min_length=1, max_length=256)]
    reason: (
        Annotated[str, Field(min_length=1, max_length=REASON_CHARS_MAX, pattern=r"\S")] | None
    ) = None


class FollowUpList(Payload):
    """`followUp.list`; a page begins behind the order number `after`."""

    after: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=ITEMS_MAX)] = ITEMS_MAX


class FollowUpControl:
    """A person's follow-ups; each command leaves its receipt in its commit."""

    def __init__(self, services: Services) -> None:
        self._services: Final = services

    def listed(self, run_id: str, payload: FollowUpList) -> JsonObject:
        """Return one page of a run's follow-ups.

        Raises:
            RunUnknownError: there is no such run.
        """
        with self._services.readers.reading() as reading:
            return follow_up_views.page(reading, run_id, after=payload.after, limit=payload.limit)

    async def queue(self, request: ClientRequest, payload: FollowUpQueue) -> Reply:
        """Queue a prompt for work after the success of a run."""
        assert request.run_id is not None
        new = NewFollowUp(
            request.run_id,
            payload.request_id or request.idempotency_key,
            payload.source,
            Blob.of_text(payload.prompt),
        )

        def queue(tx: Transaction) -> Reply:
            return _reply(new.run_id, queue_follow_up(tx, Permit(HUMAN), new))

        return await self._services.store.do(receipts.receipted, self._asked(request), queue)

    async def remove(self, request: ClientRequest, payload: FollowUpRemove) -> Reply:
        """Take back a follow-up that was not sent."""
        run_id = request.run_id
        assert run_id is not None

        def remove(tx: Transaction) -> Reply:
            removed = remove_follow_up(
                tx,
                Permit(HUMAN),
                run_id,
                payload.follow_up_id,
                source=None,
                reason=payload.reason,
            )
            return _reply(run_id, removed)

        return await self._services.store.do(receipts.receipted, self._asked(request), remove)

    def _asked(self, request: ClientRequest) -> receipts.Request:
        return request.stored_by(self._services.identity.epoch)


def _reply(run_id: str, found: FollowUpReply) -> Reply:
    outcome = CommandOutcome.ADOPTED if found.adopted else CommandOutcome.ACCEPTED
    receipt: JsonObject = {
        "runId": run_id,
        "followUpId": found.follow_up_id,
        "order": found.order,
        "state": found.status.value,
    }
    return Reply(outcome, found.revision, receipt)
