"""Leave a run without ending it: after a death, a handoff, a changed source, an unknown effect."""

import enum
from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import (
    ActorType,
    AttemptStatus,
    EffectAttemptOutcome,
    EffectStatus,
    ParkReason,
    QueueStatus,
    RecoveryKind,
    RunStatus,
)
from store import attempts, effect_rows, effects, leases, run_queue, runs
from store.authority import Claim, Operation, Permit, require_actor, revise
from store.blobs import Blob
from store.effect_rows import EffectRow, Settlement
from store.machines.attempt import AttemptMove
from store.machines.effect import EffectMove
from store.machines.queue import QueueMove
from store.machines.run import RUN_MACHINE, RunMove
from store.progress import has_progressed
from store.resources import Actor, Recorder, run_event
from store.run_ending import LOST_SIGHT
from store.runs import RunRow
from store.transaction import Reading, Transaction

PARK_QUEUE: Final = "run.park_queue"

EFFECT_WAIT_MS: Final = 1_000
EFFECT_WAIT_MS_MAX: Final = 300_000
"""Wait of an effect after a death: doubled with each attempt, at most five minutes (A §7)."""

_UNDER_WAY: Final = frozenset({QueueStatus.STARTING, QueueStatus.RUNNING})


class Departure(enum.Enum):
    """Why nobody works on the run any more."""

    DIED_AFTER_PROGRESS = enum.auto()
    DIED_WITHOUT_PROGRESS = enum.auto()
    HANDED_OFF = enum.auto()
    HELD_UP = enum.auto()  # Nothing is wrong with the run: whoever served it could not go on.
    ABANDONED_CODE = enum.auto()
    SOURCE_CHANGED = enum.auto()
    SETTINGS_BROKEN = enum.auto()


_DIED: Final = frozenset({Departure.DIED_AFTER_PROGRESS, Departure.DIED_WITHOUT_PROGRESS})


@dataclass(frozen=True, slots=True)
class _Recovered:
    """What the effects of a run say after their owner is gone.

    Attributes:
        unknown: some outcome is unknown.
        due_at: UTC epoch ms before which no effect that goes back may be tried; 0 when none waits.
    """

    unknown: bool
    due_at: int


@dataclass(frozen=True, slots=True)
class _Leaving:
    """How a run is given up: what its runner said, its class; `due_at` as in `_Recovered`."""

    departure: Departure
    words: str | None
    death: ParkReason
    due_at: int


def park_run(
    tx: Transaction,
    permit: Permit,
    run_id: str,
    departure: Departure,
    words: str | None = None,
    *,
    death: ParkReason = ParkReason.CRASHED,
) -> RunRow:
    """Leave the run at its last durable boundary and free it.

    The unfinished try becomes `interrupted`. Effects that were applying go by their recovery
    kind: idempotent and observable ones are pending again, manual ones are ambiguous, and then
    the run waits for a person. A run that ended meanwhile is left as it is.

    Args:
        words: what the runner said of its end, bounded; None when it said nothing.
        death: the class of a death.

    Raises:
        ClaimLostError: the caller no longer owns the run; its successor parks it.
    """
    run = runs.require(tx, run_id)
    if run.terminal:
        return run
    with revise(tx, permit, run_resource_id(run_id), Operation.PARK_RUN) as recorder:
        _park(tx, recorder, run, departure, words=words, death=death)
        if recorder.generation is not None:
            leases.drop(tx, recorder.resource_id, recorder.generation)
    return runs.require(tx, run_id)


def recover_run(tx: Transaction, permit: Permit, run_id: str) -> RunRow:
    """Settle what an owner that is gone left of a run; its lease is free or has expired.

    A run that nobody had in his hands is left as it is.

    Raises:
        AuthorityError: only the system recovers.
        RunUnknownError: no such run.
        LeaseHeldError: somebody owns it: it is not left over.
    """
    require_actor(permit.actor, Operation.RECOVER)
    run = runs.require(tx, run_id)
    if run_queue.require(tx, run_id).status not in _UNDER_WAY:
        return run
    with revise(tx, permit, run_resource_id(run_id), Operation.RECOVER) as recorder:
        inline = leases.take(tx, recorder, leases.inline_owner(permit.actor))
        _park(tx, recorder, run, Departure.HANDED_OFF)
        leases.drop(tx, recorder.resource_id, inline.generation)
    return runs.require(tx, run_id)


