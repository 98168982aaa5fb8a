"""What may be asked of one run that exists, as methods of both clients."""

from typing import TYPE_CHECKING

from pi_workflows.client.callers import BlockingCaller, LiveCaller
from pi_workflows.client.sans_io import Reply

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject


class BlockingRunCalls:
    """Commands about one run; each is carried out once per key and raises what `call` raises.

    A key of None makes a fresh one; give the earlier one to repeat a command whose fate is
    unknown. Receipts are those of `docs/protocol.md`.
    """

    def pause(self: BlockingCaller, run_id: str, *, idempotency_key: str | None = None) -> Reply:
        """Stop a run at once and keep it from going on until it is resumed.

        Raises:
            Refused: `RUN_ENDED`, `RUN_UNKNOWN`.
        """
        return self.call("run.pause", run_id=run_id, idempotency_key=idempotency_key)

    def resume(self: BlockingCaller, run_id: str, *, idempotency_key: str | None = None) -> Reply:
        """Let a run go on that stands still; one that does not is left as it is.

        Raises:
            Refused: `RUN_ENDED`, `RUN_UNKNOWN`, `EFFECT_AMBIGUOUS`.
        """
        return self.call("run.resume", run_id=run_id, idempotency_key=idempotency_key)

    def cancel(
        self: BlockingCaller,
        run_id: str,
        reason: str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Reply:
        """End a run, wherever it is; the receipt says who won.

        Args:
            run_id: the run.
            reason: stored with the run, 1 to 2,048 characters; None asks for the end alone.
            idempotency_key: see the class.

        Raises:
            Refused: `CANCEL_CONFLICT`, `RUN_UNKNOWN`.
        """
        payload: JsonObject = {} if reason is None else {"reason": reason}
        return self.call("run.cancel", payload, run_id=run_id, idempotency_key=idempotency_key)

    def restart(
        self: BlockingCaller, run_id: str, revision: int, *, idempotency_key: str | None = None
    ) -> Reply:
        """Start a run that has ended once more, with its definition and input.

        A run is restarted once: later calls adopt the first child, which the receipt names.

        Args:
            run_id: a run that has ended.
            revision: `runRevision` of its view, as the caller has seen it.
            idempotency_key: see the class.

        Raises:
            Refused: `RUN_NOT_ENDED`, `REVISION_STALE`, `EFFECT_AMBIGUOUS`, `RUN_UNKNOWN`.
        """
        return self.call(
            "run.restart",
            run_id=run_id,
            expected_revision=revision,
            idempotency_key=idempotency_key,
        )


class LiveRunCalls:
    """The same for the client of live views; a cancelled call may have been carried out."""

    async def pause(self: LiveCaller, run_id: str, *, idempotency_key: str | None = None) -> Reply:
        """See `BlockingRunCalls.pause`."""
        return await self.call("run.pause", run_id=run_id, idempotency_key=idempotency_key)

    async def resume(
        self: LiveCaller, run_id: str, *, idempotency_key: str | None = None
    ) -> Reply:
        """See `BlockingRunCalls.resume`."""
        return await self.call("run.resume", run_id=run_id, idempotency_key=idempotency_key)

    async def cancel(
        self: LiveCaller,
        run_id: str,
        reason: str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Reply:
        """See `BlockingRunCalls.cancel`."""
        payload: JsonObject = {} if reason is None else {"reason": reason}
        return await self.call(
            "run.cancel", payload, run_id=run_id, idempotency_key=idempotency_key
        )

    async def restart(
        self: LiveCaller, run_id: str, revision: int, *, idempotency_key: str | None = None
    ) -> Reply:
        """See `BlockingRunCalls.restart`."""
        return await self.call(
            "run.restart",
            run_id=run_id,
            expected_revision=revision,
            idempotency_key=idempotency_key,
        )
