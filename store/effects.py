"""The outbox: every outside action as a row with numbered attempts and an honest outcome.

An effect is an aggregate of its own: its events tell its life, its source's events do not. The
claim on the source run authorises what that run sources (README 26); effect leases are for
effect workers. Nothing here runs user code.
"""

import dataclasses
from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, canonical_text
from pi_workflows.protocol.ids import EffectId, effect_id
from pi_workflows.protocol.states import (
    EffectAttemptOutcome,
    EffectScope,
    EffectStatus,
    RecoveryKind,
    ResourceType,
)
from store import blobs, resources
from store.effect_errors import EffectNotDueError
from store.effect_rows import (
    EffectRow,
    Outcome,
    Settlement,
    close_attempt,
    find,
    open_attempt,
    record,
    set_outcome,
)
from store.errors import EffectConflictError, IllegalTransitionError
from store.machines.effect import EFFECT_MACHINE, EffectMove
from store.resources import Happening, Recorder
from store.transaction import Reading, Transaction


@dataclass(frozen=True, slots=True)
class Taken:
    """An effect that its caller may now act on, or need not.

    Attributes:
        attempt_number: number of the attempt to settle, or to look for while the effect is
            pending; 0 when nothing is to be done.
        result_hash: saved result of an effect that is applied already.
        error_hash: why an effect that is settled otherwise is so; None when nobody said.
    """

    effect_id: EffectId
    status: EffectStatus
    attempt_number: int
    result_hash: bytes | None
    error_hash: bytes | None = None


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


INSERT_EFFECT: Final = """
    INSERT INTO effects (effect_id, resource_id, source_resource_id, source_revision, effect_type,
                         idempotency_key, payload_hash, owner_scope, status, attempt_count,
                         created_at, updated_at)
    VALUES (:effect_id, :resource_id, :source, :source_revision, :effect_type, :key,
            :payload_hash, :owner_scope, 'pending', 0, :now, :now)
"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a person knows of an ambiguous effect.

    Attributes:
        words: payload of the event: verb and reason.
        result_hash: of a stored JSON blob; None unless applied.
        reason_hash: of the stored reason, kept where an attempt's error would stand.
    """

    move: EffectMove
    event_type: str
    words: JsonObject
    result_hash: bytes | None
    reason_hash: bytes


def action_key(run_id: str, effect_type: str, node_id: str, visit: int) -> str:
    """Return the key of a node's effect: the same on a crash retry, another on re-entry."""
    return canonical_text([run_id, effect_type, node_id, visit])


def plan(effect_type: str, key: str, *, request: object, recovery: RecoveryKind) -> EffectPlan:
    """Make a plan; hash it before the transaction begins."""
    payload = blobs.Blob.of_json({"request": request, "recovery": recovery.value})
    return EffectPlan(effect_type, key, payload)


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
        None,
        None,
    )
    happening = Happening(event_type, {"effectType": wanted.effect_type})
    return dataclasses.replace(created, revision=record(tx, source, created, happening))


def reserve(
    tx: Transaction,
    source: Recorder,
    wanted: EffectPlan,
    owner_id: str,
    *,
    look_first: bool = False,
) -> Taken:
    """Take an effect before its callback runs: the attempt is numbered and durable first.

    Race contract: one attempt is `applying` at a time. An effect with the same payload that is
    applied or rejected is adopted as it is, with its saved result or reason; the callback must
    not run.

    Args:
        look_first: do not take an effect that had an attempt; say `pending` with that attempt's
            number, so that the caller looks whether it is there.

    Raises:
        EffectConflictError: this key was used for another payload.
        EffectNotDueError: its next attempt is not due yet.
        IllegalTransitionError: the effect is applying, ambiguous or cancelled.
    """
    effect = create(tx, source, wanted, EffectScope.RUN, "effect.reserved")
    if effect.status in {EffectStatus.APPLIED, EffectStatus.REJECTED}:
        source.adopted = True
        return Taken(effect.effect_id, effect.status, 0, effect.result_hash, effect.error_hash)
    if effect.next_attempt_at is not None and effect.next_attempt_at > tx.now:
        raise EffectNotDueError(effect.next_attempt_at)
    if look_first and effect.status is EffectStatus.PENDING and effect.attempt_count:
        source.adopted = True
        return Taken(effect.effect_id, effect.status, effect.attempt_count, None)
    status = EFFECT_MACHINE.apply(effect.status, EffectMove.TAKE)
    number = effect.attempt_count + 1
    if effect.attempt_count:
        record(tx, source, effect, Happening("effect.retry_started", {"attempt": number}))
    open_attempt(tx, source, effect.effect_id, number, owner_id)
    set_outcome(tx, effect, number, Outcome(status))
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
    revision = record(tx, source, effect, Happening(end.event_type, {"attempt": number}))
    close_attempt(tx, effect.effect_id, number, end)
    set_outcome(
        tx, effect, number, Outcome(status, end.result_hash, end.error_hash, end.next_attempt_at)
    )
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
    revision = record(tx, source, effect, Happening(end.event_type, payload))
    set_outcome(tx, effect, number, Outcome(status, end.result_hash, end.error_hash))
    return dataclasses.replace(
        effect, revision=revision, status=status, result_hash=end.result_hash
    )


def resolve(tx: Transaction, source: Recorder, effect: EffectRow, evidence: Evidence) -> EffectRow:
    """Move an ambiguous effect on evidence; attempts stay as they were closed.

    Raises:
        IllegalTransitionError: it is not ambiguous.
    """
    if effect.status is not EffectStatus.AMBIGUOUS:
        raise IllegalTransitionError(EFFECT_MACHINE.name, effect.status, evidence.move)
    status = EFFECT_MACHINE.apply(effect.status, evidence.move)
    revision = record(tx, source, effect, Happening(evidence.event_type, evidence.words))
    outcome = Outcome(status, evidence.result_hash, evidence.reason_hash)
    set_outcome(tx, effect, effect.attempt_count, outcome)
    return dataclasses.replace(
        effect, revision=revision, status=status, result_hash=evidence.result_hash
    )


def make_due(tx: Transaction, source: Recorder, effect: EffectRow) -> None:
    """Let a pending effect be tried at once, whatever instant it was waiting for."""
    assert effect.status is EffectStatus.PENDING, "only a pending effect waits for an instant"
    payload: JsonObject = {"attempt": effect.attempt_count, "resumed": True}
    record(tx, source, effect, Happening("effect.retry_ready", payload))
    outcome = Outcome(effect.status, effect.result_hash, effect.error_hash)
    set_outcome(tx, effect, effect.attempt_count, outcome)


def cancel_pending(tx: Transaction, source: Recorder, effect: EffectRow) -> None:
    """Cancel an effect on which nobody has acted."""
    status = EFFECT_MACHINE.apply(effect.status, EffectMove.CANCEL)
    record(tx, source, effect, Happening("effect.cancelled"))
    set_outcome(tx, effect, effect.attempt_count, Outcome(status))


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
    open_attempt(tx, source, effect.effect_id, number, owner_id)
    end = Settlement(EffectMove.APPLY_LOCALLY, EffectAttemptOutcome.APPLIED, "effect.applied")
    status = EFFECT_MACHINE.apply(effect.status, end.move)
    record(tx, source, effect, Happening(end.event_type, {"attempt": number}))
    close_attempt(tx, effect.effect_id, number, end)
    set_outcome(tx, effect, number, Outcome(status, end.result_hash, end.error_hash))
    return effect
