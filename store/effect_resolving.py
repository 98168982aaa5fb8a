"""An operator says what became of an effect whose outcome nobody knew."""

import enum
from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.ids import EffectId, run_resource_id
from pi_workflows.protocol.states import (
    AttemptStatus,
    EffectStatus,
    ParkReason,
    QueueStatus,
    ResourceType,
    RunStatus,
)
from store import attempts, blobs, effect_rows, effects, run_queue, runs
from store.authority import Operation, Permit, require_actor, revise
from store.effect_errors import (
    EffectNotAmbiguousError,
    EffectSettledError,
    EffectUnknownError,
    RetryRefusedError,
)
from store.effect_rows import EffectRow
from store.machines.attempt import AttemptMove
from store.machines.effect import EffectMove
from store.machines.queue import QueueMove
from store.resources import Recorder, run_event
from store.runs import RunRow
from store.transaction import Change, Reading, Transaction


class Verb(enum.StrEnum):
    """What an operator may say."""

    APPLIED = "applied"
    REJECTED = "rejected"
    RETRY = "retry"


_MOVES: Final = {
    Verb.APPLIED: (EffectMove.APPLY, "effect.applied"),
    Verb.REJECTED: (EffectMove.REJECT, "effect.rejected"),
    Verb.RETRY: (EffectMove.RETRY, "effect.retry_ready"),
}


@dataclass(frozen=True, slots=True)
class Resolution:
    """What an operator says.

    Attributes:
        reason: how he knows, 1 to 2,048 characters.
        output: what the node's function would have returned; None unless applied, and then null.
    """

    verb: Verb
    reason: str
    output: blobs.Blob | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """What became of it.

    Attributes:
        status: of the effect, as it now stands.
        run_status: of its run; a resolution does not change it by itself.
        run_revision: of its run.
        goes_on: the run is due again; False when it has ended or waits for something else.
        paused: the run was paused: only a resume lets it go on.
        adopted: the same had been said before; nothing was done again.
    """

    effect_id: EffectId
    run_id: str
    status: EffectStatus
    run_status: RunStatus
    run_revision: int
    goes_on: bool
    paused: bool
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class SourceRow:
    """The run that sources an effect."""

    run_id: str


@dataclass(frozen=True, slots=True)
class SaidRow:
    """The payload of the newest event by which an operator resolved an effect."""

    payload_hash: bytes


SELECT_SOURCE: Final = """
    SELECT r.run_id FROM effects AS e JOIN runs AS r ON r.resource_id = e.source_resource_id
     WHERE e.effect_id = :effect_id
"""

SELECT_SAID: Final = """
    SELECT payload_hash FROM events
     WHERE resource_id = :resource_id AND actor_type = 'control'
       AND event_type IN ('effect.applied', 'effect.rejected', 'effect.retry_ready')
     ORDER BY resource_revision DESC LIMIT 1
"""

ROW_STATEMENTS: Final = {"SELECT_SOURCE": SourceRow, "SELECT_SAID": SaidRow}


def resolve_effect(
    tx: Transaction, permit: Permit, effect_id: str, resolution: Resolution
) -> Resolved:
    """Settle an ambiguous effect, or let it be tried again, on a person's word.

    The word is one event of the effect, with its reason. No attempt is touched: they say what was
    seen then. In the same commit a run that waits for nothing else becomes due, and its next
    runner comes back to the same visit of the same node: it adopts what is applied, fails the
    node over what is rejected, and tries again, under the next number, what is to be retried.

    Race contract: of any number of words the first one moves the effect. The same word for the
    same reason adopts it; any other is told what stands.

    Raises:
        AuthorityError: only control resolves.
        EffectUnknownError: no run has such an effect.
        EffectNotAmbiguousError: the effect is pending or applying: its run is at it.
        EffectSettledError: it is settled, or was resolved in another way.
        RetryRefusedError: its run has ended.
        StaleResourceError: the run is not at the revision that the caller has seen.
        ClaimLostError: the run is owned, and the permit's claim is not its claim.
    """
    require_actor(permit.actor, Operation.RESOLVE_EFFECT)
    identity = EffectId(effect_id)
    effect = effect_rows.find(tx, identity)
    source = source_of(tx, effect_id)
    if effect is None or source is None:
        raise EffectUnknownError(effect_id)
    run = runs.require(tx, source)
    with revise(tx, permit, run_resource_id(run.run_id), Operation.RESOLVE_EFFECT) as recorder:
        status, goes_on = effect.status, _is_due(tx, run)
        if status is not EffectStatus.AMBIGUOUS:
            _adopt(tx, effect, run, resolution)
            recorder.adopted = True
        elif resolution.verb is Verb.RETRY and run.terminal:
            raise RetryRefusedError(run.run_id, run.status)
        else:
            status = _move(tx, recorder, effect, resolution)
            goes_on = _let_go_on(tx, recorder, run)
    return Resolved(
        identity,
        run.run_id,
        status,
        run.status,
        recorder.revision,
        goes_on,
        bool(run.paused),
        adopted=recorder.adopted,
    )


