"""Effects for operators, oldest first: what is open anywhere, or all that one run has done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.states import EffectStatus, RunStatus
from pi_workflows.protocol.timestamps import rfc3339
from store import list_cursor, runs
from store.errors import Rejected
from store.transaction import Reading
from store.unresolved_effects import node_of

ITEMS_MAX: Final = 128
"""Items that one page holds at most."""


class EffectCursorError(Rejected):
    """The cursor was not made by a page of this list."""

    code: ClassVar[str] = ErrorCode.PAYLOAD_INVALID

    def __init__(self) -> None:
        super().__init__("the cursor was not made by a page of the list of effects")


@dataclass(frozen=True, slots=True)
class ListedRow:
    """One effect with the facts that an operator needs."""

    effect_id: str
    run_id: str
    run_status: RunStatus
    effect_type: str
    idempotency_key: str
    status: EffectStatus
    recovery: str
    attempt_count: int
    next_attempt_at: int | None
    created_at: int
    updated_at: int


# Local effects of the store are settled when they are written; only a run's own list would show
# them. A key that the engine made for a node is a JSON list, theirs are not.
SELECT_OPEN: Final = """
    SELECT e.effect_id, r.run_id, r.status AS run_status, e.effect_type, e.idempotency_key,
           e.status,
           json_extract(CAST(b.content AS TEXT), '$.recovery') AS recovery,
           e.attempt_count, e.next_attempt_at, e.created_at, e.updated_at
      FROM effects AS e
      JOIN runs AS r ON r.resource_id = e.source_resource_id
      JOIN blobs AS b ON b.blob_hash = e.payload_hash
     WHERE e.settled_at IS NULL
       AND (e.created_at, e.effect_id) > (:created_at, :effect_id)
     ORDER BY e.created_at, e.effect_id LIMIT :limit
"""

SELECT_OPEN_OF_RUN: Final = """
    SELECT e.effect_id, r.run_id, r.status AS run_status, e.effect_type, e.idempotency_key,
           e.status,
           json_extract(CAST(b.content AS TEXT), '$.recovery') AS recovery,
           e.attempt_count, e.next_attempt_at, e.created_at, e.updated_at
      FROM runs AS r
      JOIN effects AS e ON e.source_resource_id = r.resource_id
      JOIN blobs AS b ON b.blob_hash = e.payload_hash
     WHERE r.run_id = :run_id AND e.settled_at IS NULL
       AND (e.created_at, e.effect_id) > (:created_at, :effect_id)
     ORDER BY e.created_at, e.effect_id LIMIT :limit
"""

SELECT_ALL_OF_RUN: Final = """
    SELECT e.effect_id, r.run_id, r.status AS run_status, e.effect_type, e.idempotency_key,
           e.status,
           json_extract(CAST(b.content AS TEXT), '$.recovery') AS recovery,
           e.attempt_count, e.next_attempt_at, e.created_at, e.updated_at
      FROM runs AS r
      JOIN effects AS e ON e.source_resource_id = r.resource_id
      JOIN blobs AS b ON b.blob_hash = e.payload_hash
     WHERE r.run_id = :run_id AND substr(e.idempotency_key, 1, 1) = '['
       AND (e.created_at, e.effect_id) > (:created_at, :effect_id)
     ORDER BY e.created_at, e.effect_id LIMIT :limit
"""

ROW_STATEMENTS: Final = {
    "SELECT_OPEN": ListedRow,
    "SELECT_OPEN_OF_RUN": ListedRow,
    "SELECT_ALL_OF_RUN": ListedRow,
}


def page(
    reading: Reading,
    *,
    run_id: str | None,
    settled_too: bool,
    limit: int,
    cursor: str | None = None,
) -> JsonObject:
    """Return `{items, nextCursor}`, oldest first; `nextCursor` is null on the last page.

    Args:
        run_id: only effects of this run; None means any run's.
        settled_too: also those that are over; only for one run.
        limit: how many items at most; brought into 1 to 128.
        cursor: `nextCursor` of the page before; None begins with the oldest.

    Raises:
        RunUnknownError: there is no such run.
        EffectCursorError: the cursor is no cursor of this list.
    """
    limit = min(max(limit, 1), ITEMS_MAX)
    place = (-1, "") if cursor is None else list_cursor.decode(cursor)
    if place is None:
        raise EffectCursorError
    bindings: dict[str, str | int] = {
        "created_at": place[0],
        "effect_id": place[1],
        "limit": limit + 1,
    }
    if run_id is None:
        found = reading.many(ListedRow, SELECT_OPEN, bindings)
    else:
        runs.require(reading, run_id)
        bindings["run_id"] = run_id
        statement = SELECT_ALL_OF_RUN if settled_too else SELECT_OPEN_OF_RUN
        found = reading.many(ListedRow, statement, bindings)
    items: list[JsonValue] = [_item(row) for row in found[:limit]]
    return {"items": items, "nextCursor": _next(found, limit)}


def _next(found: Sequence[ListedRow], limit: int) -> str | None:
    if len(found) <= limit:
        return None
    last = found[limit - 1]
    return list_cursor.encode(last.created_at, last.effect_id)


def _item(row: ListedRow) -> JsonObject:
    item: JsonObject = {
        "effectId": row.effect_id,
        "runId": row.run_id,
        "runStatus": row.run_status.value,
        "effectType": row.effect_type,
        "recovery": row.recovery,
        "status": row.status.value,
        "attempts": row.attempt_count,
        "createdAt": rfc3339(row.created_at),
        "since": rfc3339(row.updated_at),
    }
    node = node_of(row.idempotency_key)
    if node is not None:
        item["nodeId"] = node
    if row.next_attempt_at is not None and row.status is EffectStatus.PENDING:
        item["nextAttemptAt"] = rfc3339(row.next_attempt_at)
    return item
