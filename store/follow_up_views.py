"""The follow-ups of a run as people are shown them: in order, with what each still waits for.

What is stored is that a follow-up was accepted, removed or cancelled. Everything else is derived:
it is sent if its message is, and ready when the run has completed and its result was presented.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import (
    ActorType,
    FollowUpState,
    FollowUpStatus,
    MessageStatus,
    QueuePresentation,
    RunStatus,
)
from pi_workflows.protocol.timestamps import rfc3339
from store import runs
from store.projection_steps import stored_text
from store.transaction import Reading

ITEMS_MAX: Final = 128
"""Most follow-ups of one page."""

PAGE_BYTES_MAX: Final = 131_072
"""A page stops before its prompts exceed this, so that it fits one frame; at least one item."""

VIEW_ITEMS_MAX: Final = 32
"""Follow-ups that the view of a run holds: the first that are not over."""

VIEW_PROMPT_BYTES_MAX: Final = 512
"""Bytes of a prompt that the view of a run holds."""

_ALL: Final = -1  # SQLite's word for a LIMIT that limits nothing.


class ItemRow(NamedTuple):
    """A follow-up with the first bytes of its prompt.

    Attributes:
        message_status: None for one of a run without a conversation.
    """

    follow_up_id: str
    request_id: str
    order_number: int
    actor_type: ActorType
    source_type: str
    status: FollowUpStatus
    created_at: int
    updated_at: int
    prompt_media: str
    prompt_bytes: int
    prompt: bytes
    reason_media: str | None
    reason: bytes | None
    message_status: MessageStatus | None


class StandingRow(NamedTuple):
    """What the follow-ups of a run wait for.

    Attributes:
        is_over: the turn that presents the result has ended.
        stop_reason: how; None while there is none, or it is open.
    """

    status: RunStatus
    session_id: str | None
    is_over: bool
    stop_reason: str | None


class CountRow(NamedTuple):
    """How many follow-ups a run has, and how many of them may still be sent."""

    total: int
    unsent: int


SELECT_ITEMS: Final = """
    SELECT f.follow_up_id, f.request_id, f.order_number, f.actor_type, f.source_type, f.status,
           f.created_at, f.updated_at, p.media_type AS prompt_media,
           p.byte_length AS prompt_bytes, substr(p.content, 1, :prompt_bytes) AS prompt,
           e.media_type AS reason_media, e.content AS reason, m.status AS message_status
      FROM workflow_follow_ups AS f
      JOIN blobs AS p ON p.blob_hash = f.prompt_hash
      LEFT JOIN blobs AS e ON e.blob_hash = f.reason_hash
      LEFT JOIN workflow_messages AS m ON m.run_id = f.run_id AND m.kind = 'followUp'
            AND m.source_id = f.follow_up_id
     WHERE f.run_id = :run_id AND f.order_number > :after
     ORDER BY f.order_number LIMIT :limit
"""

SELECT_UNSENT: Final = """
    SELECT f.follow_up_id, f.request_id, f.order_number, f.actor_type, f.source_type, f.status,
           f.created_at, f.updated_at, p.media_type AS prompt_media,
           p.byte_length AS prompt_bytes, substr(p.content, 1, :prompt_bytes) AS prompt,
           NULL AS reason_media, NULL AS reason, m.status AS message_status
      FROM workflow_follow_ups AS f
      JOIN blobs AS p ON p.blob_hash = f.prompt_hash
      LEFT JOIN workflow_messages AS m ON m.run_id = f.run_id AND m.kind = 'followUp'
            AND m.source_id = f.follow_up_id
     WHERE f.run_id = :run_id AND f.status = 'queued'
       AND (m.status IS NULL OR m.status <> 'sent')
     ORDER BY f.order_number LIMIT :limit
"""

SELECT_STANDING: Final = """
    SELECT r.status, b.origin_session_id AS session_id,
           coalesce(t.state = 'ended', 0) AS is_over, t.stop_reason
      FROM runs AS r
      LEFT JOIN run_bindings AS b ON b.run_id = r.run_id
      LEFT JOIN workflow_turns AS t ON t.workflow_turn_id = (
            SELECT u.workflow_turn_id FROM workflow_messages AS m
              JOIN workflow_turns AS u ON u.workflow_message_id = m.workflow_message_id
             WHERE m.run_id = r.run_id AND m.kind = 'terminal' AND m.status = 'sent'
             ORDER BY u.started_at DESC, u.workflow_turn_id DESC LIMIT 1)
     WHERE r.run_id = :run_id
"""

SELECT_COUNTS: Final = """
    SELECT count(*) AS total,
           count(*) FILTER (WHERE f.status = 'queued' AND NOT EXISTS (
               SELECT 1 FROM workflow_messages AS m
                WHERE m.run_id = f.run_id AND m.kind = 'followUp'
                  AND m.source_id = f.follow_up_id AND m.status = 'sent')) AS unsent
      FROM workflow_follow_ups AS f WHERE f.run_id = :run_id