def source_of(reading: Reading, effect_id: str) -> str | None:
    """Return the run that sources an effect; None when no run does."""
    source = reading.one(SourceRow, SELECT_SOURCE, {"effect_id": effect_id})
    return None if source is None else source.run_id


def _adopt(tx: Transaction, effect: EffectRow, run: RunRow, resolution: Resolution) -> None:
    """Return if this very word was said before; else refuse it, naming what stands."""
    said = _said_before(tx, effect)
    if said == _words(resolution):
        return
    if said is None and effect.status in {EffectStatus.PENDING, EffectStatus.APPLYING}:
        raise EffectNotAmbiguousError(effect.status, run.run_id)
    if said is None:
        raise EffectSettledError(effect.status, None)
    raise EffectSettledError(effect.status, str(said["verb"]), _others(said, _words(resolution)))


def _others(said: JsonObject, words: JsonObject) -> list[str]:
    """Return what else than the verb differs; nothing where the verbs do."""
    if said["verb"] != words["verb"]:
        return []
    names = {"reason": "reason", "outputDigest": "output"}
    return [names[key] for key in names if said.get(key) != words.get(key)]


def _said_before(reading: Reading, effect: EffectRow) -> JsonObject | None:
    row = reading.one(SaidRow, SELECT_SAID, {"resource_id": effect.resource_id})
    if row is None:
        return None
    said = blobs.read_json(reading, row.payload_hash)
    assert isinstance(said, dict)
    return {name: value for name, value in said.items() if name != "attempt"}


def _words(resolution: Resolution) -> JsonObject:
    """Return what the event says, without the attempt; equal words are one word."""
    words: JsonObject = {"verb": resolution.verb.value, "reason": resolution.reason}
    if resolution.output is not None:
        words["outputDigest"] = resolution.output.blob_hash.hex()
    return words


def _move(
    tx: Transaction, recorder: Recorder, effect: EffectRow, resolution: Resolution
) -> EffectStatus:
    move, event_type = _MOVES[resolution.verb]
    evidence = effects.Evidence(
        move,
        event_type,
        {**_words(resolution), "attempt": effect.attempt_count},
        blobs.put_optional(tx, resolution.output),
        blobs.put(tx, blobs.Blob.of_text(resolution.reason)),
    )
    tx.changes.add(Change(ResourceType.RUN, recorder.change.aggregate_key))
    return effects.resolve(tx, recorder, effect, evidence).status


def _let_go_on(tx: Transaction, recorder: Recorder, run: RunRow) -> bool:
    """Make a run due that waited for this word alone; say whether it is: a pause outlasts it."""
    queued = run_queue.find(tx, run.run_id)
    if (
        run.status is not RunStatus.WAITING
        or queued is None
        or queued.error_code != ParkReason.EFFECT_AMBIGUOUS
        or effect_rows.ambiguous(tx, recorder.resource_id)
    ):
        return False
    recorder.record(run_event("run.resume_requested", {"reason": "effectResolved"}))
    attempt = attempts.unfinished(tx, run.run_id)
    if attempt is not None and attempt.status is AttemptStatus.WAITING:
        attempts.move(tx, attempt, AttemptMove.INTERRUPT)
    run_queue.move(tx, queued, QueueMove.RESUME, available_at=tx.now, consecutive_errors=0)
    runs.touch(tx, run.run_id, detail=None)
    return not run.paused


def _is_due(reading: Reading, run: RunRow) -> bool:
    queued = run_queue.find(reading, run.run_id)
    return queued is not None and queued.status is QueueStatus.QUEUED and not run.paused
