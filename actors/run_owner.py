"""Own one run: claim it, serve one child under the tenure, and leave it at a durable boundary.

What it guarantees:

- the claim is committed before anything is started, and a child is recorded before it is spawned;
- losing the claim, a cancel or pause by an operator and a stop of the server all end the child,
  its session and its shell processes *before* the run can be claimed again;
- every end of a child is recorded once, with one of the six outcomes, and is no failure of the
  run: committed attempts and effects decide how the run goes on.
"""

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from actors.claims import HeldRun
from actors.runner_conversation import Conversation
from actors.runner_ends import Leave, RunnerEnd, leave, outcome_of
from actors.runner_launch import (
    LaunchedRunner,
    NotRegistered,
    PlannedRunner,
    launch_runner,
    plan_runner,
)
from actors.runner_presentation import FAREWELL_S
from actors.services import SYSTEM, Services
from pi_workflows.protocol.ids import RunId, WorkerEpoch
from pi_workflows.protocol.states import WorkerStatus
from runtime.errors import RuntimeFault
from runtime.exception_groups import sole_error
from runtime.process import ExitStatus
from runtime.sync_points import SyncPoint
from runtime.tenure import Tenure, TenureLost, Terms
from store import leases, workers
from store.authority import CLAIM_MS, Claim, Permit
from store.batch import Command
from store.errors import (
    ClaimLostError,
    LeaseHeldError,
    NotClaimableError,
    Rejected,
    RunUnknownError,
    StateBusyError,
    StorageFault,
)
from store.run_claiming import ClaimedRun, claim_run
from store.run_parking import hand_back, park_run, recover_run
from store.transaction import Transaction
from store.workers import WorkerEnd

RENEW_EVERY_S: Final = 10.0
CANCELLED: Final = "cancelled"
"""Tenure reason of a run that a control command has ended."""

PAUSED: Final = "paused"
"""Tenure reason of a run that a control command has taken out of its owner's hands."""

_STOP_GRACE_S: Final = 2.0
_LAST_WORDS_S: Final = 1.0
"""How long what a dead child has written is still read."""

_EXIT_WAIT_S: Final = 1.0
"""How long a child that is done may take to exit by itself."""

_SAME_SIGNAL_S: Final = 1.0
"""How long a server may take to hear of a signal that went to all processes of the user, such as
at the end of a login: then the run is handed off."""

_LEAVES_BY_ITSELF: Final = frozenset(
    {
        RunnerEnd.FINISHED,
        RunnerEnd.PARKED,
        RunnerEnd.ABANDONED_CODE,
        RunnerEnd.SOURCE_CHANGED,
        RunnerEnd.SETTINGS_BROKEN,
    }
)

_NOT_TO_BE_HAD: Final = (LeaseHeldError, NotClaimableError, RunUnknownError, StateBusyError)

_FULL_DISK_PAUSE_S: Final = 5.0

