"""The outbox: every outside action as a row with numbered attempts and an honest outcome.

An effect is an aggregate of its own: its events tell its life, its source's events do not. The
claim on the source run authorises what that run sources (README 26); effect leases are for
effect workers. Nothing here runs user code.
"""

import dataclasses
from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, canonical_text
from pi_workflows.protocol.ids import EffectId, ResourceId, effect_id
from pi_workflows.protocol.states import (
    EffectAttemptOutcome,
    EffectScope,
    EffectStatus,
    RecoveryKind,
    ResourceType,
)
from store import blobs, resources
from store.errors import EffectConflictError, IllegalTransitionError
from store.machines.effect import EFFECT_MACHINE, EffectMove
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
    result_hash: bytes | None


@dataclass(frozen=True, slots=True)
class Taken:
    """An effect that its caller may now act on, or need not.

    Attributes:
        attempt_number: number of the attempt to settle, or to look for while the effect is
            pending; 0 when nothing is to be done.
        result_hash: saved result of an effect that is applied already.
    """

    effect_id: EffectId
    status: EffectStatus
    attempt_number: int
    result_hash: bytes | None


@dataclass(frozen=True, slots=True)
class EffectPlan:
    """What a run intends to do to the outside world.

    Attributes:
        effect_type: stable name of the outside operation.
        key: idempotency key within the source; made by the engine only.
        payload: request and recovery kind; equal payloads adopt, others conflict.
    """

    effect_type: str
    key: str
    payload: blobs.Blob


SELECT_EFFECT: Final = """
    SELECT e.effect_id, e.resource_id, e.source_resource_id, r.revision, e.effect_type,
           e.payload_hash, e.status, e.attempt_count, e.result_hash
      FROM effects AS e JOIN resources AS r ON r.resource_id = e.resource_id
     WHERE e.effect_id = :effect_id
"""

SELECT_UNSETTLED: Final = """
    SELECT e.effect_id, e.resource_id, e.source_resource_id, r.revision, e.effect_type,
           e.payload_hash, e.status, e.attempt_count, e.result_hash
      FROM effects AS e JOIN resources AS r ON r.resource_id = e.resource_id
     WHERE e.source_resource_id = :source AND e.settled_at IS NULL
     ORDER BY e.created_at, e.effect_id
"""

INSERT_EFFECT: Final = """
    INSERT INTO effects (effect_id, resource_id, source_resource_id, source_revision, effect_type,
                         idempotency_key, payload_hash, owner_scope, status, attempt_count,
                         created_at, updated_at)
    VALUES (:effect_id, :resource_id, :source, :source_revision, :effect_type, :key,
            :payload_hash, :owner_scope, 'pending', 0, :now, :now)
"""

UPDATE_EFFECT: Final = """
    UPDATE effects
       SET status = :status, attempt_count = :attempt_count, result_hash = :result_hash,
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


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an attempt ended, with the hashes of stored blobs."""

    move: EffectMove
    outcome: EffectAttemptOutcome
    event_type: str
    result_hash: bytes | None = None
    error_hash: bytes | None = None


def action_key(run_id: str, effect_type: str, node_id: str, visit: int) -> str:
    """Return the key of a node's effect: the same on a crash retry, another on re-entry."""
    return canonical_text([run_id, effect_type, node_id, visit])


def plan(effect_type: str, key: str, *, request: object, recovery: RecoveryKind) -> EffectPlan:
    """Make a plan; hash it before the transaction begins."""
    payload = blobs.Blob.of_json({"request": request, "recovery": recovery.value})
    return EffectPlan(effect_type, key, payload)


def find(reading: Reading, effect: EffectId) -> EffectRow | None:
    """Return the effect, or None when there is none."""
    return reading.one(EffectRow, SELECT_EFFECT, {"effect_id": effect})


def unsettled(reading: Reading, source: ResourceId) -> list[EffectRow]:
    """Return the source's pending, applying and ambiguous effects, oldest first."""
    return reading.many(EffectRow, SELECT_UNSETTLED, {"source": source})


def recovery_of(reading: Reading, effect: EffectRow) -> RecoveryKind:
    """Return what may be done with the effect after a crash."""
    payload = blobs.read_json(reading, effect.payload_hash)
    assert isinstance(payload, dict)
    return RecoveryKind(str(payload["recovery"]))


def create(
    tx: Transaction, source: Recorder, wanted: EffectPlan, scope: EffectScope, event_type: str
) -> EffectRow:
    """Insert a pending effect of the source's current revision, or adopt the equal one.

    Raises:
        EffectConflictError: this key was used for another payload.
    """
    identity = effect_id(source.resource_id, wanted.effect_type, wanted.key)
    found = find(tx, identity)
    if found is not None:
        if found.payload_hash != wanted.payload.blob_hash:
            raise EffectConflictError(wanted.effect_type)
        return found
    resource = resources.create(tx, ResourceType.EFFECT, identity)
    tx.execute(
        INSERT_EFFECT,
        {
            "effect_id": identity,
            "resource_id": resource,
            "source": source.resource_id,
            "source_revision": source.revision,
            "effect_type": wanted.effect_type,
            "key": wanted.key,
            "payload_hash": blobs.put(tx, wanted.payload),
            "owner_scope": scope,
            "now": tx.now,
        },
    )
    created = EffectRow(
        identity,
        resource,
        source.resource_id,
        0,
        wanted.effect_type,
        wanted.payload.blob_hash,
        EffectStatus.PENDING,
        0,
        None,
    )
    happening = Happening(event_type, {"effectType": wanted.effect_type})
    return dataclasses.replace(created, revision=_record(tx, source, created, happening))


