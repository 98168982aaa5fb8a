"""The terminal transaction: everything a run leaves open is closed in the commit that ends it."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.states import (
    AttemptStatus,
    EffectAttemptOutcome,
    EffectStatus,
    RecoveryKind,
    RunStatus,
)
from store import active_time, attempts, effect_rows, effects, follow_ups, leases, run_queue, runs
from store.attempts import AttemptRow
from store.effect_rows import EffectRow, Settlement
from store.machines.effect import EffectMove
from store.machines.queue import SETTLEMENT
from store.machines.run import MOVE_TO_END, RUN_MACHINE
from store.resources import Recorder, run_event
from store.runs import RunRow
from store.transaction import Transaction

SETTLE_QUEUE: Final = "run.settle_queue"

LOST_SIGHT: Final = Settlement(
    EffectMove.LOSE_SIGHT, EffectAttemptOutcome.INTERRUPTED, "effect.ambiguous"
)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ends; hashes of stored blobs, None where there is nothing."""

    status: RunStatus
    final_output_hash: bytes | None = None
    error_hash: bytes | None = None


@dataclass(frozen=True, slots=True)
class CutOff:
    """What an end interrupted.

    Attributes:
        attempt: the try that was under way; None between nodes.
        ambiguous: effects whose outcome nobody knows.
    """

    attempt: AttemptRow | None
    ambiguous: tuple[EffectRow, ...]


def end_run(tx: Transaction, recorder: Recorder, run: RunRow, end: RunEnd) -> CutOff:
    """Write the terminal facts, settle the queue row, free the lease.

    Raises:
        IllegalTransitionError: the run is final already, or cannot end so from where it is.
    """
    RUN_MACHINE.apply(run.status, MOVE_TO_END[end.status])
    unfinished = attempts.unfinished(tx, run.run_id)
    active_time.halt(tx, unfinished)
    if unfinished is not None:
        attempts.finish(tx, unfinished, attempts.Finish(AttemptStatus.CANCELLED))
    ambiguous = _close_effects(tx, recorder)
    follow_ups.cancel_unsent(tx, recorder.actor, run.run_id, end.status)
    recorder.record(
        run_event(f"run_{end.status}", {"finalOutputStored": end.final_output_hash is not None})
    )
    runs.set_finished(
        tx,
        run,
        end.status,
        final_output_hash=end.final_output_hash,
        error_hash=end.error_hash,
    )
    settle_queue(tx, recorder, run.run_id, end.status)
    if recorder.generation is not None:
        leases.drop(tx, recorder.resource_id, recorder.generation)
    return CutOff(unfinished, ambiguous)


def settle_queue(tx: Transaction, recorder: Recorder, run_id: str, status: RunStatus) -> None:
    """Settle the queue row as an effect applied by this transaction; no row, no effect."""
    queued = run_queue.find(tx, run_id)
    if queued is None:
        return
    wanted = effects.plan(
        SETTLE_QUEUE,
        f"{run_id}:{status}",
        request={"status": status.value},
        recovery=RecoveryKind.IDEMPOTENT,
    )
    if effects.apply_locally(tx, recorder, wanted, owner_id="store") is not None:
        run_queue.move(tx, queued, SETTLEMENT[status])


def _close_effects(tx: Transaction, recorder: Recorder) -> tuple[EffectRow, ...]:
    """Cancel what nobody began; admit not to know what somebody was doing."""
    ambiguous: list[EffectRow] = []
    for effect in effect_rows.unsettled(tx, recorder.resource_id):
        if effect.status is EffectStatus.PENDING:
            effects.cancel_pending(tx, recorder, effect)
            continue
        if effect.status is EffectStatus.APPLYING:
            ambiguous.append(
                effects.settle(tx, recorder, effect, effect.attempt_count, LOST_SIGHT)
            )
        else:
            ambiguous.append(effect)
    return tuple(ambiguous)
