"""The newest step of every node, in pages, as a resuming runner reads them; never all steps.

What a runner needs of the past is bounded by the graph: per node its newest step and how often it
was visited. So neither the answer nor the time to make it grows with what has been recorded.
"""

import bisect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.content import INLINE_BYTES_MAX, ContentReference
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.states import AttemptStatus, StepOutcome
from store.errors import StoreCorrupt
from store.projection_steps import outcome_of, stored_json, stored_text
from store.transaction import Reading

PAGE_NODES_MAX: Final = 128
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
    authored_count: int
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


# The last row of an index per node: tries that became no step are of its open visit only.
SELECT_NEWEST: Final = """
    SELECT a.node_id, s.step_index,
           min(coalesce(o.byte_length, 0), :inline_bytes)
           + :escaped * coalesce(e.byte_length, 0) AS body_bytes
      FROM json_each(:node_ids) AS n
      JOIN node_attempts AS a ON a.attempt_id = (
            SELECT b.attempt_id FROM node_attempts AS b
             WHERE b.run_id = :run_id AND b.node_id = n.value
               AND EXISTS (SELECT 1 FROM run_steps AS t
                            WHERE t.run_id = b.run_id AND t.attempt_id = b.attempt_id)
             ORDER BY b.attempt_number DESC LIMIT 1)
      JOIN run_steps AS s ON s.run_id = a.run_id AND s.attempt_id = a.attempt_id
      LEFT JOIN blobs AS o ON o.blob_hash = a.output_hash
      LEFT JOIN blobs AS e ON e.blob_hash = a.error_hash
     ORDER BY n.key
"""

SELECT_RECORDED: Final = """
    SELECT s.step_index, s.authored_count, a.attempt_id, a.node_id, a.node_type, a.visit,
           a.status, a.started_at, a.finished_at, a.output_hash, o.byte_length AS output_bytes,
           o.media_type AS output_media,
           CASE WHEN o.byte_length <= :inline_bytes THEN o.content END AS output,
           e.media_type AS error_media, e.content AS error
      FROM run_steps AS s
      JOIN node_attempts AS a ON a.attempt_id = s.attempt_id
      LEFT JOIN blobs AS o ON o.blob_hash = a.output_hash
      LEFT JOIN blobs AS e ON e.blob_hash = a.error_hash
     WHERE s.run_id = :run_id
       AND s.step_index IN (SELECT i.value FROM json_each(:step_indexes) AS i)
     ORDER BY s.step_index
"""

SELECT_STEP_OF_VISIT: Final = """
    SELECT s.step_index
      FROM node_attempts AS a
      JOIN run_steps AS s ON s.run_id = a.run_id AND s.attempt_id = a.attempt_id
     WHERE a.run_id = :run_id AND a.node_id = :node_id AND a.visit = :visit
"""

SELECT_NEWEST_INDEX: Final = """
    SELECT s.step_index
      FROM node_attempts AS a
      JOIN run_steps AS s ON s.run_id = a.run_id AND s.attempt_id = a.attempt_id
     WHERE a.run_id = :run_id AND a.node_id = :node_id
     ORDER BY a.attempt_number DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class NewestRow:
    """A node's newest step, and how many bytes its output and its error may take in a page."""

    node_id: str
    step_index: int
    body_bytes: int


@dataclass(frozen=True, slots=True)
class IndexRow:
    """The index of a step."""

    step_index: int


ROW_STATEMENTS: Final = {
    "SELECT_RECORDED": RecordedRow,
    "SELECT_NEWEST": NewestRow,
    "SELECT_STEP_OF_VISIT": IndexRow,
    "SELECT_NEWEST_INDEX": IndexRow,
}


@dataclass(frozen=True, slots=True)
class Page:
    """The newest steps of some nodes of a graph, in the order in which they were taken.

    Attributes:
        following: where the next page begins, as a position among the nodes; None: nowhere.
        references: the outputs that stand in the page by reference.
    """

    steps: list[JsonValue]
    following: int | None
    references: list[ContentReference]


