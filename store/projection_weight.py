"""How large a run's state will be, known from lengths alone: no body is read."""

from dataclasses import dataclass
from typing import Final

from store import runs
from store.transaction import Reading

LIGHT_STEPS_MAX: Final = 1_000
LIGHT_BYTES_MAX: Final = 524_288
"""Bytes of bodies up to which a state is built in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class StepCountRow:
    """How many steps a run has."""

    steps: int


@dataclass(frozen=True, slots=True)
class BytesRow:
    """Bytes of bodies."""

    bytes: int


SELECT_STEP_COUNT: Final = """
    SELECT coalesce(max(step_index) + 1, 0) AS steps FROM run_steps WHERE run_id = :run_id
"""

SELECT_OWN_BYTES: Final = """
    SELECT i.byte_length + coalesce(o.byte_length, 0) + coalesce(e.byte_length, 0)
           + coalesce(p.byte_length, 0) AS bytes
      FROM runs AS r
      JOIN blobs AS i ON i.blob_hash = r.input_hash
      LEFT JOIN blobs AS o ON o.blob_hash = r.final_output_hash
      LEFT JOIN blobs AS e ON e.blob_hash = r.error_hash
      LEFT JOIN blobs AS p ON p.blob_hash = r.presentation_prompt_hash
     WHERE r.run_id = :run_id
"""

SELECT_STEPS_BYTES: Final = """
    SELECT coalesce(sum(coalesce(p.byte_length, 0) + coalesce(o.byte_length, 0)
                        + coalesce(e.byte_length, 0) + coalesce(c.byte_length, 0)), 0) AS bytes
      FROM run_steps AS s
      JOIN node_attempts AS a ON a.attempt_id = s.attempt_id
      LEFT JOIN blobs AS p ON p.blob_hash = a.prompt_hash
      LEFT JOIN blobs AS o ON o.blob_hash = a.output_hash
      LEFT JOIN blobs AS e ON e.blob_hash = a.error_hash
      LEFT JOIN blobs AS c ON c.blob_hash = a.receipt_hash
     WHERE s.run_id = :run_id
"""

SELECT_UPDATES_BYTES: Final = """
    SELECT coalesce(sum(b.byte_length), 0) AS bytes
      FROM workflow_updates AS u JOIN blobs AS b ON b.blob_hash = u.data_hash
     WHERE u.run_id = :run_id AND u.is_current = 1
"""

SELECT_PROMPTS_BYTES: Final = """
    SELECT coalesce(sum(b.byte_length), 0) AS bytes
      FROM workflow_follow_ups AS f JOIN blobs AS b ON b.blob_hash = f.prompt_hash
     WHERE f.run_id = :run_id
"""

ROW_STATEMENTS: Final = {
    "SELECT_PROMPTS_BYTES": BytesRow,
    "SELECT_UPDATES_BYTES": BytesRow,
    "SELECT_STEP_COUNT": StepCountRow,
    "SELECT_OWN_BYTES": BytesRow,
    "SELECT_STEPS_BYTES": BytesRow,
}


def is_light(reading: Reading, run_id: str) -> bool:
    """Say whether the state of a run is small enough to be built between other work.

    Raises:
        RunUnknownError: no run has this id.
    """
    runs.require(reading, run_id)
    bound = {"run_id": run_id}
    count = reading.one(StepCountRow, SELECT_STEP_COUNT, bound)
    if count is not None and count.steps > LIGHT_STEPS_MAX:
        return False
    return body_bytes(reading, run_id) <= LIGHT_BYTES_MAX


def body_bytes(reading: Reading, run_id: str) -> int:
    """Return the bytes of all bodies in the state of a run; 0 when there is no run."""
    bound = {"run_id": run_id}
    own = reading.one(BytesRow, SELECT_OWN_BYTES, bound)
    steps = reading.one(BytesRow, SELECT_STEPS_BYTES, bound)
    told = reading.one(BytesRow, SELECT_UPDATES_BYTES, bound)
    prompts = reading.one(BytesRow, SELECT_PROMPTS_BYTES, bound)
    return sum(part.bytes for part in (own, steps, told, prompts) if part is not None)
