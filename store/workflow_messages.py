"""What a conversation is to be shown, in the order of acceptance; evidence says that it was.

A message is written in the transaction of what it tells. That it was sent is told by the
conversation itself; until then its source may withdraw it.
"""

from typing import Final, NamedTuple

from pi_workflows.protocol.ids import ResourceId, time_ordered
from pi_workflows.protocol.states import MessageKind, MessageStatus, ResourceType
from store import resources
from store.blobs import Blob, put
from store.machines.message import MESSAGE_MACHINE, MessageMove
from store.resources import Actor, Happening, Recorder
from store.transaction import Change, Reading, Transaction, affected_one


class NewMessage(NamedTuple):
    """A message to a conversation.

    Attributes:
        source_id: what it tells of: a request, a decision, a follow-up, ….
    """

    run_id: str
    session_id: str
    kind: MessageKind
    source_id: str
    content: Blob


class MessageRow(NamedTuple):
    """A message, with the revision of its resource."""

    workflow_message_id: str
    resource_id: ResourceId
    revision: int
    status: MessageStatus


class OrderRow(NamedTuple):
    """The newest place in the order of a conversation."""

    order_number: int


SELECT_LAST_ORDER: Final = """
    SELECT coalesce(max(order_number), 0) AS order_number
      FROM workflow_messages WHERE target_session_id = :session_id
"""

SELECT_MESSAGE: Final = """
    SELECT m.workflow_message_id, m.resource_id, o.revision, m.status
      FROM workflow_messages AS m JOIN resources AS o ON o.resource_id = m.resource_id
     WHERE m.run_id = :run_id AND m.kind = :kind AND m.source_id = :source_id
     ORDER BY m.order_number DESC LIMIT 1
"""

INSERT_MESSAGE: Final = """
    INSERT INTO workflow_messages (workflow_message_id, resource_id, run_id, target_session_id,
                                   kind, source_id, content_hash, order_number, status,
                                   created_at, updated_at)
    VALUES (:message_id, :resource_id, :run_id, :session_id, :kind, :source_id, :content_hash,
            :order_number, 'pending', :now, :now)
"""

UPDATE_CANCELLED: Final = """
    UPDATE workflow_messages SET status = :status, updated_at = :now
     WHERE workflow_message_id = :message_id AND status = :expected
"""

ROW_STATEMENTS: Final = {"SELECT_LAST_ORDER": OrderRow, "SELECT_MESSAGE": MessageRow}


def create(tx: Transaction, actor: Actor, new: NewMessage) -> str:
    """Append a pending message to the order of its conversation; return its id."""
    message_id = f"message-{time_ordered(tx.ids.new_uuid(), tx.now)}"
    resource = resources.create(tx, ResourceType.WORKFLOW_MESSAGE, message_id)
    last = tx.one(OrderRow, SELECT_LAST_ORDER, {"session_id": new.session_id})
    assert last is not None, "a query of a maximum has one row"
    tx.execute(
        INSERT_MESSAGE,
        {
            "message_id": message_id,
            "resource_id": resource,
            "run_id": new.run_id,
            "session_id": new.session_id,
            "kind": new.kind,
            "source_id": new.source_id,
            "content_hash": put(tx, new.content),
            "order_number": last.order_number + 1,
            "now": tx.now,
        },
    )
    change = Change(ResourceType.WORKFLOW_MESSAGE, message_id)
    recorder = Recorder(tx, change, resource, 0, actor, None)
    recorder.record(Happening("message.created", {"kind": new.kind.value}))
    return message_id


def of_source(
    reading: Reading, run_id: str, kind: MessageKind, source_id: str
) -> MessageRow | None:
    """Return the newest message about a source; None when there is none."""
    bindings = {"run_id": run_id, "kind": kind, "source_id": source_id}
    return reading.one(MessageRow, SELECT_MESSAGE, bindings)


def cancel(tx: Transaction, actor: Actor, message: MessageRow) -> None:
    """Withdraw a pending message.

    Raises:
        IllegalTransitionError: it is not pending.
    """
    status = MESSAGE_MACHINE.apply(message.status, MessageMove.CANCEL)
    change = Change(ResourceType.WORKFLOW_MESSAGE, message.workflow_message_id)
    recorder = Recorder(tx, change, message.resource_id, message.revision, actor, None)
    recorder.record(Happening("message.cancelled"))
    affected_one(
        tx.execute(
            UPDATE_CANCELLED,
            {
                "message_id": message.workflow_message_id,
                "status": status,
                "expected": message.status,
                "now": tx.now,
            },
        )
    )
