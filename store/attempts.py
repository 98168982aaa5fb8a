"""Tries of nodes, and the steps that finished tries become.

Cost per step never depends on history: the visit is a stored column, and the next numbers come
from the last row of an index.
"""

from typing import Final, NamedTuple

from pi_workflows.protocol.states import AttemptStatus
from store.errors import ProposalRefused
from store.machines.attempt import ATTEMPT_MACHINE, MOVE_TO_OUTCOME, AttemptMove
from store.transaction import Reading, Transaction, affected_one


class AttemptRow(NamedTuple):
    """One try of one node."""

    attempt_id: str
    run_id: str
    node_id: str
    visit: int
    attempt_number: int
    node_type: str
    status: AttemptStatus
    timeout_ms: int | None
    started_at: int | None
    finished_at: int | None


class CountRow(NamedTuple):
    """A number of steps."""

    authored_count: int


class LatestRow(NamedTuple):
    """Numbers of the newest try of a node, and whether it became a step."""

    visit: int
    attempt_number: int
    recorded: int


class LastStepRow(NamedTuple):
    """The newest step of a run.

    Attributes:
        authored_count: steps of nodes that authors declared, up to it.
    """

    step_index: int
    authored_count: int
    node_id: str
    status: AttemptStatus
    output_hash: bytes | None
    error_hash: bytes | None


SELECT_UNFINISHED: Final = """
    SELECT attempt_id, run_id, node_id, visit, attempt_number, node_type, status, timeout_ms,
           started_at, finished_at
      FROM node_attempts
     WHERE run_id = :run_id AND finished_at IS NULL
"""

SELECT_LATEST: Final = """
    SELECT a.visit, a.attempt_number,
           EXISTS (SELECT 1 FROM run_steps AS s
                    WHERE s.run_id = a.run_id AND s.attempt_id = a.attempt_id) AS recorded
      FROM node_attempts AS a
     WHERE a.run_id = :run_id AND a.node_id = :node_id
     ORDER BY a.attempt_number DESC LIMIT 1
"""

SELECT_LAST_STEP: Final = """
    SELECT s.step_index, s.authored_count, a.node_id, a.status, a.output_hash, a.error_hash
      FROM run_steps AS s JOIN node_attempts AS a ON a.attempt_id = s.attempt_id
     WHERE s.run_id = :run_id
     ORDER BY s.step_index DESC LIMIT 1
"""

INSERT_ATTEMPT: Final = """
    INSERT INTO node_attempts (attempt_id, run_id, node_id, visit, attempt_number, node_type,
                               status, started_at, created_at, updated_at)
    VALUES (:attempt_id, :run_id, :node_id, :visit, :attempt_number, :node_type,
            'running', :started_at, :now, :now)
    ON CONFLICT (attempt_id) DO NOTHING
"""

UPDATE_TIMEOUT: Final = """
    UPDATE node_attempts SET timeout_ms = :timeout_ms, updated_at = :now
     WHERE attempt_id = :attempt_id AND status = 'running'
"""

UPDATE_ATTEMPT: Final = """
    UPDATE node_attempts SET status = :status, updated_at = :now
     WHERE attempt_id = :attempt_id AND status = :expected
"""

UPDATE_ATTEMPT_FINISHED: Final = """
    UPDATE node_attempts
       SET status = :status, output_hash = :output_hash, error_hash = :error_hash,
           receipt_hash = :receipt_hash, finished_at = :now, updated_at = :now
     WHERE attempt_id = :attempt_id AND status = :expected
"""

# The next index, and a finished attempt of this very run, or nothing.
INSERT_STEP: Final = """
    INSERT INTO run_steps (run_id, step_index, attempt_id, authored_count)
    SELECT a.run_id, :step_index, a.attempt_id, :authored_count
      FROM node_attempts AS a
     WHERE a.attempt_id = :attempt_id AND a.run_id = :run_id AND a.finished_at IS NOT NULL
       AND :step_index = (SELECT coalesce(max(s.step_index) + 1, 0) FROM run_steps AS s
                           WHERE s.run_id = :run_id)
"""

SELECT_COUNT_AT: Final = """
    SELECT s.authored_count
      FROM node_attempts AS a
      JOIN run_steps AS s ON s.run_id = a.run_id AND s.attempt_id = a.attempt_id
     WHERE a.run_id = :run_id AND a.node_id = :node_id
     ORDER BY a.attempt_number DESC LIMIT 1
"""

ROW_STATEMENTS: Final = {
    "SELECT_UNFINISHED": AttemptRow,
    "SELECT_LATEST": LatestRow,
    "SELECT_LAST_STEP": LastStepRow,
    "SELECT_COUNT_AT": CountRow,
}


