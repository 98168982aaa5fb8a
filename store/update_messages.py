"""Answer each `run.publishUpdate` once: a repeat gets the stored answer, nothing happens again."""

from dataclasses import dataclass
from typing import Final, cast

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.ids import WorkerEpoch, run_resource_id
from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.protocol.timestamps import rfc3339
from store import blobs, workers
from store.authority import Permit, holding
from store.errors import ClaimLostError, Rejected
from store.run_messages import Answered
from store.transaction import Transaction
from store.updates import NewUpdate, publish
from store.workers import Answer, AnsweredRow

_NOTHING: Final[JsonObject] = {}


@dataclass(frozen=True, slots=True)
class UpdateMessage:
    """One runner message that publishes an update.

    Attributes:
        fingerprint: SHA-256 of the message's frame; equal repeats adopt.
    """

    run_id: str
    worker_epoch: WorkerEpoch
    message_id: str
    fingerprint: bytes
    update: NewUpdate


def publish_once(tx: Transaction, permit: Permit, message: UpdateMessage) -> Answered:
    """Publish an update, or repeat the answer given before.

    A refusal undoes the message alone and is stored, its code before its text.

    Raises:
        ClaimLostError: the sender's generation no longer owns the run; nothing was written.
    """
    known = workers.answered(tx, message.worker_epoch, message.message_id)
    if known is not None:
        return _repeat(tx, message, known)
    try:
        published = publish(tx, permit, message.run_id, message.update)
    except ClaimLostError:
        raise
    except Rejected as refused:
        tx.undo()
        error = f"{refused.code}: {refused}"
        error_hash = blobs.put(tx, blobs.Blob.of_text(error))
        _store(tx, message, Answer(WorkerMessageOutcome.REJECTED, None, error_hash=error_hash))
        return _refused(tx, message, error)
    result: JsonObject = {
        "updateId": published.update_id,
        "seq": published.seq,
        "at": rfc3339(published.at),
    }
    stored = Answer(WorkerMessageOutcome.ACCEPTED, published.seq, blobs.put_json(tx, result))
    _store(tx, message, stored)
    return Answered(WorkerMessageOutcome.ACCEPTED, published.seq, result)


def _store(tx: Transaction, message: UpdateMessage, answer: Answer) -> None:
    workers.store_answer(tx, message.worker_epoch, message.message_id, message.fingerprint, answer)


def _refused(tx: Transaction, message: UpdateMessage, error: str) -> Answered:
    revision = holding(tx, run_resource_id(message.run_id)).revision
    return Answered(WorkerMessageOutcome.REJECTED, revision, _NOTHING, error=error)


def _repeat(tx: Transaction, message: UpdateMessage, known: AnsweredRow) -> Answered:
    if known.request_fingerprint != message.fingerprint:
        return _refused(tx, message, "this message id was used for another message")
    if known.error_hash is not None:
        return _refused(tx, message, blobs.read_text(tx, known.error_hash))
    assert known.result_hash is not None, "a published update has a result"
    result = cast("JsonObject", blobs.read_json(tx, known.result_hash))
    return Answered(WorkerMessageOutcome.ADOPTED, known.accepted_revision or 0, result)
