"""The scheduler's rows: who may be claimed, when, and why somebody may not."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.states import ParkReason, QueueStatus
from store import blobs
from store.blobs import Blob
from store.errors import StoreCorrupt
from store.machines.queue import QUEUE_MACHINE, QueueMove
from store.transaction import Reading, Transaction, affected_one

RETRY_FIRST_MS: Final = 1_000
RETRY_MAX_MS: Final = 60_000
NO_PROGRESS_MAX: Final = 3
"""Deaths in a row without progress after which a run waits for a person (README 31)."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One run's place with the scheduler."""

    run_id: str
    status: QueueStatus
    available_at: int
    consecutive_errors: int
    error_code: str | None


@dataclass(frozen=True, slots=True)
class ClaimableRow:
    """A run that may be claimed at `due_at` (UTC epoch ms) or later."""

    run_id: str
    due_at: int


@dataclass(frozen=True, slots=True)
class WordsRow:
    """The hash of what the runner said that gave the run up; None when it said nothing."""

    error_hash: bytes | None


DEATHS: Final = frozenset({ParkReason.CRASHED, ParkReason.TIMED_OUT, ParkReason.PROTOCOL_REJECTED})
"""Classes of a runner's death: the run waits for an instant, then it is claimed again."""

WAITS_FOR_AN_INSTANT: Final = DEATHS | {ParkReason.RETRY_BACKOFF}

SELECT_QUEUE: Final = """
    SELECT run_id, status, available_at, consecutive_errors, error_code
      FROM run_queue WHERE run_id = :run_id
"""

SELECT_WORDS: Final = """
    SELECT error_hash FROM run_queue WHERE run_id = :run_id
"""

# One row per candidate, in the order of the queue. Only a death or a declared retry makes a run
# wait for an instant; for all others `available_at` is their place in the queue, so that a wall
# clock stepped back holds nobody up. A parked run that waits, is paused, or carries a reason that
# only a person may clear is no candidate; nor is one whose lease lives. The index is named, for
# without statistics the planner would sort every queued run.
SELECT_CLAIMABLE: Final = """
    SELECT q.run_id,
           max(CASE WHEN q.error_code IN ('runnerCrashed', 'runnerTimedOut', 'protocolRejected',
                                          'retryBackoff')
                    THEN q.available_at ELSE 0 END,
               coalesce(l.expires_at, 0)) AS due_at
      FROM run_queue AS q INDEXED BY run_queue_admissible
      JOIN runs AS r ON r.run_id = q.run_id
      JOIN leases AS l ON l.resource_id = r.resource_id
     WHERE q.status IN ('queued', 'parked')
       AND r.paused = 0
       AND (q.status = 'queued' OR r.status = 'running')
       AND coalesce(q.error_code, '') NOT IN
           ('workflowSourceChanged', 'runnerNoProgress', 'effectAmbiguous',
            'settingsChainBroken')
       AND NOT EXISTS (SELECT 1 FROM interactive_requests AS i
                        WHERE i.run_id = q.run_id AND i.status = 'pending')
     ORDER BY q.available_at, q.created_at, q.run_id
     LIMIT :limit
"""

INSERT_QUEUE: Final = """
    INSERT INTO run_queue (run_id, status, available_at, origin_session_id, consecutive_errors,
                           created_at, updated_at)
    VALUES (:run_id, 'queued', :now, :origin_session_id, 0, :now, :now)
"""

UPDATE_QUEUE: Final = """
    UPDATE run_queue
       SET status = :status, available_at = :available_at,
           consecutive_errors = :consecutive_errors, error_code = :error_code,
           error_hash = :error_hash, updated_at = :now,
           started_at = CASE WHEN :status = 'starting' THEN :now ELSE started_at END,
           finished_at = CASE WHEN :status IN ('done', 'failed', 'cancelled') THEN :now END
     WHERE run_id = :run_id AND status = :expected
"""

ROW_STATEMENTS: Final = {
    "SELECT_QUEUE": QueueRow,
    "SELECT_CLAIMABLE": ClaimableRow,
    "SELECT_WORDS": WordsRow,
}


def insert(tx: Transaction, run_id: str, *, origin_session_id: str | None) -> None:
    """Queue a new run, due at once; a null session means headless."""
    tx.execute(
        INSERT_QUEUE,
        {
            "run_id": run_id,
            "origin_session_id": origin_session_id,
            "now": tx.now,
        },
    )


def find(reading: Reading, run_id: str) -> QueueRow | None:
    """Return the run's row; None for a run that was never scheduled."""
    return reading.one(QueueRow, SELECT_QUEUE, {"run_id": run_id})


def require(reading: Reading, run_id: str) -> QueueRow:
    """Return the run's row.

    Raises:
        StoreCorrupt: a schedulable run has none.
    """
    found = find(reading, run_id)
    if found is None:
        raise StoreCorrupt("a scheduled run has no queue row")
    return found


def last_words(reading: Reading, run_id: str) -> str | None:
    """Return what the runner said that gave the run up; None when it said nothing.

    Raises:
        StoreCorrupt: it is not stored as text.
    """
    row = reading.one(WordsRow, SELECT_WORDS, {"run_id": run_id})
    if row is None or row.error_hash is None:
        return None
    return blobs.read_text(reading, row.error_hash)


def is_due(row: QueueRow, now: int) -> bool:
    """Say whether the row waits for no instant after `now`: a death or a retry makes it wait."""
    return row.error_code not in WAITS_FOR_AN_INSTANT or row.available_at <= now


def claimable(reading: Reading, limit: int) -> list[ClaimableRow]:
    """Return up to `limit` candidates in queue order; those not yet due carry their instant."""
    return reading.many(ClaimableRow, SELECT_CLAIMABLE, {"limit": limit})


def move(
    tx: Transaction,
    row: QueueRow,
    queue_move: QueueMove,
    *,
    available_at: int | None = None,
    consecutive_errors: int | None = None,
    error_code: ParkReason | None = None,
    error: Blob | None = None,
) -> QueueRow:
    """Move the row; `error_code` and `error` replace whatever stood there.

    Args:
        available_at: UTC epoch ms; None keeps the stored instant.
        consecutive_errors: deaths in a row without progress; None keeps the count.
        error: the last words of what gave the run up, as text; None when it said nothing.

    Raises:
        IllegalTransitionError: the machine has no such move.
    """
    moved = QueueRow(
        row.run_id,
        QUEUE_MACHINE.apply(row.status, queue_move),
        row.available_at if available_at is None else available_at,
        row.consecutive_errors if consecutive_errors is None else consecutive_errors,
        error_code,
    )
    affected_one(
        tx.execute(
            UPDATE_QUEUE,
            {
                "run_id": moved.run_id,
                "status": moved.status,
                "available_at": moved.available_at,
                "consecutive_errors": moved.consecutive_errors,
                "error_code": moved.error_code,
                "error_hash": blobs.put_optional(tx, error),
                "expected": row.status,
                "now": tx.now,
            },
        )
    )
    return moved


def retry_delay_ms(consecutive_errors: int) -> int:
    """Return how long to wait after this many earlier deaths without progress."""
    return int(min(RETRY_MAX_MS, RETRY_FIRST_MS * 2**consecutive_errors))
