"""Claim a run and bring its child into service."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.ids import WorkerEpoch, run_resource_id
from pi_workflows.protocol.states import (
    AttemptStatus,
    ParkReason,
    QueueStatus,
    RunnerCommand,
    RunStatus,
)
from store import attempts, leases, run_queue, runs, workers
from store.attempts import AttemptRow
from store.authority import Claim, Operation, Permit, require_actor, revise
from store.errors import NotClaimableError
from store.leases import Owner
from store.machines.queue import QueueMove
from store.machines.run import RUN_MACHINE, RunMove
from store.resources import run_event
from store.runs import RunRow, SourceRow
from store.transaction import Reading, Transaction
from store.workers import Launch

NEEDS_A_PERSON: Final = frozenset(
    {
        ParkReason.SOURCE_CHANGED,
        ParkReason.NO_PROGRESS,
        ParkReason.EFFECT_AMBIGUOUS,
        ParkReason.SETTINGS_BROKEN,
    }
)
"""Reasons that only a person's word clears; the scheduler never retries them."""


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that its caller now owns.

    Attributes:
        claim: the new generation's claim.
        revision: of the run, after the claim.
    """

    run: RunRow
    claim: Claim
    revision: int
    sources: list[SourceRow]


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """What a child that said hello is to do.

    Attributes:
        command: `resume` for all but the first child that ever served the run.
        interrupted: the try its predecessor left; None at a clean boundary.
        step_count: recorded steps.
    """

    revision: int
    command: RunnerCommand
    interrupted: AttemptRow | None
    step_count: int


@dataclass(frozen=True, slots=True)
class ServedRow:
    """Whether a child has served the run."""

    served: bool


SELECT_SERVED: Final = """
    SELECT EXISTS (SELECT 1 FROM run_workers
                    WHERE run_id = :run_id AND ready_at IS NOT NULL) AS served
"""

ROW_STATEMENTS: Final = {"SELECT_SERVED": ServedRow}


def claim_run(tx: Transaction, permit: Permit, run_id: str, owner: Owner) -> ClaimedRun:
    """Take the run: lease, run `running` and queue `starting` in one commit (README 30).

    Race contract: of any number of callers one wins; the others are refused and have written
    nothing.

    Raises:
        AuthorityError: only the server claims runs.
        RunUnknownError: no such run.
        NotClaimableError: not due, paused, waiting, finished, or parked for a person.
        LeaseHeldError: somebody owns it now.
    """
    require_actor(permit.actor, Operation.CLAIM_RUN)
    run = runs.require(tx, run_id)
    queued = run_queue.require(tx, run_id)
    _check_claimable(tx, run, queued)
    with revise(tx, permit, run_resource_id(run_id), Operation.CLAIM_RUN) as recorder:
        status = RUN_MACHINE.apply(run.status, RunMove.CLAIM)
        claim = leases.take(tx, recorder, owner)
        revision = recorder.record(run_event("lease.claimed", {"generation": claim.generation}))
        runs.set_status(tx, run, status)
        run_queue.move(tx, queued, QueueMove.CLAIM)
    return ClaimedRun(runs.require(tx, run_id), claim, revision, runs.sources(tx, run_id))


def launch(tx: Transaction, permit: Permit, launched: Launch) -> None:
    """Record the child that is about to be spawned under the caller's claim; no revision.

    Raises:
        ClaimLostError: the claim is no longer the caller's; nothing may be spawned.
    """
    assert permit.claim is not None
    leases.renew_claim(tx, permit.claim)
    workers.insert(tx, launched)


def child_ready(
    tx: Transaction, permit: Permit, run_id: str, worker_epoch: WorkerEpoch
) -> ReadyRun:
    """Accept a child's hello: the queue row says `running`, the reply says where to begin.

    Raises:
        ClaimLostError: the claim is no longer the caller's.
        IllegalTransitionError: the run is not starting.
    """
    resumes = _was_ready_before(tx, run_id)
    with revise(tx, permit, run_resource_id(run_id), Operation.ADVANCE_RUN) as recorder:
        run_queue.move(tx, run_queue.require(tx, run_id), QueueMove.READY)
        workers.ready(tx, worker_epoch)
        event = "run_resume_prepared" if resumes else "run_started"
        revision = recorder.record(run_event(event))
    unfinished = attempts.unfinished(tx, run_id)
    last = attempts.last_step(tx, run_id)
    return ReadyRun(
        revision,
        _command(tx, run_id, resumes=resumes),
        unfinished if _is_interrupted(unfinished) else None,
        0 if last is None else last.step_index + 1,
    )


def _command(reading: Reading, run_id: str, *, resumes: bool) -> RunnerCommand:
    if resumes:
        return RunnerCommand.RESUME
    if runs.is_restart(reading, run_id):
        return RunnerCommand.RESTART
    return RunnerCommand.START


def _check_claimable(tx: Transaction, run: RunRow, queued: run_queue.QueueRow) -> None:
    if run.terminal or run.paused:
        raise NotClaimableError("it is finished or paused")
    if run.status is RunStatus.WAITING and queued.status is QueueStatus.PARKED:
        raise NotClaimableError("it waits")
    if not run_queue.is_due(queued, tx.now):
        raise NotClaimableError("it is not due yet")
    if queued.error_code is not None and ParkReason(queued.error_code) in NEEDS_A_PERSON:
        raise NotClaimableError(f"it is parked: {queued.error_code}")


def _was_ready_before(reading: Reading, run_id: str) -> bool:
    found = reading.one(ServedRow, SELECT_SERVED, {"run_id": run_id})
    return found is not None and found.served


def _is_interrupted(attempt: AttemptRow | None) -> bool:
    return attempt is not None and attempt.status is AttemptStatus.INTERRUPTED
