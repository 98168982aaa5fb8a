"""What is shown of a run that waits between two tries of a node."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.retry import RETRY_AFTER
from pi_workflows.protocol.states import (
    OUTCOME_OF_ATTEMPT,
    AttemptStatus,
    ParkReason,
    QueueStatus,
)
from pi_workflows.protocol.timestamps import rfc3339
from store.projection_steps import stored_json, stored_text
from store.run_retrying import failed_tries
from store.run_summaries import SummaryRow
from store.transaction import Reading

ERROR_BYTES_MAX: Final = 8_192


@dataclass(frozen=True, slots=True)
class FailedTryRow:
    """The newest try of a run's open visit that ended badly."""

    node_id: str
    visit: int
    status: AttemptStatus
    error_media: str | None
    error: bytes | None
    receipt_media: str | None
    receipt: bytes | None


SELECT_NEWEST_FAILED: Final = """
    SELECT a.node_id, a.visit, a.status, e.media_type AS error_media,
           substr(e.content, 1, :error_bytes) AS error,
           c.media_type AS receipt_media, c.content AS receipt
      FROM node_attempts AS a
      LEFT JOIN blobs AS e ON e.blob_hash = a.error_hash
      LEFT JOIN blobs AS c ON c.blob_hash = a.receipt_hash
     WHERE a.run_id = :run_id AND a.status IN ('failed', 'timed_out')
       AND NOT EXISTS (SELECT 1 FROM node_attempts AS b
                         JOIN run_steps AS s
                           ON s.run_id = b.run_id AND s.attempt_id = b.attempt_id
                        WHERE b.run_id = a.run_id AND b.node_id = a.node_id
                          AND b.visit = a.visit)
     ORDER BY a.finished_at DESC, a.rowid DESC LIMIT 1
"""

ROW_STATEMENTS: Final = {"SELECT_NEWEST_FAILED": FailedTryRow}


def retrying(reading: Reading, run: SummaryRow) -> JsonObject | None:
    """Return `{nodeId, visit, failedTries, outcome, nextTryAt, asked?, error?}`.

    None for a run that does not wait between two tries.
    """
    waits = run.queue_status is QueueStatus.PARKED and run.error_code == ParkReason.RETRY_BACKOFF
    if not waits or run.available_at is None:
        return None
    newest = reading.one(
        FailedTryRow,
        SELECT_NEWEST_FAILED,
        {"run_id": run.run_id, "error_bytes": ERROR_BYTES_MAX},
    )
    if newest is None:
        return None
    shown: JsonObject = {
        "nodeId": newest.node_id,
        "visit": newest.visit,
        "failedTries": failed_tries(reading, run.run_id, newest.node_id, newest.visit),
        "outcome": OUTCOME_OF_ATTEMPT[newest.status].value,
        "nextTryAt": rfc3339(run.available_at),
    }
    receipt = stored_json(newest.receipt_media, newest.receipt)
    if isinstance(receipt, dict) and RETRY_AFTER in receipt:
        shown["asked"] = True
    error = stored_text(newest.error_media, newest.error)
    if error is not None:
        shown["error"] = error
    return shown