def reserve(
    tx: Transaction,
    source: Recorder,
    wanted: EffectPlan,
    owner_id: str,
    *,
    look_first: bool = False,
) -> Taken:
    """Take an effect before its callback runs: the attempt is numbered and durable first.

    Race contract: one attempt is `applying` at a time. An applied effect with the same payload
    is adopted with its saved result; the callback must not run.

    Args:
        look_first: do not take an effect that had an attempt; say `pending` with that attempt's
            number, so that the caller looks whether it is there.

    Raises:
        EffectConflictError: this key was used for another payload.
        IllegalTransitionError: the effect is applying, ambiguous, rejected or cancelled.
    """
    effect = create(tx, source, wanted, EffectScope.RUN, "effect.reserved")
    if effect.status is EffectStatus.APPLIED:
        source.adopted = True
        return Taken(effect.effect_id, effect.status, 0, effect.result_hash)
    if look_first and effect.status is EffectStatus.PENDING and effect.attempt_count:
        source.adopted = True
        return Taken(effect.effect_id, effect.status, effect.attempt_count, None)
    status = EFFECT_MACHINE.apply(effect.status, EffectMove.TAKE)
    number = effect.attempt_count + 1
    if effect.attempt_count:
        _record(tx, source, effect, Happening("effect.retry_started", {"attempt": number}))
    _open_attempt(tx, source, effect.effect_id, number, owner_id)
    _set(tx, effect, status, number, None)
    return Taken(effect.effect_id, status, number, None)


def settle(
    tx: Transaction, source: Recorder, effect: EffectRow, number: int, end: Settlement
) -> EffectRow:
    """Close the current attempt, move the effect and return it as it now stands.

    Raises:
        IllegalTransitionError: `number` is not the current attempt, or none is applying.
    """
    if effect.status is not EffectStatus.APPLYING:
        raise IllegalTransitionError(EFFECT_MACHINE.name, effect.status, "settle an attempt")
    if number != effect.attempt_count:
        raise IllegalTransitionError(EFFECT_MACHINE.name, effect.status, "settle an old attempt")
    status = EFFECT_MACHINE.apply(effect.status, end.move)
    revision = _record(tx, source, effect, Happening(end.event_type, {"attempt": number}))
    _close_attempt(tx, effect.effect_id, number, end)
    _set(tx, effect, status, number, end)
    return dataclasses.replace(
        effect, revision=revision, status=status, result_hash=end.result_hash
    )


def settle_observed(
    tx: Transaction, source: Recorder, effect: EffectRow, number: int, end: Settlement
) -> EffectRow:
    """Move a pending effect by what a look has found; no attempt is opened or changed.

    The newest attempt stays as it was closed: nobody saw its end, and the event says that it was
    found out later.

    Raises:
        IllegalTransitionError: `number` is not the newest attempt, there is none, or the effect
            is not pending.
    """
    if not number or number != effect.attempt_count:
        raise IllegalTransitionError(EFFECT_MACHINE.name, effect.status, "observe an old attempt")
    status = EFFECT_MACHINE.apply(effect.status, end.move)
    payload: JsonObject = {"attempt": number, "observed": True}
    revision = _record(tx, source, effect, Happening(end.event_type, payload))
    _set(tx, effect, status, number, end)
    return dataclasses.replace(
        effect, revision=revision, status=status, result_hash=end.result_hash
    )


def cancel_pending(tx: Transaction, source: Recorder, effect: EffectRow) -> None:
    """Cancel an effect on which nobody has acted."""
    status = EFFECT_MACHINE.apply(effect.status, EffectMove.CANCEL)
    _record(tx, source, effect, Happening("effect.cancelled"))
    _set(tx, effect, status, effect.attempt_count, None)


def apply_locally(
    tx: Transaction, source: Recorder, wanted: EffectPlan, owner_id: str
) -> EffectRow | None:
    """Store an effect as applied by the very transaction that makes its change.

    Exactly once: the identity and this transaction see to it.

    Returns:
        The effect now applied, or None when it was applied before: then change nothing.
    """
    effect = create(tx, source, wanted, EffectScope.RUN, "effect.created")
    if effect.status is EffectStatus.APPLIED:
        return None
    number = effect.attempt_count + 1
    _open_attempt(tx, source, effect.effect_id, number, owner_id)
    end = Settlement(EffectMove.APPLY_LOCALLY, EffectAttemptOutcome.APPLIED, "effect.applied")
    status = EFFECT_MACHINE.apply(effect.status, end.move)
    _record(tx, source, effect, Happening(end.event_type, {"attempt": number}))
    _close_attempt(tx, effect.effect_id, number, end)
    _set(tx, effect, status, number, end)
    return effect


def _open_attempt(
    tx: Transaction, source: Recorder, effect: EffectId, number: int, owner_id: str
) -> None:
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


def _close_attempt(tx: Transaction, effect: EffectId, number: int, end: Settlement) -> None:
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


def _set(
    tx: Transaction,
    effect: EffectRow,
    status: EffectStatus,
    attempt_count: int,
    end: Settlement | None,
) -> None:
    affected_one(
        tx.execute(
            UPDATE_EFFECT,
            {
                "effect_id": effect.effect_id,
                "status": status,
                "attempt_count": attempt_count,
                "result_hash": end.result_hash if end else None,
                "error_hash": end.error_hash if end else None,
                "expected": effect.status,
                "expected_count": effect.attempt_count,
                "now": tx.now,
            },
        )
    )


def _record(tx: Transaction, source: Recorder, effect: EffectRow, happening: Happening) -> int:
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
