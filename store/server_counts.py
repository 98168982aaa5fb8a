"""How much work there is, for `server status`; index look-ups only."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject
from store.transaction import Reading


@dataclass(frozen=True, slots=True)
class CountsRow:
    """Live queue rows by phase, waiting runs and unknown outcomes."""

    queued: int
    starting: int
    running: int
    parked: int
    waiting: int
    ambiguous_effects: int


@dataclass(frozen=True, slots=True)
class ParkedRow:
    """How many runs are parked for one reason."""

    reason: str
    runs: int


SELECT_COUNTS: Final = """
    SELECT (SELECT count(*) FROM run_queue WHERE status = 'queued') AS queued,
           (SELECT count(*) FROM run_queue WHERE status = 'starting') AS starting,
           (SELECT count(*) FROM run_queue WHERE status = 'running') AS running,
           (SELECT count(*) FROM run_queue WHERE status = 'parked') AS parked,
           (SELECT count(*) FROM runs WHERE status = 'waiting') AS waiting,
           (SELECT count(*) FROM effects
             WHERE status = 'ambiguous' AND settled_at IS NULL) AS ambiguous_effects
"""

SELECT_PARKED: Final = """
    SELECT CASE WHEN r.paused THEN 'paused' ELSE coalesce(q.error_code, 'none') END AS reason,
           count(*) AS runs
      FROM run_queue AS q JOIN runs AS r ON r.run_id = q.run_id
     WHERE q.status = 'parked' GROUP BY 1 ORDER BY 1
"""

ROW_STATEMENTS: Final = {"SELECT_COUNTS": CountsRow, "SELECT_PARKED": ParkedRow}


def counts(reading: Reading) -> JsonObject:
    """Return the counts under their wire names; `parkedBecause` counts parked runs by reason."""
    row = reading.one(CountsRow, SELECT_COUNTS, {})
    assert row is not None, "a query of counts has one row"
    parked: JsonObject = {
        group.reason: group.runs for group in reading.many(ParkedRow, SELECT_PARKED, {})
    }
    return {
        "queued": row.queued,
        "starting": row.starting,
        "running": row.running,
        "parked": row.parked,
        "parkedBecause": parked,
        "waiting": row.waiting,
        "ambiguousEffects": row.ambiguous_effects,
    }
