"""Recorded steps in pages, as a resuming runner reads them."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import StepOutcome
from store import projection_steps
from store.projection_steps import Step
from store.transaction import Reading

PAGE_STEPS_MAX: Final = 256
PAGE_BYTES_MAX: Final = 524_288
"""A page stops before its bodies exceed this, so that it fits one frame; at least one step."""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A recorded step and how many bytes its output and its error have."""

    step_index: int
    body_bytes: int


SELECT_SIZES: Final = """
    SELECT s.step_index,
           coalesce(o.byte_length, 0) + coalesce(e.byte_length, 0) AS body_bytes
      FROM run_steps AS s
      JOIN node_attempts AS a ON a.attempt_id = s.attempt_id
      LEFT JOIN blobs AS o ON o.blob_hash = a.output_hash
      LEFT JOIN blobs AS e ON e.blob_hash = a.error_hash
     WHERE s.run_id = :run_id AND s.step_index >= :from_step
     ORDER BY s.step_index LIMIT :limit
"""

ROW_STATEMENTS: Final = {"SELECT_SIZES": SizeRow}


def page(reading: Reading, run_id: str, from_step: int) -> JsonObject:
    """Return the steps from `from_step` on, and where the next page begins (None: nowhere)."""
    sizes = reading.many(
        SizeRow,
        SELECT_SIZES,
        {"run_id": run_id, "from_step": from_step, "limit": PAGE_STEPS_MAX + 1},
    )
    count = _fitting(sizes[:PAGE_STEPS_MAX])
    taken = projection_steps.steps(reading, run_id, first=from_step, limit=count)
    steps: list[JsonValue] = [_shown(step) for step in taken]
    return {"steps": steps, "next": from_step + count if count < len(sizes) else None}


def _fitting(sizes: list[SizeRow]) -> int:
    """Return how many of the steps fit one page: at least one, if there is one."""
    total = 0
    for count, size in enumerate(sizes):
        total += size.body_bytes
        if count and total > PAGE_BYTES_MAX:
            return count
    return len(sizes)


def _shown(step: Step) -> JsonObject:
    shown: JsonObject = {
        "stepIndex": step.step_index,
        "attemptId": step.attempt_id,
        "nodeId": step.node_id,
        "nodeType": step.node_type,
        "visit": step.visit,
        "outcome": step.outcome.value,
        "startedAt": step.started_at,
        "finishedAt": step.finished_at,
    }
    if step.outcome is StepOutcome.OK:
        shown["output"] = step.output
    if step.error is not None:
        shown["error"] = step.error
    return shown
