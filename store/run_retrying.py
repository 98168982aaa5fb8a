"""Declared retries: how many tries of a visit have failed, and parking until the next one."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.states import ParkReason
from store import attempts, leases, run_queue, runs
from store.attempts import AttemptRow
from store.machines.attempt import AttemptMove
from store.machines.queue import QueueMove
from store.resources import Recorder, run_event
from store.transaction import Reading, Transaction


@dataclass(frozen=True, slots=True)
class NextTry:
    """What follows a failed try.

    Attributes:
        failed_tries: of the visit, so far.
        due_at: UTC epoch ms; None is at once, in the same child.
    """

    failed_tries: int
    due_at: int | None


@dataclass(frozen=True, slots=True)
class FailedRow:
    """How many tries have failed."""

    failed: int


# A visit whose last try failed for good is a step, and nobody asks about it any more.
SELECT_FAILED: Final = """
    SELECT count(*) AS failed FROM node_attempts
     WHERE run_id = :run_id AND node_id = :node_id AND visit = :visit
       AND status IN ('failed', 'timed_out')
"""

ROW_STATEMENTS: Final = {"SELECT_FAILED": FailedRow}


def failed_tries(reading: Reading, run_id: str, node_id: str, visit: int) -> int:
    """Return how many tries of a visit have ended badly; a crash ends no try."""
    found = reading.one(
        FailedRow, SELECT_FAILED, {"run_id": run_id, "node_id": node_id, "visit": visit}
    )
    assert found is not None, "a query of a count has one row"
    return found.failed


def failed_tries_ahead(reading: Reading, run_id: str, definition: DefinitionSnapshot) -> int:
    """Return how many tries of the visit that comes next have failed.

    For a runner that resumes: an interrupted try is of that visit too. At most one visit of a run
    is open, and only an open one has failed tries without a step. Nothing is read for nodes that
    declare no retry, and of the others no more than their open visit.
    """
    for node in definition.nodes.values():
        if node.retry is None:
            continue
        visit = attempts.open_visit(reading, run_id, node.node_id)
        if visit is not None:
            return failed_tries(reading, run_id, node.node_id, visit)
    return 0


def park_until(
    tx: Transaction, recorder: Recorder, run_id: str, attempt: AttemptRow | None, due_at: int
) -> None:
    """Leave the run until an instant (UTC epoch ms), when the scheduler admits it again.

    Nothing sleeps: the queue row carries the instant, the lease is freed.

    Args:
        attempt: the try that is under way, which has not acted and is interrupted; None after one
            that has ended: that is progress, and gives back the tries that deaths had used up.
    """
    if attempt is not None:
        attempts.move(tx, attempt, AttemptMove.INTERRUPT)
    reason = ParkReason.RETRY_BACKOFF
    recorder.record(run_event("run.queue_parked", {"reason": reason.value}))
    queued = run_queue.find(tx, run_id)
    if queued is not None:
        run_queue.move(
            tx,
            queued,
            QueueMove.PARK,
            available_at=due_at,
            consecutive_errors=0 if attempt is None else None,
            error_code=reason,
        )
    runs.touch(tx, run_id, detail=None)
    if recorder.generation is not None:
        leases.drop(tx, recorder.resource_id, recorder.generation)