class Finish(NamedTuple):
    """How an attempt ends; hashes of stored blobs, None where there is nothing."""

    status: AttemptStatus
    output_hash: bytes | None = None
    error_hash: bytes | None = None
    receipt_hash: bytes | None = None


def unfinished(reading: Reading, run_id: str) -> AttemptRow | None:
    """Return the one try that is not final, interrupted included; None when there is none."""
    return reading.one(AttemptRow, SELECT_UNFINISHED, {"run_id": run_id})


def last_step(reading: Reading, run_id: str) -> LastStepRow | None:
    """Return the newest step; None before the first."""
    return reading.one(LastStepRow, SELECT_LAST_STEP, {"run_id": run_id})


def next_numbers(reading: Reading, run_id: str, node_id: str) -> tuple[int, int]:
    """Return (visit, attempt number) of the next try of a node.

    A try that never became a step is repeated in the same visit; a recorded one opens the next.
    """
    latest = reading.one(LatestRow, SELECT_LATEST, {"run_id": run_id, "node_id": node_id})
    if latest is None:
        return 1, 1
    return latest.visit + latest.recorded, latest.attempt_number + 1


def open_visit(reading: Reading, run_id: str, node_id: str) -> int | None:
    """Return the visit of a node that was tried and is no step yet; None when there is none."""
    latest = reading.one(LatestRow, SELECT_LATEST, {"run_id": run_id, "node_id": node_id})
    return None if latest is None or latest.recorded else latest.visit


def insert(tx: Transaction, attempt: AttemptRow) -> bool:
    """Insert a running attempt; False if an attempt of any run has its id.

    A unique index refuses a second active one of the run.
    """
    inserted = tx.execute(
        INSERT_ATTEMPT,
        {
            "attempt_id": attempt.attempt_id,
            "run_id": attempt.run_id,
            "node_id": attempt.node_id,
            "visit": attempt.visit,
            "attempt_number": attempt.attempt_number,
            "node_type": attempt.node_type,
            "started_at": attempt.started_at,
            "now": tx.now,
        },
    )
    return inserted == 1


def set_timeout(tx: Transaction, attempt_id: str, timeout_ms: int) -> None:
    """Store a running attempt's budget in ms; 0 is unlimited."""
    affected_one(
        tx.execute(
            UPDATE_TIMEOUT, {"attempt_id": attempt_id, "timeout_ms": timeout_ms, "now": tx.now}
        )
    )


def move(tx: Transaction, attempt: AttemptRow, attempt_move: AttemptMove) -> AttemptStatus:
    """Move an attempt that does not end.

    Raises:
        IllegalTransitionError: the machine has no such move.
    """
    status = ATTEMPT_MACHINE.apply(attempt.status, attempt_move)
    affected_one(
        tx.execute(
            UPDATE_ATTEMPT,
            {
                "attempt_id": attempt.attempt_id,
                "status": status,
                "expected": attempt.status,
                "now": tx.now,
            },
        )
    )
    return status


def finish(tx: Transaction, attempt: AttemptRow, end: Finish) -> None:
    """End an attempt.

    Raises:
        IllegalTransitionError: it is final already, or cannot end so from where it is.
    """
    ATTEMPT_MACHINE.apply(attempt.status, MOVE_TO_OUTCOME[end.status])
    affected_one(
        tx.execute(
            UPDATE_ATTEMPT_FINISHED,
            {
                "attempt_id": attempt.attempt_id,
                "status": end.status,
                "output_hash": end.output_hash,
                "error_hash": end.error_hash,
                "receipt_hash": end.receipt_hash,
                "expected": attempt.status,
                "now": tx.now,
            },
        )
    )


def append_step(
    tx: Transaction, run_id: str, step_index: int, attempt_id: str, authored_count: int
) -> None:
    """Record a finished attempt as step `step_index`.

    Raises:
        ProposalRefused: it is not the next index, or the attempt is another run's or not over.
    """
    appended = tx.execute(
        INSERT_STEP,
        {
            "run_id": run_id,
            "step_index": step_index,
            "attempt_id": attempt_id,
            "authored_count": authored_count,
        },
    )
    if appended != 1:
        raise ProposalRefused("this attempt cannot be the run's next step")


def count_at(reading: Reading, run_id: str, node_id: str) -> int:
    """Return how many authored steps there were up to the newest step of a node; 0 without one."""
    row = reading.one(CountRow, SELECT_COUNT_AT, {"run_id": run_id, "node_id": node_id})
    return 0 if row is None else row.authored_count
