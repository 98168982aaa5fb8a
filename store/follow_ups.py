"""Follow-ups: prompts for work after the success of a run, as facts (B §7.5).

Accepted, removed, cancelled is what is stored here, one event each. Whether a follow-up was sent
is a fact of its message, which is written with it. A run without a conversation has nobody to
send it to: its follow-ups are kept without a message, for whoever asks.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pi_workflows.protocol.ids import FOLLOW_UP_REQUEST, ResourceId, follow_up_id
from pi_workflows.protocol.states import (
    ActorType,
    FollowUpState,
    FollowUpStatus,
    MessageKind,
    MessageStatus,
    ResourceType,
    RunStatus,
)
from store import blobs, resources, runs, workflow_messages
from store.authority import Operation, Permit, holding, require_actor, revise
from store.blobs import Blob
from store.errors import IdempotencyConflictError
from store.follow_up_errors import (
    FollowUpInvalidError,
    FollowUpNotYoursError,
    FollowUpOverError,
    FollowUpTooEarlyError,
    FollowUpUnknownError,
)
from store.machines.follow_up import FOLLOW_UP_MACHINE, FollowUpMove
from store.resources import Actor, Happening, Recorder
from store.run_resuming import RunEndedError
from store.runs import RunRow
from store.transaction import Change, Reading, Transaction, affected_one
from store.workflow_messages import MessageRow, NewMessage

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

PROMPT_BYTES_MAX: Final = 65_536
"""Longest prompt, in bytes of its UTF-8."""

SOURCE_CHARS_MAX: Final = 128
"""Longest label of where a follow-up comes from."""

REASON_CHARS_MAX: Final = 2_048
"""Longest reason of a removal."""


@dataclass(frozen=True, slots=True)
class NewFollowUp:
    """A prompt, hashed before the transaction.

    Attributes:
        request_id: of this run; a repeat with the same content adopts.
        source: where it comes from, a label of 1 to 128 characters.
    """

    run_id: str
    request_id: str
    source: str
    prompt: Blob


@dataclass(frozen=True, slots=True)
class FollowUpReply:
    """What became of a follow-up.

    Attributes:
        order: its place among those of its run, from 1.
        revision: of the follow-up.
        adopted: it stood so before; nothing was written.
    """

    follow_up_id: str
    order: int
    status: FollowUpStatus
    revision: int
    adopted: bool


class FollowUpRow(NamedTuple):
    """A follow-up, with the revision of its resource."""

    follow_up_id: str
    resource_id: ResourceId
    revision: int
    run_id: str
    order_number: int
    actor_type: ActorType
    actor_id: str | None
    source_type: str
    prompt_hash: bytes
    status: FollowUpStatus


class LastOrderRow(NamedTuple):
    """The newest place in the order of a run."""

    order_number: int


SELECT_FOLLOW_UP: Final = """
    SELECT f.follow_up_id, f.resource_id, o.revision, f.run_id, f.order_number, f.actor_type,
           f.actor_id, f.source_type, f.prompt_hash, f.status
      FROM workflow_follow_ups AS f JOIN resources AS o ON o.resource_id = f.resource_id
     WHERE f.run_id = :run_id AND f.follow_up_id = :follow_up_id
"""

SELECT_QUEUED: Final = """
    SELECT f.follow_up_id, f.resource_id, o.revision, f.run_id, f.order_number, f.actor_type,
           f.actor_id, f.source_type, f.prompt_hash, f.status
      FROM workflow_follow_ups AS f JOIN resources AS o ON o.resource_id = f.resource_id
     WHERE f.run_id = :run_id AND f.status = 'queued'
     ORDER BY f.order_number
"""

SELECT_LAST_ORDER: Final = """
    SELECT coalesce(max(order_number), 0) AS order_number
      FROM workflow_follow_ups WHERE run_id = :run_id
"""

INSERT_FOLLOW_UP: Final = """
    INSERT INTO workflow_follow_ups (follow_up_id, resource_id, run_id, request_id, order_number,
                                     target_session_id, actor_type, actor_id, source_type,
                                     prompt_hash, status, created_at, updated_at)
    VALUES (:follow_up_id, :resource_id, :run_id, :request_id, :order_number,
            :session_id, :actor_type, :actor_id, :source,
            :prompt_hash, 'queued', :now, :now)
"""

UPDATE_FOLLOW_UP: Final = """
    UPDATE workflow_follow_ups
       SET status = :status, reason_hash = :reason_hash, updated_at = :now
     WHERE follow_up_id = :follow_up_id AND status = :expected
