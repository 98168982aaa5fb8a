"""Rows of effects and of their attempts, and the few statements that write them.

Which move is legal, and what an attempt's end means, is decided in `store/effects.py`.
"""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.ids import EffectId, ResourceId
from pi_workflows.protocol.states import EffectAttemptOutcome, EffectStatus, ResourceType
from store.machines.effect import EffectMove
from store.resources import Happening, Recorder
from store.transaction import Change, Reading, Transaction, affected_one


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One effect with the revision of its own resource."""

    effect_id: EffectId
    resource_id: ResourceId
    source_resource_id: ResourceId
    revision: int
    effect_type: str
    payload_hash: bytes
    status: EffectStatus
    attempt_count: int
    next_attempt_at: int | None
    result_hash: bytes | None
    error_hash: bytes | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an attempt ended, with the hashes of stored blobs.

    Attributes:
        next_attempt_at: UTC epoch ms before which the effect may not be taken again; None is at
            once. Only for one that goes back.
    """

    move: EffectMove
    outcome: EffectAttemptOutcome
    event_type: str
    result_hash: bytes | None = None
    error_hash: bytes | None = None
    next_attempt_at: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where an effect stands after a move, with the hashes of stored blobs."""

    status: EffectStatus
    result_hash: bytes | None = None
    error_hash: bytes | None = None
    next_attempt_at: int | None = None


SELECT_EFFECT: Final = """
    SELECT e.effect_id, e.resource_id, e.source_resource_id, r.revision, e.effect_type,
           e.payload_hash, e.status, e.attempt_count, e.next_attempt_at,
           e.result_hash, e.error_hash
      FROM effects AS e JOIN resources AS r ON r.resource_id = e.resource_id
     WHERE e.effect_id = :effect_id
"""

SELECT_UNSETTLED: Final = """
    SELECT e.effect_id, e.resource_id, e.source_resource_id, r.revision, e.effect_type,
           e.payload_hash, e.status, e.attempt_count, e.next_attempt_at,
           e.result_hash, e.error_hash
      FROM effects AS e JOIN resources AS r ON r.resource_id = e.resource_id
     WHERE e.source_resource_id = :source AND e.settled_at IS NULL
     ORDER BY e.created_at, e.effect_id
"""

UPDATE_EFFECT: Final = """
    UPDATE effects
       SET status = :status, attempt_count = :attempt_count,
           next_attempt_at = :next_attempt_at, result_hash = :result_hash,
           error_hash = :error_hash, updated_at = :now,
           settled_at = CASE WHEN :status IN ('applied', 'rejected', 'cancelled') THEN :now END
     WHERE effect_id = :effect_id AND status = :expected AND attempt_count = :expected_count
"""

INSERT_EFFECT_ATTEMPT: Final = """
    INSERT INTO effect_attempts (effect_id, attempt_number, owner_id, lease_generation, started_at)
    VALUES (:effect_id, :attempt_number, :owner_id, :lease_generation, :now)
"""

UPDATE_EFFECT_ATTEMPT: Final = """
    UPDATE effect_attempts
       SET finished_at = :now, outcome = :outcome, result_hash = :result_hash,
           error_hash = :error_hash
     WHERE effect_id = :effect_id AND attempt_number = :attempt_number AND finished_at IS NULL
"""

ROW_STATEMENTS: Final = {"SELECT_EFFECT": EffectRow, "SELECT_UNSETTLED": EffectRow}


def find(reading: Reading, effect: EffectId) -> EffectRow | None:
    """Return the effect, or None when there is none."""
    return reading.one(EffectRow, SELECT_EFFECT, {"effect_id": effect})


def unsettled(reading: Reading, source: ResourceId) -> list[EffectRow]:
    """Return the source's pending, applying and ambiguous effects, oldest first."""
    return reading.many(EffectRow, SELECT_UNSETTLED, {"source": source})


def ambiguous(reading: Reading, source: ResourceId) -> tuple[EffectRow, ...]:
    """Return the source's effects of which nobody knows whether they happened, oldest first."""
    return tuple(
        effect for effect in unsettled(reading, source) if effect.status is EffectStatus.AMBIGUOUS
    )


def open_attempt(
    tx: Transaction, source: Recorder, effect: EffectId, number: int, owner_id: str
) -> None:
    """Insert try `number`, under the generation that authorises its source to act."""
    assert source.generation is not None, "whoever acts on the outside world holds a claim"
    tx.execute(
        INSERT_EFFECT_ATTEMPT,
        {
            "effect_id": effect,
            "attempt_number": number,
            "owner_id": owner_id,
            "lease_generation": source.generation,
            "now": tx.now,
        },
    )


def close_attempt(tx: Transaction, effect: EffectId, number: int, end: Settlement) -> None:
    """Close the open try `number` as the settlement says."""
    affected_one(
        tx.execute(
            UPDATE_EFFECT_ATTEMPT,
            {
                "effect_id": effect,
                "attempt_number": number,
                "outcome": end.outcome,
                "result_hash": end.result_hash,
                "error_hash": end.error_hash,
                "now": tx.now,
            },
        )
    )


def set_outcome(tx: Transaction, effect: EffectRow, attempt_count: int, outcome: Outcome) -> None:
    """Write where the effect stands; fenced by the status and count that were read."""
    affected_one(
        tx.execute(
            UPDATE_EFFECT,
            {
                "effect_id": effect.effect_id,
                "status": outcome.status,
                "attempt_count": attempt_count,
                "result_hash": outcome.result_hash,
                "error_hash": outcome.error_hash,
                "next_attempt_at": outcome.next_attempt_at,
                "expected": effect.status,
                "expected_count": effect.attempt_count,
                "now": tx.now,
            },
        )
    )


def record(tx: Transaction, source: Recorder, effect: EffectRow, happening: Happening) -> int:
    """Write an event of the effect, in the name of whoever changes its source."""
    own = Recorder(
        tx,
        Change(ResourceType.EFFECT, effect.effect_id),
        effect.resource_id,
        effect.revision,
        source.actor,
        source.generation,
    )
    return own.record(happening)
