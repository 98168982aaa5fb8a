"""Prompts for work after the success of a run, as methods of both clients."""

from pi_workflows.client.callers import BlockingCaller, LiveCaller
from pi_workflows.client.sans_io import Reply
from pi_workflows.protocol.canonical import JsonObject


class BlockingFollowUpCalls:
    """Queue, remove and list the follow-ups of a run; keys are as in `BlockingRunCalls`."""

    def queue_follow_up(
        self: BlockingCaller,
        run_id: str,
        prompt: str,
        *,
        request_id: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """Queue a prompt behind those that the run has; it counts once the run has completed.

        Args:
            run_id: a run that has started and not ended.
            prompt: not blank, at most 65,536 bytes of UTF-8.
            request_id: names it within the run, so that a repeat from anywhere adopts; None
                takes the key.
            source: where it comes from, 1 to 128 characters; None says `client`.
            idempotency_key: see the class.

        Raises:
            Refused: `FOLLOW_UP_INVALID`, `RUN_NOT_STARTED`, `RUN_ENDED`, `KEY_REUSED`,
                `RUN_UNKNOWN`.
        """
        payload = _queued(prompt, request_id, source)
        return self.call("followUp.queue", payload, run_id=run_id, idempotency_key=idempotency_key)

    def remove_follow_up(
        self: BlockingCaller,
        run_id: str,
        follow_up_id: str,
        reason: str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Reply:
        """Take back a follow-up that was not sent; one that was removed before is left so.

        Args:
            run_id: the run.
            follow_up_id: of the receipt that queued it, or of the list.
            reason: stored with it, 1 to 2,048 characters; None stores that a person did it.
            idempotency_key: see the class.

        Raises:
            Refused: `FOLLOW_UP_OVER`, `FOLLOW_UP_UNKNOWN`, `RUN_UNKNOWN`.
        """
        payload = _removed(follow_up_id, reason)
        return self.call(
            "followUp.remove", payload, run_id=run_id, idempotency_key=idempotency_key
        )

    def follow_ups(self: BlockingCaller, run_id: str, *, after: int = 0) -> JsonObject:
        """Return a page of a run's follow-ups in their order.

        Args:
            run_id: the run.
            after: `next` of the page before; 0 begins with the first.

        Returns:
            `{presentation, items, next}`; `next` is null on the last page.

        Raises:
            Refused: `RUN_UNKNOWN`.
        """
        return self.call("followUp.list", {"after": after}, run_id=run_id).receipt


class LiveFollowUpCalls:
    """The same for the client of live views; a cancelled call may have been carried out."""

    async def queue_follow_up(
        self: LiveCaller,
        run_id: str,
        prompt: str,
        *,
        request_id: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """See `BlockingFollowUpCalls.queue_follow_up`."""
        payload = _queued(prompt, request_id, source)
        return await self.call(
            "followUp.queue", payload, run_id=run_id, idempotency_key=idempotency_key
        )

    async def remove_follow_up(
        self: LiveCaller,
        run_id: str,
        follow_up_id: str,
        reason: str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Reply:
        """See `BlockingFollowUpCalls.remove_follow_up`."""
        payload = _removed(follow_up_id, reason)
        return await self.call(
            "followUp.remove", payload, run_id=run_id, idempotency_key=idempotency_key
        )

    async def follow_ups(self: LiveCaller, run_id: str, *, after: int = 0) -> JsonObject:
        """See `BlockingFollowUpCalls.follow_ups`."""
        return (await self.call("followUp.list", {"after": after}, run_id=run_id)).receipt


def _queued(prompt: str, request_id: str | None, source: str | None) -> JsonObject:
    payload: JsonObject = {"prompt": prompt}
    if request_id is not None:
        payload["requestId"] = request_id
    if source is not None:
        payload["source"] = source
    return payload


def _removed(follow_up_id: str, reason: str | None) -> JsonObject:
    payload: JsonObject = {"followUpId": follow_up_id}
    if reason is not None:
        payload["reason"] = reason
    return payload