"""

ROW_STATEMENTS: Final = {
    "SELECT_FOLLOW_UP": FollowUpRow,
    "SELECT_QUEUED": FollowUpRow,
    "SELECT_LAST_ORDER": LastOrderRow,
}


def queue_follow_up(tx: Transaction, permit: Permit, new: NewFollowUp) -> FollowUpReply:
    """Accept a prompt behind those that the run has; a paused or parked run takes it too.

    Race contract: of equal requests the first one is accepted and the others adopt it, also after
    it was removed and after the end of the run. Against an end of the run the first commit wins:
    what was accepted before goes the way of the run, what comes after is refused.

    Raises:
        AuthorityError: this actor may queue no follow-ups.
        RunUnknownError: there is no such run.
        FollowUpInvalidError: prompt, request id or source breaks a bound.
        IdempotencyConflictError: the request id stands for another follow-up of the run.
        FollowUpTooEarlyError, RunEndedError: the run is queued, or has ended.
    """
    require_actor(permit.actor, Operation.QUEUE_FOLLOW_UP)
    run = runs.require(tx, new.run_id)
    _check(new)
    known = find(tx, run.run_id, follow_up_id(run.run_id, new.request_id))
    if known is not None:
        return _adopted(known, permit.actor, new)
    _require_open(tx, run)
    created = resources.create(
        tx, ResourceType.FOLLOW_UP, follow_up_id(run.run_id, new.request_id)
    )
    with revise(tx, Permit(permit.actor), created, Operation.QUEUE_FOLLOW_UP) as recorder:
        order = _insert(tx, permit.actor, run, new, created)
        payload: JsonObject = {"order": order, "promptStored": True}
        recorder.record(Happening("follow-up.queued", payload))
    _show(tx, run.run_id)
    identity = recorder.change.aggregate_key
    return FollowUpReply(identity, order, FollowUpStatus.QUEUED, recorder.revision, adopted=False)


def remove_follow_up(
    tx: Transaction,
    permit: Permit,
    run_id: str,
    identity: str,
    *,
    source: str | None,
    reason: str | None,
) -> FollowUpReply:
    """Take a follow-up back that was not sent, and its message.

    A person may remove any; a session or a controller those that it has queued from the same
    source.

    Race contract: the first removal counts, later ones adopt it. Against an end of the run that
    cancels it the first commit wins.

    Args:
        source: where the removal comes from; a person's is not compared.
        reason: stored with it; None stores who removed it.

    Raises:
        AuthorityError: this actor may remove no follow-ups.
        RunUnknownError, FollowUpUnknownError: there is no such run, or no such follow-up of it.
        FollowUpNotYoursError: somebody else has queued it.
        FollowUpOverError: it was sent, or the end of its run cancelled it.
    """
    actor = permit.actor
    require_actor(actor, Operation.REMOVE_FOLLOW_UP)
    runs.require(tx, run_id)
    row = find(tx, run_id, identity)
    if row is None:
        raise FollowUpUnknownError(run_id, identity)
    if actor.actor_type is not ActorType.HUMAN and _owner(row) != (*_identity(actor), source):
        raise FollowUpNotYoursError
    if row.status is FollowUpStatus.REMOVED:
        return FollowUpReply(
            row.follow_up_id, row.order_number, row.status, row.revision, adopted=True
        )
    message = _message(tx, row)
    if message is not None and message.status is MessageStatus.SENT:
        raise FollowUpOverError(FollowUpState.SENT)
    if row.status is FollowUpStatus.CANCELLED:
        raise FollowUpOverError(FollowUpState.CANCELLED)
    text = reason or f"removed by a {actor.actor_type}"
    with revise(tx, Permit(actor), row.resource_id, Operation.REMOVE_FOLLOW_UP) as recorder:
        status = _end(tx, recorder, row, FollowUpMove.REMOVE, text)
    if message is not None:
        workflow_messages.cancel(tx, actor, message)
    _show(tx, run_id)
    return FollowUpReply(
        row.follow_up_id, row.order_number, status, recorder.revision, adopted=False
    )


def cancel_unsent(tx: Transaction, actor: Actor, run_id: str, status: RunStatus) -> None:
    """Cancel what nobody was told yet of a run that ends without success; else change nothing.

    Args:
        actor: who ends the run.
        status: how it ends.
    """
    if status is RunStatus.COMPLETED:
        return
    for row in tx.many(FollowUpRow, SELECT_QUEUED, {"run_id": run_id}):
        message = _message(tx, row)
        if message is not None and message.status is MessageStatus.SENT:
            continue
        change = Change(ResourceType.FOLLOW_UP, row.follow_up_id)
        recorder = Recorder(tx, change, row.resource_id, row.revision, actor, None)
        _end(tx, recorder, row, FollowUpMove.CANCEL, f"its run ended {status}")
        if message is not None:
            workflow_messages.cancel(tx, actor, message)


def find(reading: Reading, run_id: str, identity: str) -> FollowUpRow | None:
    """Return a follow-up of a run; None without one."""
    bindings = {"run_id": run_id, "follow_up_id": identity}
    return reading.one(FollowUpRow, SELECT_FOLLOW_UP, bindings)


def _check(new: NewFollowUp) -> None:
    if not new.prompt.content.strip():
        raise FollowUpInvalidError("the prompt is blank; say what is to be done")
    if len(new.prompt.content) > PROMPT_BYTES_MAX:
        raise FollowUpInvalidError(
            f"the prompt has {len(new.prompt.content)} bytes; at most {PROMPT_BYTES_MAX} fit"
        )
    if FOLLOW_UP_REQUEST.fullmatch(new.request_id) is None:
        raise FollowUpInvalidError(
            "a request id is 1 to 512 of A-Z a-z 0-9 . _ : - and starts with a letter or digit"
        )
    if not 1 <= len(new.source) <= SOURCE_CHARS_MAX:
        raise FollowUpInvalidError(f"a source has 1 to {SOURCE_CHARS_MAX} characters")


def _require_open(reading: Reading, run: RunRow) -> None:
    if run.terminal:
        revision = holding(reading, run.resource_id).revision
        raise RunEndedError(run.run_id, run.status, revision)
    if run.status is RunStatus.QUEUED:
        raise FollowUpTooEarlyError(run.run_id)


def _adopted(row: FollowUpRow, actor: Actor, new: NewFollowUp) -> FollowUpReply:
    """Return the follow-up that this request made before; refuse another one."""
    asked = (*_identity(actor), new.source, new.prompt.blob_hash)
    if asked != (*_owner(row), row.prompt_hash):
        raise IdempotencyConflictError
    return FollowUpReply(
        row.follow_up_id, row.order_number, row.status, row.revision, adopted=True
    )


def _identity(actor: Actor) -> tuple[ActorType, str | None]:
    return actor.actor_type, actor.actor_id


def _owner(row: FollowUpRow) -> tuple[ActorType, str | None, str]:
    return row.actor_type, row.actor_id, row.source_type


def _insert(
    tx: Transaction, actor: Actor, run: RunRow, new: NewFollowUp, resource: ResourceId
) -> int:
    """Write row and message; return the place in the order of the run."""
    identity = follow_up_id(run.run_id, new.request_id)
    session_id = runs.session_of(tx, run.run_id)
    last = tx.one(LastOrderRow, SELECT_LAST_ORDER, {"run_id": run.run_id})
    assert last is not None, "a query of a maximum has one row"
    tx.execute(
        INSERT_FOLLOW_UP,
        {
            "follow_up_id": identity,
            "resource_id": resource,
            "run_id": run.run_id,
            "request_id": new.request_id,
            "order_number": last.order_number + 1,
            "session_id": session_id,
            "actor_type": actor.actor_type,
            "actor_id": actor.actor_id,
            "source": new.source,
            "prompt_hash": blobs.put(tx, new.prompt),
            "now": tx.now,
        },
    )
    if session_id is not None:
        message = NewMessage(run.run_id, session_id, MessageKind.FOLLOW_UP, identity, new.prompt)
        workflow_messages.create(tx, actor, message)
    return last.order_number + 1


def _end(
    tx: Transaction, recorder: Recorder, row: FollowUpRow, move: FollowUpMove, reason: str
) -> FollowUpStatus:
    status = FOLLOW_UP_MACHINE.apply(row.status, move)
    recorder.record(Happening(f"follow-up.{status}", {"order": row.order_number}))
    affected_one(
        tx.execute(
            UPDATE_FOLLOW_UP,
            {
                "follow_up_id": row.follow_up_id,
                "status": status,
                "reason_hash": blobs.put(tx, Blob.of_text(reason)),
                "expected": row.status,
                "now": tx.now,
            },
        )
    )
    return status


def _message(reading: Reading, row: FollowUpRow) -> MessageRow | None:
    return workflow_messages.of_source(
        reading, row.run_id, MessageKind.FOLLOW_UP, row.follow_up_id
    )


def _show(tx: Transaction, run_id: str) -> None:
    """Let viewers of the run look again; the run itself has not moved."""
    tx.changes.add(Change(ResourceType.RUN, run_id))
