"""Answer each runner message once: a repeat gets the stored answer, nothing happens again."""

from typing import Final, NamedTuple, cast

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import WorkerMessageOutcome
from store import blobs, workers
from store.authority import Permit, holding
from store.errors import ClaimLostError, Rejected
from store.proposals import Advanced, Granted, Message, Notice
from store.run_advance import advance_from
from store.run_standing import standing
from store.settings_scopes import Bound
from store.transaction import Transaction
from store.workers import Answer, AnsweredRow


class Answered(NamedTuple):
    """What the runner is told, and what its owner has to know.

    Attributes:
        revision: of the run after the message, or as it stands when refused.
        advanced: None when the message was refused or adopted.
        error: None unless refused.
    """

    outcome: WorkerMessageOutcome
    revision: int
    result: JsonObject
    advanced: Advanced | None = None
    error: str | None = None


_NOTHING: Final[JsonObject] = {}

OTHER_MESSAGE: Final = "this message id was used for another message"
"""Why a message is refused that has the id of another one."""


def advance_once(tx: Transaction, permit: Permit, message: Message) -> Answered:
    """Apply a `run.advance`, or repeat the answer given before.

    A refusal undoes the message alone and is stored, so that its repeat is refused alike.

    Raises:
        ClaimLostError: the sender's generation no longer owns the run; nothing was written.
    """
    found = standing(tx, message.run_id, message.worker_epoch, message.message_id)
    if found is not None and found.answered is not None:
        return _repeat(tx, message, found.answered)
    try:
        advanced = advance_from(tx, permit, message, found)
    except ClaimLostError:
        raise
    except Rejected as refused:
        tx.undo()
        return _refuse(tx, message, str(refused))
    result = _result(advanced)
    workers.store_answer(
        tx,
        message.worker_epoch,
        message.message_id,
        message.fingerprint,
        Answer(
            WorkerMessageOutcome.ACCEPTED,
            advanced.revision,
            blobs.put_json(tx, result) if advanced.tells else None,
        ),
    )
    return Answered(WorkerMessageOutcome.ACCEPTED, advanced.revision, result, advanced)


def _refuse(tx: Transaction, message: Message, error: str) -> Answered:
    workers.store_answer(
        tx,
        message.worker_epoch,
        message.message_id,
        message.fingerprint,
        Answer(
            WorkerMessageOutcome.REJECTED,
            None,
            error_hash=blobs.put(tx, blobs.Blob.of_text(error)),
        ),
    )
    return _refused(tx, message, error)


def _refused(tx: Transaction, message: Message, error: str) -> Answered:
    """Make the answer of a refusal, at the revision at which the run stands."""
    revision = holding(tx, run_resource_id(message.run_id)).revision
    return Answered(WorkerMessageOutcome.REJECTED, revision, _NOTHING, error=error)


def _repeat(tx: Transaction, message: Message, known: AnsweredRow) -> Answered:
    if known.request_fingerprint != message.fingerprint:
        return _refused(tx, message, OTHER_MESSAGE)
    if known.error_hash is not None:
        return _refused(tx, message, blobs.read_text(tx, known.error_hash))
    result = (
        cast("JsonObject", blobs.read_json(tx, known.result_hash))
        if known.result_hash is not None
        else {"transitions": [{} for _ in message.transitions]}
    )
    return Answered(WorkerMessageOutcome.ADOPTED, known.accepted_revision or 0, result)


def _result(advanced: Advanced) -> JsonObject:
    all_told = zip(advanced.grants, advanced.bindings, advanced.notices, strict=True)
    told: list[JsonValue] = [_told(*one) for one in all_told]
    return {"transitions": told}


def _told(granted: Granted | None, bound: Bound | None, notice: Notice | None) -> JsonObject:
    if bound is not None:
        return _bound(bound)
    if notice is None:
        return _grant(granted)
    return {"messageId": notice.message_id, "sessionId": notice.session_id}


def _bound(settings: Bound) -> JsonObject:
    told: JsonObject = {"scopeId": settings.scope_id, "changeNumber": settings.change_number}
    if settings.content is not None:
        told["valueContent"] = settings.content.to_json()
    elif not settings.known:
        told["value"] = settings.value
    answer: JsonObject = {"settings": told}
    if settings.reruns:
        answer["reruns"] = True
    return answer


def _grant(granted: Granted | None) -> JsonObject:
    if granted is None:
        return {}
    answer: JsonObject = {"effectId": granted.effect_id, "status": str(granted.status)}
    if granted.attempt_number:
        answer["attemptNumber"] = granted.attempt_number
    elif granted.content is not None:
        answer["resultContent"] = granted.content.to_json()
    else:
        answer["result"] = granted.result
    if granted.error is not None:
        answer["error"] = granted.error
    return answer