"""

ROW_STATEMENTS: Final = {
    "SELECT_ITEMS": ItemRow,
    "SELECT_UNSENT": ItemRow,
    "SELECT_STANDING": StandingRow,
    "SELECT_COUNTS": CountRow,
}


def page(reading: Reading, run_id: str, *, after: int = 0, limit: int = ITEMS_MAX) -> JsonObject:
    """Return `{presentation, items, next}`; `next` is what to go on `after`, null at the end.

    Args:
        after: order number behind which the page begins; 0 begins with the first.
        limit: how many items at most, 1 to 128.

    Raises:
        RunUnknownError: there is no such run.
    """
    runs.require(reading, run_id)
    found = _items(reading, run_id, after, limit + 1)
    fitting = _fitting(found[:limit])
    standing = _standing(reading, run_id)
    following = found[fitting - 1].order_number if fitting < len(found) else None
    return {
        "presentation": _presentation(standing).value,
        "items": [_shown(row, standing) for row in found[:fitting]],
        "next": following,
    }


def whole_queue(reading: Reading, run_id: str) -> JsonObject | None:
    """Return all follow-ups of a run with their prompts; None when it has none."""
    found = _items(reading, run_id, 0, _ALL)
    if not found:
        return None
    standing = _standing(reading, run_id)
    return {
        "presentation": _presentation(standing).value,
        "items": [_shown(row, standing) for row in found],
    }


def bounded_queue(reading: Reading, run_id: str) -> JsonObject | None:
    """Return the first follow-ups of a run that are not over; None when it never had one.

    Long prompts are cut: `promptBytes` says how long they are. `total` and `unsent` count all.
    """
    counts = reading.one(CountRow, SELECT_COUNTS, {"run_id": run_id})
    if counts is None or not counts.total:
        return None
    found = reading.many(
        ItemRow,
        SELECT_UNSENT,
        {"run_id": run_id, "prompt_bytes": VIEW_PROMPT_BYTES_MAX, "limit": VIEW_ITEMS_MAX},
    )
    standing = _standing(reading, run_id)
    return {
        "presentation": _presentation(standing).value,
        "total": counts.total,
        "unsent": counts.unsent,
        "items": [_shown(row, standing) for row in found],
    }


def _items(reading: Reading, run_id: str, after: int, limit: int) -> list[ItemRow]:
    bindings: dict[str, str | int] = {
        "run_id": run_id,
        "after": after,
        "limit": limit,
        "prompt_bytes": 1 << 40,
    }
    return reading.many(ItemRow, SELECT_ITEMS, bindings)


def _fitting(found: Sequence[ItemRow]) -> int:
    total = 0
    for count, row in enumerate(found):
        total += len(row.prompt) + len(row.reason or b"")
        if count and total > PAGE_BYTES_MAX:
            return count
    return len(found)


def _standing(reading: Reading, run_id: str) -> StandingRow:
    standing = reading.one(StandingRow, SELECT_STANDING, {"run_id": run_id})
    assert standing is not None, "the run was found before"
    return standing


def _presentation(standing: StandingRow) -> QueuePresentation:
    if not standing.status.terminal:
        return QueuePresentation.NONE
    if standing.status is not RunStatus.COMPLETED or standing.session_id is None:
        return QueuePresentation.NOT_NEEDED
    if not standing.is_over:
        return QueuePresentation.PENDING
    if standing.stop_reason == "completed":
        return QueuePresentation.SETTLED
    return QueuePresentation.UNAVAILABLE


def _state(row: ItemRow, standing: StandingRow) -> FollowUpState:
    if row.message_status is MessageStatus.SENT:
        return FollowUpState.SENT
    if row.status is not FollowUpStatus.QUEUED:
        return FollowUpState(row.status.value)
    if not standing.status.terminal:
        return FollowUpState.QUEUED
    if _presentation(standing) in {QueuePresentation.SETTLED, QueuePresentation.NOT_NEEDED}:
        return FollowUpState.READY
    return FollowUpState.PENDING_PRESENTATION


def _shown(row: ItemRow, standing: StandingRow) -> JsonObject:
    shown: JsonObject = {
        "followUpId": row.follow_up_id,
        "requestId": row.request_id,
        "order": row.order_number,
        "state": _state(row, standing).value,
        "actor": row.actor_type.value,
        "source": row.source_type,
        "createdAt": rfc3339(row.created_at),
        "updatedAt": rfc3339(row.updated_at),
        "prompt": stored_text(row.prompt_media, row.prompt),
        "promptBytes": row.prompt_bytes,
    }
    reason = stored_text(row.reason_media, row.reason)
    if reason is not None:
        shown["reason"] = reason
    return shown
