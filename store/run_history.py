"""Recorded steps in pages, as a resuming runner reads them; large outputs by reference."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.content import INLINE_BYTES_MAX, ContentReference
from pi_workflows.protocol.states import AttemptStatus, StepOutcome
from store.errors import StoreCorrupt
from store.projection_steps import outcome_of, stored_json, stored_text
from store.transaction import Reading

PAGE_STEPS_MAX: Final = 256
PAGE_BYTES_MAX: Final = 524_288
"""A page stops before its bodies exceed this, so that it fits one frame; at least one step."""

_ESCAPED_BYTES_MAX: Final = 6  # per byte of a text for people: a control character is \\uXXXX


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """One step; its output is None also when it is too large to stand in a page.

    Attributes:
        output_hash: None where no output is stored.
    """

    step_index: int
    attempt_id: str
    node_id: str
    node_type: str
    visit: int
    status: AttemptStatus
    started_at: int | None
    finished_at: int | None
    output_hash: bytes | None
    output_bytes: int | None
    output_media: str | None
    output: bytes | None
    error_media: str | None
    error: bytes | None


SELECT_RECORDED: Final = """
    SELECT s.step_index, a.attempt_id, a.node_id, a.node_type, a.visit, a.status, a.started_at,
           a.finished_at, a.output_hash, o.byte_length AS output_bytes,
           o.media_type AS output_media,
           CASE WHEN o.byte_length <= :inline_bytes THEN o.content END AS output,
           e.media_type AS error_media, e.content AS error
      FROM run_steps AS s
      JOIN node_attempts AS a ON a.attempt_id = s.attempt_id
      LEFT JOIN blobs AS o ON o.blob_hash = a.output_hash
      LEFT JOIN blobs AS e ON e.blob_hash = a.error_hash
     WHERE s.run_id = :run_id AND s.step_index >= :from_step
     ORDER BY s.step_index LIMIT :limit
"""

SELECT_SIZES: Final = """
    SELECT s.step_index,
           min(coalesce(o.byte_length, 0), :inline_bytes)
           + :escaped * coalesce(e.byte_length, 0) AS body_bytes
      FROM run_steps AS s
      JOIN node_attempts AS a ON a.attempt_id = s.attempt_id
      LEFT JOIN blobs AS o ON o.blob_hash = a.output_hash
      LEFT JOIN blobs AS e ON e.blob_hash = a.error_hash
     WHERE s.run_id = :run_id AND s.step_index >= :from_step
     ORDER BY s.step_index LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A recorded step and how many bytes its output and its error may take in a page."""

    step_index: int
    body_bytes: int


ROW_STATEMENTS: Final = {"SELECT_RECORDED": RecordedRow, "SELECT_SIZES": SizeRow}


@dataclass(frozen=True, slots=True)
class Page:
    """Some steps in order.

    Attributes:
        following: where the next page begins; None: nowhere.
        references: the outputs that stand in the page by reference.
    """

    steps: list[JsonValue]
    following: int | None
    references: list[ContentReference]


def page(reading: Reading, run_id: str, from_step: int) -> Page:
    """Return the steps from `from_step` on.

    Raises:
        StoreCorrupt: an index is missing, a step's attempt has not ended, or a body has the
            wrong media type.
    """
    sizes = reading.many(
        SizeRow,
        SELECT_SIZES,
        {
            "run_id": run_id,
            "from_step": from_step,
            "limit": PAGE_STEPS_MAX + 1,
            "inline_bytes": INLINE_BYTES_MAX,
            "escaped": _ESCAPED_BYTES_MAX,
        },
    )
    count = _fitting(sizes[:PAGE_STEPS_MAX])
    found = reading.many(
        RecordedRow,
        SELECT_RECORDED,
        {
            "run_id": run_id,
            "from_step": from_step,
            "limit": count,
            "inline_bytes": INLINE_BYTES_MAX,
        },
    )
    if [row.step_index for row in found] != list(range(from_step, from_step + count)):
        raise StoreCorrupt("the run's steps have a gap")
    references = [reference for row in found if (reference := _reference(row)) is not None]
    following = from_step + count if count < len(sizes) else None
    return Page([_shown(row) for row in found], following, references)


def _fitting(sizes: list[SizeRow]) -> int:
    """Return how many of the steps fit one page: at least one, if there is one."""
    total = 0
    for count, size in enumerate(sizes):
        total += size.body_bytes
        if count and total > PAGE_BYTES_MAX:
            return count
    return len(sizes)


def _reference(row: RecordedRow) -> ContentReference | None:
    if row.output_hash is None or row.output_bytes is None or row.output is not None:
        return None
    return ContentReference(row.output_hash.hex(), row.output_bytes)


def _shown(row: RecordedRow) -> JsonObject:
    if row.started_at is None or row.finished_at is None:
        raise StoreCorrupt("a step's attempt has no times")
    outcome = outcome_of(row.status)
    shown: JsonObject = {
        "stepIndex": row.step_index,
        "attemptId": row.attempt_id,
        "nodeId": row.node_id,
        "nodeType": row.node_type,
        "visit": row.visit,
        "outcome": outcome.value,
        "startedAt": row.started_at,
        "finishedAt": row.finished_at,
    }
    reference = _reference(row)
    if reference is not None:
        shown["outputContent"] = reference.to_json()
    elif outcome is StepOutcome.OK:
        shown["output"] = stored_json(row.output_media, row.output)
    error = stored_text(row.error_media, row.error)
    if error is not None:
        shown["error"] = error
    return shown
