"""Start, pause, resume, cancel, restart runs: once per request, with its receipt."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from actors.client_requests import ClientRequest, PayloadInvalid, RunCancel, RunStart
from actors.resolver import ResolvedWorkflow, resolve
from actors.resolver_child import NotResolved, RefusedWorkflow
from actors.run_owner import CANCELLED, PAUSED
from actors.services import CONTROL, Services
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.ids import run_id_for, run_resource_id
from pi_workflows.protocol.states import CommandOutcome, DisplayStatus, EffectStatus
from pi_workflows.protocol.timestamps import compact
from store import receipts
from store.authority import Permit
from store.blobs import Blob
from store.receipts import Reply, Request
from store.run_cancelling import CancelReply, Verdict, cancel_run
from store.run_creation import NewRun, create_run
from store.run_pausing import PauseReply, pause_run
from store.run_restarting import restart_run
from store.run_resuming import resume_run
from store.transaction import Transaction
from store.unresolved_effects import unresolved

if TYPE_CHECKING:
    from actors.claims import HeldRun

EFFECTS_MAX: Final = 256
"""Most ambiguous effects that a verdict names."""

RESOLVERS_MAX: Final = 8
"""Children at a time that look into workflow files; the next start waits for one to end."""

_DETAIL_CHARS: Final = 8_192


class RunControl:
    """What local clients may ask of runs and of the server itself."""

    def __init__(self, services: Services, stop: Callable[[], None]) -> None:
        """`stop` begins an orderly stop of the server."""
        self._services: Final = services
        self._stop: Final = stop
        self._resolving: Final = trio.Semaphore(RESOLVERS_MAX)

    async def start(self, request: ClientRequest, payload: RunStart) -> Reply:
        """Resolve the workflow in a child, then reserve the run with its receipt in one commit.

        Race contract: equal requests reserve one run; later ones adopt it, and resolve nothing if
        its receipt is there already. Refusals are stored, without what is only for people who
        debug; that nothing could be found out is not stored.
        """
        services = self._services
        asked = self._request(request)
        with services.readers.reading() as reading:
            known = receipts.stored(reading, asked)
        if known is not None:
            return known
        project_path = self._services.world.files.existing_folder(payload.project_path)
        if project_path is None:
            return await self._refuse(
                asked,
                RefusedWorkflow(
                    ErrorCode.PAYLOAD_INVALID,
                    "projectPath is no absolute path of a folder that exists",
                ),
            )
        async with self._resolving:
            found = await resolve(services, project_path, payload.workflow, payload.input)
        if isinstance(found, NotResolved):
            return _undecided(found)
        if isinstance(found, RefusedWorkflow):
            return await self._refuse(asked, found)
        create = partial(_create, self._new_run(project_path, payload, found))
        return await services.store.do(receipts.receipted, asked, create)

    async def cancel(self, request: ClientRequest, payload: RunCancel) -> Reply:
        """End a run; on a run that this server owns, under its own claim (README 20).

        The terminal commit comes first, then the runner is stopped.
        """
        services = self._services
        assert request.run_id is not None
        run_id = request.run_id
        reason = payload.reason

        def cancel(tx: Transaction) -> Reply:
            # Looked up inside the batch: a claim taken earlier in it is already there.
            permit = Permit(CONTROL, services.claims.claim_of(run_id), request.expected_revision)
            return _cancel(permit, run_id, reason, tx)

        reply = await services.store.do_urgent(receipts.receipted, self._request(request), cancel)
        if reply.receipt is not None and reply.receipt.get("verdict") == Verdict.WON.value:
            services.claims.end(run_id, CANCELLED)
        return reply

    async def pause(self, request: ClientRequest) -> Reply:
        """Keep a run from going on; one that this server owns, under its own claim (README 20).

        The pause, the parking and the receipt are one commit; then the runner is stopped. A
        receipt that is asked for again stops nobody: the run may have been resumed meanwhile.
        """
        services = self._services
        assert request.run_id is not None
        run_id = request.run_id
        in_hand: list[HeldRun | None] = []

        def pause(tx: Transaction) -> Reply:
            # A batch may be begun anew, and then finds another owner.
            in_hand[:] = [services.claims.held(run_id)]
            claim = None if in_hand[0] is None else in_hand[0].claim
            return _pause(Permit(CONTROL, claim, request.expected_revision), run_id, tx)

        reply = await services.store.do_urgent(receipts.receipted, self._request(request), pause)
        if reply.outcome is CommandOutcome.ACCEPTED and in_hand[0] is not None:
            in_hand[0].end(PAUSED)
        return reply

    async def resume(self, request: ClientRequest) -> Reply:
        """Let a run go on that stands still; one that is in hand or queued is adopted."""
        assert request.run_id is not None
        permit = Permit(CONTROL, None, request.expected_revision)
        resume = partial(_resume, permit, request.run_id)
        return await self._services.store.do(receipts.receipted, self._request(request), resume)

    async def restart(self, request: ClientRequest) -> Reply:
        """Start a run that has ended once more, at exactly the revision that the client has seen.

        Raises:
            PayloadInvalid: the request names no revision.
        """
        assert request.run_id is not None
        if request.expected_revision is None:
            raise PayloadInvalid("run.restart names the run's revision in expectedRevision")
        permit = Permit(CONTROL, None, request.expected_revision)
        restart = partial(_restart, permit, request.run_id)
        return await self._services.store.do(receipts.receipted, self._request(request), restart)

    async def stop_server(self, request: ClientRequest) -> Reply:
        """Begin an orderly stop; the receipt is durable before it begins."""
        reply = await self._services.store.do(
            receipts.receipted,
            self._request(request),
            lambda _: Reply(CommandOutcome.ACCEPTED, receipt={"stopping": True}),
        )
        self._stop()
        return reply

    async def _refuse(self, asked: Request, refused: RefusedWorkflow) -> Reply:
        """Store a refusal; the traceback goes to this caller only and is not kept."""
        refusal = Reply(
            CommandOutcome.REJECTED, None, {"code": str(refused.code)}, refused.message
        )
        reply = await self._services.store.do(receipts.receipted, asked, lambda _: refusal)
        # Another object is the answer to an equal request that was faster.
        return _with_detail(reply, refused.detail) if reply is refusal else reply

    def _request(self, request: ClientRequest) -> Request:
        return request.stored_by(self._services.identity.epoch)

    def _new_run(self, project_path: str, payload: RunStart, found: ResolvedWorkflow) -> NewRun:
        world = self._services.world
        suffix = world.ids.new_uuid().replace("-", "")[:8]
        return NewRun(
            run_id=run_id_for(compact(world.clock.wall_ms()), found.workflow_name, suffix),
            workflow_name=found.workflow_name,
            workflow_ref=found.workflow_ref,
            project_path=project_path,
            source=found.source,
            mounts=found.mounts,
            snapshot=found.snapshot,
            run_input=found.run_input,
            settings=found.settings,
            launch_options=Blob.of_json(payload.launch_options),
            title=found.title,
            origin_session_id=None,
        )


def _create(new: NewRun, tx: Transaction) -> Reply:
    created = create_run(tx, Permit(CONTROL), new)
    receipt: JsonObject = {
        "runId": created.run_id,
        "status": created.status.value,
        "workflowName": new.workflow_name,
    }
    return Reply(CommandOutcome.ACCEPTED, 1, receipt)


def _resume(permit: Permit, run_id: str, tx: Transaction) -> Reply:
    found = resume_run(tx, permit, run_id)
    receipt: JsonObject = {
        "runId": run_id,
        "verdict": found.verdict.value,
        "status": found.status.value,
        "revision": found.revision,
    }
    outcome = CommandOutcome.ADOPTED if found.adopted else CommandOutcome.ACCEPTED
    return Reply(outcome, found.revision, receipt)


def _pause(permit: Permit, run_id: str, tx: Transaction) -> Reply:
    found = pause_run(tx, permit, run_id)
    outcome = CommandOutcome.ADOPTED if found.adopted else CommandOutcome.ACCEPTED
    receipt = _verdict(run_id, found, _ambiguous(tx, run_id))
    standing = DisplayStatus.AMBIGUOUS if found.ambiguous else DisplayStatus.PAUSED
    return Reply(outcome, found.revision, {**receipt, "status": standing.value})


def _cancel(permit: Permit, run_id: str, reason: str | None, tx: Transaction) -> Reply:
    found = cancel_run(tx, permit, run_id, reason)
    outcome = CommandOutcome.ADOPTED if found.adopted else CommandOutcome.ACCEPTED
    return Reply(outcome, found.revision, _verdict(run_id, found, _ambiguous(tx, run_id)))


def _restart(permit: Permit, run_id: str, tx: Transaction) -> Reply:
    found = restart_run(tx, permit, run_id)
    receipt: JsonObject = {
        "runId": found.run.run_id,
        "parentRunId": run_id,
        "restartNumber": found.restart_number,
        "status": found.run.status.value,
        "workflowName": found.workflow_name,
    }
    outcome = CommandOutcome.ADOPTED if found.adopted else CommandOutcome.ACCEPTED
    return Reply(outcome, found.revision, receipt)


def _ambiguous(tx: Transaction, run_id: str) -> list[JsonValue]:
    open_effects = unresolved(tx, run_resource_id(run_id), limit=EFFECTS_MAX)
    return [
        {name: value for name, value in effect.items() if name != "error"}
        for effect in open_effects
        if effect["status"] == EffectStatus.AMBIGUOUS
    ]


def _verdict(
    run_id: str, found: CancelReply | PauseReply, ambiguous: list[JsonValue]
) -> JsonObject:
    cut_off: JsonObject = {}
    if found.cut_off is not None:
        cut_off = {"attemptId": found.cut_off.attempt_id, "nodeId": found.cut_off.node_id}
    return {
        "runId": run_id,
        "verdict": found.verdict.value,
        "status": found.status.value,
        "revision": found.revision,
        "cutOff": cut_off,
        "ambiguousEffects": ambiguous,
    }


def _undecided(found: NotResolved) -> Reply:
    """Answer without a row: a client that asks again with the same key is heard again."""
    outcome = CommandOutcome.REJECTED if found.was_started else CommandOutcome.UNAVAILABLE
    reply = Reply(outcome, None, {"code": ErrorCode.RESOLVER_FAILED.value}, found.message)
    return _with_detail(reply, found.detail)


def _with_detail(reply: Reply, detail: str | None) -> Reply:
    if detail is None:
        return reply
    return replace(reply, receipt={**(reply.receipt or {}), "detail": detail[:_DETAIL_CHARS]})
