"""`pi-workflows.run-list-page.v1`: runs, newest first, page by page.

A page is found by its place in an index and carries status facts only, so its cost depends
neither on the number of runs nor on the size of what they worked on.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pi_workflows.protocol.canonical import (
    INTEGER_MAX,
    JsonObject,
    JsonValue,
    canonical_bytes,
)
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.states import DisplayStatus
from pi_workflows.protocol.version import RUN_LIST_PAGE
from store import list_cursor, run_summaries
from store.display import ENDED_STATUSES, display, display_status
from store.errors import Rejected
from store.run_summaries import SummaryRow
from store.transaction import Reading

ITEMS_MAX: Final = 256
"""Items that one page holds at most."""

PAGE_BYTES_MAX: Final = 524_288
"""Bytes of the items' JSON; a page ends before it has more, but never before its first item."""


class CursorInvalidError(Rejected):
    """The cursor was not made by a page of this list."""

    code: ClassVar[str] = ErrorCode.PAYLOAD_INVALID

    def __init__(self) -> None:
        super().__init__("the cursor was not made by a page of the run list")


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """A run's place in the list; the order is by both, descending."""

    created_at: int
    run_id: str


@dataclass(frozen=True, slots=True)
class _Filter:
    """Which runs are wanted; None does not restrict."""

    status: DisplayStatus | None
    project_path: str | None


SELECT_PLACES: Final = """
    SELECT created_at, run_id FROM runs
     WHERE (created_at, run_id) < (:created_at, :run_id)
     ORDER BY created_at DESC, run_id DESC LIMIT :limit
"""

SELECT_PROJECT_PLACES: Final = """
    SELECT created_at, run_id FROM runs
     WHERE project_id = (SELECT project_id FROM projects WHERE canonical_path = :project_path)
       AND (created_at, run_id) < (:created_at, :run_id)
     ORDER BY created_at DESC, run_id DESC LIMIT :limit
"""

SELECT_ENDED_PLACES: Final = """
    SELECT created_at, run_id FROM runs
     WHERE status = :status AND (created_at, run_id) < (:created_at, :run_id)
     ORDER BY created_at DESC, run_id DESC LIMIT :limit
"""

# Every status of a run that has not ended: what such a run shows is found by reading its facts.
SELECT_LIVE_PLACES: Final = """
    SELECT created_at, run_id FROM runs
     WHERE status IN ('queued', 'running', 'waiting')
       AND (created_at, run_id) < (:created_at, :run_id)
     ORDER BY created_at DESC, run_id DESC LIMIT :limit
"""

ROW_STATEMENTS: Final = {
    "SELECT_PLACES": PlaceRow,
    "SELECT_PROJECT_PLACES": PlaceRow,
    "SELECT_ENDED_PLACES": PlaceRow,
    "SELECT_LIVE_PLACES": PlaceRow,
}

_BEFORE_ALL: Final = PlaceRow(INTEGER_MAX, "")


def page(
    reading: Reading,
    *,
    limit: int,
    cursor: str | None = None,
    status: DisplayStatus | None = None,
    project_path: str | None = None,
) -> JsonObject:
    """Return one page, newest run first (by created time, then run id, both descending).

    Args:
        limit: how many items at most; brought into 1 to 256. Large items make the page shorter.
        cursor: `nextCursor` of the page before; None begins with the newest run.
        status: only runs that are shown so, and for `paused` also ambiguous ones that were
            paused; None means any.
        project_path: only runs of this canonical path; None means any.

    Returns:
        `{schema, items, nextCursor}`; `nextCursor` is null on the last page. A run created
        meanwhile is newer than every cursor and never shifts a page.

    Raises:
        CursorInvalidError: the cursor is no cursor of this list.
    """
    wanted = _Filter(status, project_path)
    limit = min(max(limit, 1), ITEMS_MAX)
    place = _BEFORE_ALL if cursor is None else _place_of(cursor)
    chosen: list[SummaryRow] = []
    more = True
    while more and len(chosen) <= limit:
        # One beyond the page says whether there is a next one.
        places = _places(reading, wanted, place, limit + 1)
        more = len(places) > limit
        found = run_summaries.of_runs(reading, [row.run_id for row in places])
        chosen.extend(run for run in found if _matches(run, wanted, reading.now))
        place = places[-1] if places else place
    items = _fitting([_item(run, reading.now) for run in chosen[:limit]])
    following = _cursor_of(chosen[len(items) - 1]) if len(chosen) > len(items) else None
    return {"schema": RUN_LIST_PAGE, "items": items, "nextCursor": following}


def _places(reading: Reading, wanted: _Filter, after: PlaceRow, limit: int) -> list[PlaceRow]:
    """Return the next candidates; the narrower of two filters picks the index."""
    bindings: dict[str, str | int | None] = {
        "created_at": after.created_at,
        "run_id": after.run_id,
        "limit": limit,
        "project_path": wanted.project_path,
        "status": wanted.status,
    }
    if wanted.status is not None and wanted.status not in ENDED_STATUSES:
        return reading.many(PlaceRow, SELECT_LIVE_PLACES, bindings)
    if wanted.project_path is not None:
        return reading.many(PlaceRow, SELECT_PROJECT_PLACES, bindings)
    if wanted.status is not None:
        return reading.many(PlaceRow, SELECT_ENDED_PLACES, bindings)
    return reading.many(PlaceRow, SELECT_PLACES, bindings)


def _matches(run: SummaryRow, wanted: _Filter, now: int) -> bool:
    if wanted.project_path is not None and run.project_path != wanted.project_path:
        return False
    if wanted.status is DisplayStatus.PAUSED and run.paused:
        return True  # Also one that is shown as ambiguous, which beats a pause.
    return wanted.status is None or display_status(run, now) is wanted.status


def _item(run: SummaryRow, now: int) -> JsonObject:
    item = run_summaries.manifest(run)
    item["status"] = run.status.value
    item["display"] = display(run, now)
    item["steps"] = run.steps
    return item


def _fitting(items: list[JsonObject]) -> list[JsonValue]:
    """Return the first items that stay within the bytes of a page."""
    fitting: list[JsonValue] = []
    total = 0
    for item in items:
        total += len(canonical_bytes(item))
        if fitting and total > PAGE_BYTES_MAX:
            break
        fitting.append(item)
    return fitting


def _cursor_of(run: SummaryRow) -> str:
    return list_cursor.encode(run.created_at, run.run_id)


def _place_of(cursor: str) -> PlaceRow:
    place = list_cursor.decode(cursor)
    if place is None:
        raise CursorInvalidError
    return PlaceRow(*place)
