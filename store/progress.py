"""Whether a run has come any further since its newest runner was ready (README 31)."""

from dataclasses import dataclass
from typing import Final

from store.transaction import Reading


@dataclass(frozen=True, slots=True)
class ProgressedRow:
    """Whether there was progress."""

    progressed: bool


# A run has one launch per generation of its lease, and generations only grow.
SELECT_PROGRESSED: Final = """
    SELECT EXISTS (
        SELECT 1 FROM run_steps AS s JOIN node_attempts AS a ON a.attempt_id = s.attempt_id
         WHERE s.run_id = :run_id
           AND s.step_index = (SELECT max(step_index) FROM run_steps WHERE run_id = :run_id)
           AND a.finished_at > (SELECT w.ready_at FROM run_workers AS w
                                 WHERE w.run_id = :run_id
                                 ORDER BY w.generation DESC LIMIT 1)
    ) AS progressed
"""

ROW_STATEMENTS: Final = {"SELECT_PROGRESSED": ProgressedRow}


def has_progressed(reading: Reading, run_id: str) -> bool:
    """Say whether the newest step was recorded after the newest runner had said hello.

    For when nobody is left to say so: after a death of the server. A wall clock that was stepped
    back in between may hide progress, which costs a run one of its tries.
    """
    found = reading.one(ProgressedRow, SELECT_PROGRESSED, {"run_id": run_id})
    return found is not None and found.progressed