def hand_back(tx: Transaction, claim: Claim, run_id: str) -> RunRow:
    """Give up a run whose claim may have lapsed: the last act of an owner that has stopped.

    Race contract: nobody has replaced the claim, then the lease is freed and the run parked as
    after a server's death; or a successor has, then nothing is written and the run is his.

    Raises:
        ClaimLostError: the claim was replaced, or a commit has freed it before.
    """
    leases.release(tx, claim)
    run = runs.require(tx, run_id)
    if run_queue.require(tx, run_id).status not in _UNDER_WAY:
        return run
    permit = Permit(Actor(ActorType.SYSTEM))
    with revise(tx, permit, run_resource_id(run_id), Operation.RECOVER) as recorder:
        # The owner is done and the row still was its own: that generation ends here.
        recorder.generation = claim.generation
        _park(tx, recorder, run, Departure.HANDED_OFF)
    return runs.require(tx, run_id)


def park_paused(tx: Transaction, recorder: Recorder, run: RunRow) -> None:
    """Take a run that is being paused out of its owner's hands, in the caller's commit.

    As after a handoff, but the pause is the caller's event and stands in the run's own row.
    """
    due_at = _interrupt(tx, recorder, run, died=False)
    if due_at is not None:
        queued = run_queue.require(tx, run.run_id)
        errors = _deaths_left(tx, queued)
        due_at = max(tx.now, due_at)
        run_queue.move(tx, queued, QueueMove.PARK, available_at=due_at, consecutive_errors=errors)
        runs.touch(tx, run.run_id, detail=None)
    if recorder.generation is not None:
        leases.drop(tx, recorder.resource_id, recorder.generation)


def park_ambiguous(
    tx: Transaction, recorder: Recorder, run: RunRow, attempt: attempts.AttemptRow | None
) -> None:
    """Wait for a person, since an effect of the run may or may not have happened.

    Run and try `waiting`, queue row parked, lease freed, one event: all in the caller's commit.
    """
    status = RUN_MACHINE.apply(run.status, RunMove.WAIT)
    recorder.record(run_event("run.effect_ambiguous"))
    runs.set_status(tx, run, status, detail="an effect's outcome is unknown")
    waiting_for = "none"
    if attempt is not None:
        attempts.move(tx, attempt, AttemptMove.WAIT)
        waiting_for = attempt.attempt_id
    queued = run_queue.find(tx, run.run_id)
    if queued is not None:
        wanted = effects.plan(
            PARK_QUEUE,
            f"{run.run_id}:waiting:{waiting_for}",
            request={"reason": ParkReason.EFFECT_AMBIGUOUS.value},
            recovery=RecoveryKind.IDEMPOTENT,
        )
        effects.apply_locally(tx, recorder, wanted, owner_id="store")
        if queued.status is not QueueStatus.PARKED:
            run_queue.move(tx, queued, QueueMove.PARK, error_code=ParkReason.EFFECT_AMBIGUOUS)
    if recorder.generation is not None:
        leases.drop(tx, recorder.resource_id, recorder.generation)


def _park(
    tx: Transaction,
    recorder: Recorder,
    run: RunRow,
    departure: Departure,
    *,
    words: str | None = None,
    death: ParkReason = ParkReason.CRASHED,
) -> None:
    due_at = _interrupt(tx, recorder, run, died=departure in _DIED)
    if due_at is not None:
        _park_queue(tx, recorder, run, _Leaving(departure, words, death, due_at))


def _interrupt(tx: Transaction, recorder: Recorder, run: RunRow, *, died: bool) -> int | None:
    """Interrupt the try under way and settle what it was doing outside.

    Returns:
        UTC epoch ms before which no effect that goes back may be tried, 0 when none waits; None
        when an outcome is unknown and the run is parked for a person.
    """
    attempt = attempts.unfinished(tx, run.run_id)
    if attempt is not None and attempt.status in {AttemptStatus.RUNNING, AttemptStatus.PENDING}:
        attempts.move(tx, attempt, AttemptMove.INTERRUPT)
        attempt = attempts.unfinished(tx, run.run_id)
    recovered = _recover_effects(tx, recorder, died=died)
    if recovered.unknown and run.status is RunStatus.RUNNING:
        park_ambiguous(tx, recorder, run, attempt)
        return None
    return recovered.due_at