def page(
    reading: Reading, run_id: str, definition: DefinitionSnapshot, from_node: int = 0
) -> Page:
    """Return the newest steps of the nodes from a position in the graph on.

    Raises:
        StoreCorrupt: a step's attempt has not ended, a visit has no step, or a body has the wrong
            media type.
    """
    every = list(definition.nodes)
    node_ids = every[from_node : from_node + PAGE_NODES_MAX]
    bindings: dict[str, str | int] = {"run_id": run_id, "inline_bytes": INLINE_BYTES_MAX}
    newest = reading.many(
        NewestRow,
        SELECT_NEWEST,
        {**bindings, "node_ids": json.dumps(node_ids), "escaped": _ESCAPED_BYTES_MAX},
    )
    count = _fitting(newest)
    indexes = [row.step_index for row in newest[:count]]
    found = reading.many(
        RecordedRow, SELECT_RECORDED, {**bindings, "step_indexes": json.dumps(indexes)}
    )
    following = from_node + len(node_ids)
    if count < len(newest):
        following = from_node + node_ids.index(newest[count].node_id)
    counts = _Invocations(reading, run_id, definition)
    references = [reference for row in found if (reference := _reference(row)) is not None]
    return Page(
        [_shown(row, counts.visits_in(row)) for row in found],
        following if following < len(every) else None,
        references,
    )


class _Invocations:
    """How often nodes were visited in the current invocation of their workflow."""

    def __init__(self, reading: Reading, run_id: str, definition: DefinitionSnapshot) -> None:
        self._reading = reading
        self._run_id = run_id
        self._definition = definition
        self._entered: dict[str, int] = {}

    def visits_in(self, row: RecordedRow) -> int:
        """Return the visits of a node, up to its newest step, since its mount was last entered.

        All of them for a node of the root. Found by halving: visits rise with their steps.
        """
        mount = self._definition.nodes[row.node_id].mount_path
        if not mount:
            return row.visit
        entered = self._entered_at(mount)
        if row.step_index < entered:
            return 0
        visits = range(1, row.visit + 1)
        before = bisect.bisect_left(
            visits, entered, key=lambda visit: self._step_of(row.node_id, visit)
        )
        return row.visit - before

    def _entered_at(self, mount: str) -> int:
        if mount not in self._entered:
            bindings: dict[str, str | int] = {"run_id": self._run_id, "node_id": mount}
            row = self._reading.one(IndexRow, SELECT_NEWEST_INDEX, bindings)
            if row is None:
                raise StoreCorrupt("a node has a step in a mount that was never entered")
            self._entered[mount] = row.step_index
        return self._entered[mount]

    def _step_of(self, node_id: str, visit: int) -> int:
        row = self._reading.one(
            IndexRow,
            SELECT_STEP_OF_VISIT,
            {"run_id": self._run_id, "node_id": node_id, "visit": visit},
        )
        if row is None:
            raise StoreCorrupt(f"visit {visit} of a node has no step")
        return row.step_index


def _fitting(newest: Sequence[NewestRow]) -> int:
    """Return how many of the steps fit one page: at least one, if there is one."""
    total = 0
    for count, row in enumerate(newest):
        total += row.body_bytes
        if count and total > PAGE_BYTES_MAX:
            return count
    return len(newest)


def _reference(row: RecordedRow) -> ContentReference | None:
    if row.output_hash is None or row.output_bytes is None or row.output is not None:
        return None
    return ContentReference(row.output_hash.hex(), row.output_bytes)


def _shown(row: RecordedRow, invocation_visits: int) -> JsonObject:
    if row.started_at is None or row.finished_at is None:
        raise StoreCorrupt("a step's attempt has no times")
    outcome = outcome_of(row.status)
    shown: JsonObject = {
        "stepIndex": row.step_index,
        "attemptId": row.attempt_id,
        "nodeId": row.node_id,
        "nodeType": row.node_type,
        "visit": row.visit,
        "invocationVisits": invocation_visits,
        "authoredCount": row.authored_count,
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
