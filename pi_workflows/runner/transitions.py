"""The transitions of `run.advance`."""

from dataclasses import dataclass
from typing import Any, Final

from pi_workflows.authoring.conversation import NoticeOptions
from pi_workflows.authoring.definition import NodeDefinition
from pi_workflows.authoring.effects import EffectSpec
from pi_workflows.authoring.mounts import Entry
from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_bytes, digest_hex
from pi_workflows.protocol.definition import EndRun
from pi_workflows.protocol.retry import RETRY_AFTER
from pi_workflows.protocol.states import EffectAttemptOutcome, RecoveryKind, RunStatus, StepOutcome
from pi_workflows.runner.messages import CallResult

REQUEST_BYTES_MAX: Final = 262_144
"""A larger effect request is sent as its SHA-256: it serves comparison only."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """An effect of this run that may be carried out now.

    Attributes:
        attempt_number: counts the tries of this effect from 1.
    """

    effect_id: str
    attempt_number: int
    recovery: str

    @property
    def repeatable(self) -> bool:
        """Whether it may be tried again although it may have happened: harmless, or seen first."""
        return self.recovery != RecoveryKind.MANUAL


def start_attempt(
    node: NodeDefinition,
    attempt_id: str,
    visit: int,
    started_at: int,
    settings_known: int | None = None,
) -> JsonObject:
    """Open an attempt.

    Args:
        started_at: UTC epoch milliseconds.
        settings_known: the change up to which its settings are known here; None when they are not.
    """
    transition: JsonObject = {
        "type": "startAttempt",
        "attemptId": attempt_id,
        "nodeId": node.node_id,
        "nodeType": node.node_type.value,
        "visit": visit,
        "startedAt": started_at,
    }
    if node.status_detail is not None:
        transition["statusDetail"] = node.status_detail
    if settings_known is not None:
        transition["settingsKnown"] = settings_known
    return transition


def set_deadline(attempt_id: str, timeout_ms: int | None) -> JsonObject:
    """State the attempt's budget; None is unlimited, which is stored as 0."""
    return {"type": "setDeadline", "attemptId": attempt_id, "timeoutMs": timeout_ms or 0}


def reserve_effect(
    node_id: str, attempt_id: str, visit: int, effect: EffectSpec[Any], request: JsonValue
) -> JsonObject:
    """Ask for the right to carry out the node's effect; the server builds its key."""
    encoded = canonical_bytes(request)
    if len(encoded) > REQUEST_BYTES_MAX:
        request = {"sha256": digest_hex(encoded), "bytes": len(encoded)}
    return {
        "type": "reserveEffect",
        "attemptId": attempt_id,
        "nodeId": node_id,
        "visit": visit,
        "effectType": effect.effect_type,
        "recovery": effect.recovery,
        "request": request,
    }


def settle_effect(reservation: Reservation, result: CallResult, *, retried: bool) -> JsonObject:
    """Record how a try of an effect ended (B §2).

    Code that did its work has applied it, also when only its output is refused. With `retried` it
    goes back to be tried again. Else one whose outcome is uncertain is `ambiguous`, unless it is
    idempotent: then it is `rejected`, since carrying it out again is harmless.
    """
    transition: JsonObject = {
        "type": "settleEffect",
        "effectId": reservation.effect_id,
        "attemptNumber": reservation.attempt_number,
    }
    if result.error is not None:
        transition["error"] = result.error
    if result.outcome is StepOutcome.OK or result.returned:
        transition["outcome"] = EffectAttemptOutcome.APPLIED.value
        transition["result"] = result.output
        return transition
    outcome = EffectAttemptOutcome.REJECTED
    if retried:
        transition |= retry_fields(result)
        if result.uncertain:
            outcome = EffectAttemptOutcome.INTERRUPTED
    elif result.uncertain and reservation.recovery != RecoveryKind.IDEMPOTENT:
        outcome = EffectAttemptOutcome.AMBIGUOUS
    transition["outcome"] = outcome.value
    return transition


def retry_fields(result: CallResult) -> JsonObject:
    """Return what says that another try follows, and when, if not by the node's rule."""
    fields: JsonObject = {"retry": True}
    if result.retry_after_ms is not None:
        fields[RETRY_AFTER] = result.retry_after_ms
    return fields


def asked_wait(result: CallResult) -> JsonObject:
    """Return the receipt of a try whose code asked for the wait before the next one; else {}.

    By it a wait that an author means is told from one after a failure.
    """
    if result.retry_after_ms is None:
        return {}
    return {"receipt": {**(result.receipt or {}), RETRY_AFTER: result.retry_after_ms}}


def finish_attempt(node_id: str, attempt_id: str, result: CallResult) -> JsonObject:
    """Close an attempt; its output is present iff the outcome is `ok`."""
    transition: JsonObject = {
        "type": "finishAttempt",
        "attemptId": attempt_id,
        "nodeId": node_id,
        "outcome": result.outcome.value,
    }
    if result.outcome is StepOutcome.OK:
        transition["output"] = result.output
    if result.error is not None:
        transition["error"] = result.error
    if result.receipt is not None:
        transition["receipt"] = result.receipt
    return transition


def cross_mount(node: NodeDefinition, attempt_id: str, output: JsonValue) -> JsonObject:
    """Close an attempt that has entered or left an included workflow."""
    entered = isinstance(node.crossing, Entry)
    return {
        "type": "enterInclude" if entered else "exitInclude",
        "attemptId": attempt_id,
        "nodeId": node.node_id,
        "output": output,
    }


def notify(node: NodeDefinition, attempt_id: str, text: JsonValue) -> JsonObject:
    """Write a text to the conversation of the run; a repeat of the visit adopts it."""
    assert isinstance(node.conversation, NoticeOptions)
    return {
        "type": "notify",
        "attemptId": attempt_id,
        "nodeId": node.node_id,
        "kind": str(node.conversation.kind),
        "text": text,
    }


def finish_run(end: EndRun, last_output: JsonValue) -> JsonObject:
    """End the run; a completed one takes the last accepted output as its final output."""
    transition: JsonObject = {"type": "finishRun", "status": end.status.value}
    if end.status is RunStatus.COMPLETED:
        transition["finalOutput"] = last_output
    if end.error is not None:
        transition["error"] = end.error
    return transition
