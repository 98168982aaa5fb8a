"""Write the notifications of a run: one message per visit of a node, whatever dies in between."""

from typing import TYPE_CHECKING, Final

from pi_workflows.protocol.definition import SnapshotNode
from pi_workflows.protocol.notices import notified
from pi_workflows.protocol.states import MessageKind, NodeType, StepOutcome
from pi_workflows.protocol.version import NOTIFICATION
from store import runs, workflow_messages
from store.attempts import AttemptRow
from store.blobs import Blob
from store.errors import ProposalRefused
from store.proposals import FinishAttempt, Notice, Notify
from store.resources import Recorder
from store.transaction import Reading, Transaction
from store.workflow_messages import NewMessage

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

_NOBODY: Final = Notice(None, None)


def content_of(kind: str, text: str) -> Blob:
    """Return the content of a notification; hash it before the transaction begins."""
    content: JsonObject = {"schema": NOTIFICATION, "kind": kind, "text": text}
    return Blob.of_json(content)


def notify(
    tx: Transaction, recorder: Recorder, attempt: AttemptRow, node: SnapshotNode, wanted: Notify
) -> Notice:
    """Write the notification of a visit to the run's conversation, or adopt the one it has.

    Race contract: a visit has one message. A repeat of its try, after a crash between message and
    step, adopts what is there, whatever the repeated code says by then. A run that belongs to no
    conversation writes nothing and is told so.

    Args:
        recorder: of the run, which does not change; the message has a resource of its own.

    Raises:
        ProposalRefused: the node is no notification, or one of another kind.
    """
    if node.node_type != NodeType.NOTIFY or node.notice_kind != wanted.kind:
        raise ProposalRefused("the node declares no such notification")
    session_id = runs.session_of(tx, attempt.run_id)
    if session_id is None:
        recorder.adopted = True
        return _NOBODY
    known = _message_of(tx, attempt)
    recorder.adopted = True  # The run itself has no new revision: a step tells of the message.
    if known is not None:
        return Notice(known, session_id)
    new = NewMessage(
        attempt.run_id, session_id, MessageKind.NOTIFICATION, _source(attempt), wanted.content
    )
    return Notice(workflow_messages.create(tx, recorder.actor, new), session_id)


def check_notified(
    reading: Reading, attempt: AttemptRow, node: SnapshotNode, finish: FinishAttempt
) -> None:
    """Refuse a good end of a notification that was not written, or that says another one.

    Raises:
        ProposalRefused: so it is.
    """
    if node.node_type != NodeType.NOTIFY or finish.outcome is not StepOutcome.OK:
        return
    session_id, known = runs.session_of(reading, attempt.run_id), _message_of(reading, attempt)
    if session_id is None or known is None:
        raise ProposalRefused("the attempt's notification was not written")
    if finish.output_value != notified(known, session_id):
        raise ProposalRefused("the attempt's output names another notification")


def _message_of(reading: Reading, attempt: AttemptRow) -> str | None:
    found = workflow_messages.of_source(
        reading, attempt.run_id, MessageKind.NOTIFICATION, _source(attempt)
    )
    return None if found is None else found.workflow_message_id


def _source(attempt: AttemptRow) -> str:
    """Return what a message tells of: a visit of a node."""
    return f"{attempt.node_id}#{attempt.visit}"