_BUSY_TRIES: Final = 11
"""Each waits 5 s for the lock; later the end is written without keeping a stop waiting."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """A claimed run with its permit and tenure."""

    claimed: ClaimedRun
    permit: Permit
    tenure: Tenure

    @property
    def run_id(self) -> RunId:
        """The run."""
        return self.claimed.run.run_id


class RunOwner:
    """The actor of one run; lives for one child."""

    def __init__(self, services: Services, run_id: RunId) -> None:
        self._services: Final = services
        self._run_id: Final = run_id
        self._worker_epoch: Final = WorkerEpoch(f"runner-{services.world.ids.new_uuid()}")
        self._log: Final = services.log.bind("run_owner", runId=run_id)
        self._entered: HeldRun | None = None
        self._end: WorkerEnd | None = None

    async def run(self) -> bool:
        """Claim the run and serve it until its child has ended.

        Cancelled: the child is stopped, the run handed off, the lease released; shielded.

        Returns:
            False when the run was not to be had; nothing was started then.
        """
        services = self._services
        claimed_at = trio.current_time()
        try:
            claimed, held, planned = await services.store.do(self._claim)
        except BaseException as error:
            self._forget_claim()
            if isinstance(error, _NOT_TO_BE_HAD):
                self._log.debug("claim_refused", reason=str(error.code))
                return False
            raise
        tenure = Tenure(self._terms(claimed.claim), claimed_at=claimed_at)
        permit = Permit(services.identity.host, claimed.claim)
        try:
            async with tenure:
                held.held_by(tenure)
                await self._serve(Ownership(claimed, permit, tenure), planned)
        except TenureLost as lost:
            self._log.info("tenure_ended", generation=claimed.claim.generation, reason=lost.reason)
        except ClaimLostError as lost:
            reason = str(lost.reason)
            self._log.info("claim_lost", generation=claimed.claim.generation, reason=reason)
        except (StateBusyError, StorageFault) as fault:
            self._log.warning("end_overdue", generation=claimed.claim.generation, error=str(fault))
            await self._catch_up(claimed.claim)
        finally:
            services.claims.discard(self._run_id, held)
        return True

    def _claim(self, tx: Transaction) -> tuple[ClaimedRun, HeldRun, PlannedRunner]:
        """Claim the run, record its child, and enter the claim in the registry.

        All in the same step of the batch, so that the child can be spawned after one commit.
        """
        identity = self._services.identity
        claimed = claim_run(tx, Permit(identity.host), self._run_id, identity.owner)
        planned = plan_runner(tx, identity, claimed, self._worker_epoch)
        self._services.world.sync_points.reached(SyncPoint.CLAIM_BEFORE_COMMIT)
        self._entered = self._services.claims.enter(self._run_id, claimed.claim)
        return claimed, self._entered, planned

    def _forget_claim(self) -> None:
        """Take out what a batch has entered that was begun anew and then given up."""
        if self._entered is not None:
            self._services.claims.discard(self._run_id, self._entered)

    def _terms(self, claim: Claim) -> Terms:
        return Terms(
            renew=partial(self._renew, claim),
            release=partial(self._release, claim),
            lasts_s=CLAIM_MS[claim.owner_type] / 1000,
            renew_every_s=RENEW_EVERY_S,
        )

    async def _renew(self, claim: Claim) -> None:
        while True:  # Until the tenure expires: a foreign write lock is no loss by itself.
            try:
                await self._services.store.do_urgent(leases.renew_claim, claim)
            except StateBusyError:
                self._log.warning("renewal_delayed", generation=claim.generation)
            except ClaimLostError as lost:
                raise TenureLost(lost.reason) from lost
            else:
                return

    async def _release(self, claim: Claim) -> None:
        try:
            await self._services.store.do_urgent(leases.release, claim)
        except StateBusyError:
            self._log.warning("release_missed", generation=claim.generation)
        except ClaimLostError as lost:
            raise TenureLost(lost.reason) from lost

    async def _serve(self, owned: Ownership, planned: PlannedRunner) -> None:
        """Launch the child, converse, and clean up whatever happens.

        The row of the child is closed: an open one would block the next. The run is given up
        last and in any case: one that stayed `running` without an owner would never be claimed
        again.
        """
        conversation: Conversation | None = None
        runner: LaunchedRunner | None = None
        end = RunnerEnd.CRASHED
        try:
            runner = await launch_runner(self._services, planned)
            conversation = Conversation(self._services, owned.claimed, owned.permit, owned.tenure)
            end = await self._listen(runner, conversation)
            await self._let_exit(runner, end)
            if end is RunnerEnd.TERMINATED:
                await trio.sleep(_SAME_SIGNAL_S)
        except RuntimeFault as fault:
            self._log.warning("runner_not_started", error=str(fault))
            if isinstance(fault, NotRegistered):
                end = RunnerEnd.NOT_REGISTERED
        except trio.Cancelled:
            if end in {RunnerEnd.CRASHED, RunnerEnd.TERMINATED}:
                lost = owned.tenure.is_lost
                end = RunnerEnd.CLAIM_LOST if lost else RunnerEnd.INTERRUPTED
            if conversation is not None and conversation.broken_off() is RunnerEnd.FINISHED:
                end = RunnerEnd.FINISHED
            raise
        finally:
            progressed = conversation is not None and conversation.progressed
            said_goodbye = conversation is not None and conversation.said_goodbye
            words = conversation.last_words if conversation is not None else None
            with trio.CancelScope(shield=True):
                try:
                    status = await self._stop_child(runner, conversation)
                    outcome = outcome_of(end, status, said_goodbye=said_goodbye)
                    await self._record_end(owned, _worker_end(outcome, status, runner))
                finally:
                    await self._park(owned, leave(end, progressed=progressed, words=words))

    async def _listen(self, runner: LaunchedRunner, conversation: Conversation) -> RunnerEnd:
        """Converse until the child is done or dead.

        The end of its stream is no proof of life: a process that it has forked may hold it open.
        What it wrote before it exited is still heard, for a second. A stop of the server does not
        cut off what a child has to say after the end of its run, for `FAREWELL_S`.
        """
        heard: list[RunnerEnd] = []
        try:
            async with trio.open_nursery() as nursery:

                async def hear_out() -> None:
                    try:
                        await runner.child.wait()
                        await trio.sleep(_LAST_WORDS_S)
                    except trio.Cancelled:
                        conversation.presentation.hurry(FAREWELL_S)
                        raise
                    conversation.presentation.hurry(0)
                    nursery.cancel_scope.cancel()

                nursery.start_soon(hear_out)
                heard.append(await conversation.serve(runner.channel, runner.child.identity))
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise sole_error(group) from group
        return heard[0] if heard else conversation.broken_off()

    async def _let_exit(self, runner: LaunchedRunner, end: RunnerEnd) -> None:
        if end in _LEAVES_BY_ITSELF:
            with trio.move_on_after(_EXIT_WAIT_S):
                await runner.child.wait()

    async def _stop_child(
        self, runner: LaunchedRunner | None, conversation: Conversation | None
    ) -> ExitStatus:
        """End all that the child has started, in its session and outside, before anything else.

        The run can be claimed again only after that, whatever goes wrong on the way there.
        """
        if runner is None:
            return ExitStatus(None, None)
        status = await self._stop_session(runner)
        if conversation is not None:
            await conversation.processes.end_all()
        try:
            self._services.processes.remove(runner.child.identity)
        except OSError as error:
            self._log.error("registry_not_written", error=str(error))
        return status

    async def _record_end(self, owned: Ownership, how: WorkerEnd) -> None:
        """Close the child's row: an open one would block the next child."""
        self._end = WorkerEnd(how.status, how.exit_code, how.signal)
        try:
            await self._close_row(how)
        except Rejected as refused:
            self._log.error("diagnostic_not_stored", code=str(refused.code))
            await self._close_row(self._end)
        self._log.info(
            "runner_ended",
            generation=owned.claimed.claim.generation,
            outcome=how.status.value,
            exitCode=how.exit_code,
            signal=how.signal,
        )

    async def _close_row(self, how: WorkerEnd) -> None:
        """Record how the child ended, or that there was none."""
        await self._settle(lambda tx: workers.end(tx, self._worker_epoch, how))

    async def _stop_session(self, runner: LaunchedRunner) -> ExitStatus:
        """End the child and its whole session; what survives SIGKILL is logged and left."""
        try:
            return await runner.child.stop(_STOP_GRACE_S)
        except (RuntimeFault, OSError) as fault:
            self._log.error("processes_survived", error=str(fault))
            with trio.move_on_after(0):  # It has been reaped, if it is not itself what survived.
                return await runner.child.wait()
            return ExitStatus(None, None)

    async def _park(self, owned: Ownership, how: Leave) -> None:
        """Leave the run to whoever claims it next, also when our own claim has lapsed by now."""
        departure = how.departure
        if departure is None or owned.tenure.is_released:
            return
        claim = owned.claimed.claim
        try:
            await self._settle(
                lambda tx: park_run(
                    tx, owned.permit, owned.run_id, departure, how.words, death=how.death
                )
            )
        except Rejected as refused:
            self._log.info("park_refused", generation=claim.generation, code=str(refused.code))
            await self._hand_back(claim)
        owned.tenure.released()

    async def _hand_back(self, claim: Claim) -> None:
        try:
            await self._settle(lambda tx: hand_back(tx, claim, self._run_id))
        except (ClaimLostError, LeaseHeldError) as lost:
            self._log.info("run_replaced", generation=claim.generation, code=str(lost.code))

    async def _catch_up(self, claim: Claim) -> None:
        """Write down an end that a foreign write lock or a full disk holds up, once it lets go.

        Nobody claims the run meanwhile, for it reads as under way. Cancelled, or ended by a
        commit that fails: the next server recovers it.
        """
        while True:
            try:
                await self._services.store.insist(partial(self._leave_late, claim))
            except StorageFault:
                await trio.sleep(_FULL_DISK_PAUSE_S)
            else:
                return

    def _leave_late(self, claim: Claim, tx: Transaction) -> None:
        if self._end is not None:
            workers.end(tx, self._worker_epoch, self._end)
        with contextlib.suppress(ClaimLostError):  # A commit of ours had freed it.
            leases.release(tx, claim)
        recover_run(tx, Permit(SYSTEM), self._run_id)

    async def _settle(self, command: Command[object]) -> None:
        """Write down an end, however long another process holds the write lock, within bounds."""
        for _ in range(_BUSY_TRIES):
            try:
                await self._services.store.do(command)
            except StateBusyError:
                self._log.warning("end_not_written_yet")
            else:
                return
        await self._services.store.do(command)


def _worker_end(
    outcome: WorkerStatus, status: ExitStatus, runner: LaunchedRunner | None
) -> WorkerEnd:
    ended_badly = outcome not in {WorkerStatus.EXITED, WorkerStatus.CANCELLED}
    tail = None if runner is None else runner.child.output_tail()
    return WorkerEnd(
        outcome,
        status.code,
        str(status.signal) if status.signal is not None else None,
        (tail or None) if ended_badly else None,
    )
