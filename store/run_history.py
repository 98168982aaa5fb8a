"""Recorded steps in pages, as a resuming runner reads them."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import OUTCOME_OF_ATTEMPT, AttemptStatus
from store import blobs
from store.transaction import Reading

PAGE_STEPS_MAX: Final = 256
PAGE_BYTES_MAX: Final = 524_288
"""A page stops before its outputs exceed this, so that it fits one frame; at least one step."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One recorded step with the bodies that routing and callbacks may ask for."""

    step_index: int
    attempt_id: str
    node_id: str
    node_type: str
    visit: int
    status: AttemptStatus
    started_at: int
    finished_at: int
    output_hash: bytes | None
    output_bytes: int
    error_hash: bytes | None


SELECT_STEPS: Final = """
    SELECT s.step_index, a.attempt_id, a.node_id, a.node_type, a.visit, a.status, a.started_at,
           a.finished_at, a.output_hash, coalesce(b.byte_length, 0) AS output_bytes, a.error_hash
      FROM run_steps AS s
      JOIN node_attempts AS a ON a.attempt_id = s.attempt_id
      LEFT JOIN blobs AS b ON b.blob_hash = a.output_hash
     WHERE s.run_id = :run_id AND s.step_index >= :from_step
     ORDER BY s.step_index LIMIT :limit
"""

ROW_STATEMENTS: Final = {"SELECT_STEPS": StepRow}


def page(reading: Reading, run_id: str, from_step: int) -> JsonObject:
    """Return the steps from `from_step` on, and where the next page begins (None: nowhere)."""
    rows = reading.many(
        StepRow,
        SELECT_STEPS,
        {"run_id": run_id, "from_step": from_step, "limit": PAGE_STEPS_MAX + 1},
    )
    taken = _fitting(rows[:PAGE_STEPS_MAX])
    outputs = blobs.read_many_json(
        reading, [row.output_hash for row in taken if row.output_hash is not None]
    )
    steps: list[JsonValue] = [_step(reading, row, outputs) for row in taken]
    more = len(taken) < len(rows)
    return {"steps": steps, "next": from_step + len(taken) if more else None}


def _fitting(rows: list[StepRow]) -> list[StepRow]:
    taken: list[StepRow] = []
    total = 0
    for row in rows:
        total += row.output_bytes
        if taken and total > PAGE_BYTES_MAX:
            break
        taken.append(row)
    return taken


def _step(reading: Reading, row: StepRow, outputs: dict[bytes, JsonValue]) -> JsonObject:
    step: JsonObject = {
        "stepIndex": row.step_index,
        "attemptId": row.attempt_id,
        "nodeId": row.node_id,
        "nodeType": row.node_type,
        "visit": row.visit,
        "outcome": OUTCOME_OF_ATTEMPT[row.status].value,
        "startedAt": row.started_at,
        "finishedAt": row.finished_at,
    }
    if row.output_hash is not None:
        step["output"] = outputs[row.output_hash]
    if row.error_hash is not None:
        step["error"] = blobs.read_text(reading, row.error_hash)
    return step
