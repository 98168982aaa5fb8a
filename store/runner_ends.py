"""How the newest runner of a run ended, when it ended badly: for whoever looks for the cause."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import WorkerStatus
from pi_workflows.protocol.timestamps import rfc3339
from store.projection_steps import stored_text
from store.transaction import Reading

OUTPUT_CHARS_MAX: Final = 2_000
"""Last characters of the runner's output that are shown."""

_CHARACTER_BYTES_MAX: Final = 4  # in UTF-8
_BAD_ENDS: Final = frozenset(
    {WorkerStatus.CRASHED, WorkerStatus.TIMED_OUT, WorkerStatus.CLAIM_LOST}
)


@dataclass(frozen=True, slots=True)
class RunnerRow:
    """The newest runner of a run; its output is cut to its last bytes."""

    status: WorkerStatus
    exit_code: int | None
    signal: str | None
    finished_at: int | None
    output_media: str | None
    output: bytes | None


# A run has one launch per generation of its lease, and generations only grow.
SELECT_NEWEST_RUNNER: Final = """
    SELECT w.status, w.exit_code, w.signal, w.finished_at,
           b.media_type AS output_media, substr(b.content, -:output_bytes) AS output
      FROM run_workers AS w
      LEFT JOIN blobs AS b ON b.blob_hash = w.diagnostic_hash
     WHERE w.run_id = :run_id
     ORDER BY w.generation DESC
     LIMIT 1
"""

ROW_STATEMENTS: Final = {"SELECT_NEWEST_RUNNER": RunnerRow}


def bad_end(reading: Reading, run_id: str) -> JsonObject | None:
    """Return `{status, exitCode?, signal?, endedAt, outputTail?}` of the newest runner.

    Returns:
        None unless that runner crashed, did not become ready in time, or lost its claim.

    Raises:
        StoreCorrupt: its output is not stored as text.
    """
    row = reading.one(
        RunnerRow,
        SELECT_NEWEST_RUNNER,
        {"run_id": run_id, "output_bytes": OUTPUT_CHARS_MAX * _CHARACTER_BYTES_MAX},
    )
    if row is None or row.status not in _BAD_ENDS or row.finished_at is None:
        return None
    end: JsonObject = {"status": row.status.value}
    if row.exit_code is not None:
        end["exitCode"] = row.exit_code
    if row.signal is not None:
        end["signal"] = row.signal
    end["endedAt"] = rfc3339(row.finished_at)
    output = stored_text(row.output_media, row.output)
    if output is not None:
        end["outputTail"] = output[-OUTPUT_CHARS_MAX:]
    return end