def _deaths_left(
    reading: Reading, queued: run_queue.QueueRow, *, came_further: bool = False
) -> int:
    """Return how many deaths in a row still count: progress gives all tries back."""
    if came_further or has_progressed(reading, queued.run_id):
        return 0
    return queued.consecutive_errors


def _recover_effects(tx: Transaction, recorder: Recorder, *, died: bool) -> _Recovered:
    """Settle applying effects by recovery kind."""
    unknown = False
    due_at = 0
    for effect in effect_rows.unsettled(tx, recorder.resource_id):
        if effect.status is EffectStatus.APPLYING:
            end = _end_after_crash(tx, effect, died=died)
            effects.settle(tx, recorder, effect, effect.attempt_count, end)
            unknown |= end is LOST_SIGHT
            due_at = max(due_at, end.next_attempt_at or 0)
        elif effect.status is EffectStatus.PENDING:
            due_at = max(due_at, effect.next_attempt_at or 0)
        unknown |= effect.status is EffectStatus.AMBIGUOUS
    return _Recovered(unknown, due_at)


def _end_after_crash(tx: Transaction, effect: EffectRow, *, died: bool) -> Settlement:
    """Say how an attempt ended that nobody saw end.

    Only after a death of the runner does the next attempt wait: an orderly handoff, code that was
    abandoned at its deadline and the end of a server say nothing against trying at once.
    """
    if effects.recovery_of(tx, effect) is RecoveryKind.MANUAL:
        return LOST_SIGHT
    wait_ms = min(EFFECT_WAIT_MS_MAX, EFFECT_WAIT_MS * 2 ** min(effect.attempt_count - 1, 32))
    return Settlement(
        EffectMove.GIVE_BACK,
        EffectAttemptOutcome.INTERRUPTED,
        "effect.retry_ready",
        next_attempt_at=tx.now + wait_ms if died else None,
    )


def _park_queue(tx: Transaction, recorder: Recorder, run: RunRow, leaving: _Leaving) -> None:
    departure = leaving.departure
    queued = run_queue.require(tx, run.run_id)
    errors = _deaths_left(tx, queued, came_further=departure is Departure.ABANDONED_CODE)
    reason = ParkReason.HANDOFF
    available_at = tx.now
    if departure is Departure.DIED_AFTER_PROGRESS:
        errors, reason = 0, leaving.death
        available_at = tx.now + run_queue.retry_delay_ms(0)
    elif departure is Departure.DIED_WITHOUT_PROGRESS:
        available_at = tx.now + run_queue.retry_delay_ms(errors)
        errors += 1
        enough = errors >= run_queue.NO_PROGRESS_MAX
        reason = ParkReason.NO_PROGRESS if enough else leaving.death
    elif departure is Departure.HELD_UP:
        available_at = tx.now + run_queue.retry_delay_ms(errors)
    elif departure is Departure.SOURCE_CHANGED:
        reason = ParkReason.SOURCE_CHANGED
    elif departure is Departure.SETTINGS_BROKEN:
        reason = ParkReason.SETTINGS_BROKEN
    recorder.record(run_event(_EVENT_OF.get(reason, "run.queue_parked"), {"reason": reason.value}))
    if queued.status in _UNDER_WAY:
        run_queue.move(
            tx,
            queued,
            QueueMove.PARK,
            available_at=max(available_at, leaving.due_at),
            consecutive_errors=errors,
            error_code=reason,
            error=None if leaving.words is None else Blob.of_text(leaving.words),
        )
    runs.touch(tx, run.run_id, detail=None)


_EVENT_OF: Final = {
    ParkReason.SOURCE_CHANGED: "run.source_changed",
    ParkReason.NO_PROGRESS: "run.worker_no_progress",
}
