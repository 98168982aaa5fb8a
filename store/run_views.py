"""`pi-workflows.run-view.v1`: a bounded picture of one run for whoever watches it.

However long a run is, its view holds the newest steps only and no large body; the whole is
`pi-workflows.run-state.v1`. The caller holds one snapshot of the database.
"""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import AttemptStatus
from pi_workflows.protocol.timestamps import rfc3339
from pi_workflows.protocol.version import RUN_VIEW
from store import (
    attempts,
    follow_up_views,
    run_queue,
    run_summaries,
    settings_lists,
    unresolved_effects,
    updates,
)
from store.display import display
from store.errors import StoreCorrupt
from store.projection_steps import outcome_of, stored_json, stored_text
from store.run_retry_view import retrying
from store.run_summaries import SummaryRow
from store.transaction import Reading

STEPS_MAX: Final = 64
"""Newest steps that a view holds."""

EFFECTS_MAX: Final = 64
"""Unresolved effects that a view holds, oldest first."""

UPDATES_MAX: Final = 32
"""Newest updates that a view holds."""

UPDATE_BYTES_MAX: Final = 4_096
"""Largest data of an update that stands in the view itself."""

SCOPES_MAX: Final = 16
"""Newest settings that a view holds, of the run and of invocations."""

SETTINGS_BYTES_MAX: Final = 4_096
"""Largest settings that stand in the view themselves."""

OUTPUT_BYTES_MAX: Final = 16_384
"""Largest final output, in bytes of its JSON, that stands in the view itself."""

ERROR_BYTES_MAX: Final = 4_096
"""Bytes of the run's error text that a view holds."""

STEP_ERROR_BYTES_MAX: Final = 1_024
"""Bytes of a step's error text; 64 of them fit into a frame even when each byte is escaped."""


@dataclass(frozen=True, slots=True)
class StepLineRow:
    """One step without its bodies."""

    step_index: int
    node_id: str
    node_type: str
    visit: int
    failed_tries: int
    status: AttemptStatus
    started_at: int | None
    finished_at: int | None
    error_media: str | None
    error: bytes | None


@dataclass(frozen=True, slots=True)
class EndingRow:
    """What came out of a run, as far as a view shows it.

    Attributes:
        output: None also when it is larger than a view holds.
        error: its first bytes.
    """

    output_bytes: int | None
    output_media: str | None
    output: bytes | None
    error_media: str | None
    error: bytes | None


SELECT_STEP_LINES: Final = """
    SELECT s.step_index, a.node_id, a.node_type, a.visit,
           (SELECT count(*) FROM node_attempts AS t
             WHERE t.run_id = a.run_id AND t.node_id = a.node_id AND t.visit = a.visit
               AND t.attempt_number < a.attempt_number
               AND t.status IN ('failed', 'timed_out')) AS failed_tries,
           a.status, a.started_at, a.finished_at,
           e.media_type AS error_media, substr(e.content, 1, :error_bytes) AS error
      FROM run_steps AS s
      JOIN node_attempts AS a ON a.attempt_id = s.attempt_id
      LEFT JOIN blobs AS e ON e.blob_hash = a.error_hash
     WHERE s.run_id = :run_id AND s.step_index >= :first
     ORDER BY s.step_index
"""

SELECT_ENDING: Final = """
    SELECT o.byte_length AS output_bytes, o.media_type AS output_media,
           CASE WHEN o.byte_length <= :output_bytes THEN o.content END AS output,
           e.media_type AS error_media, substr(e.content, 1, :error_bytes) AS error
      FROM runs AS r
      LEFT JOIN blobs AS o ON o.blob_hash = r.final_output_hash
      LEFT JOIN blobs AS e ON e.blob_hash = r.error_hash
     WHERE r.run_id = :run_id
"""

ROW_STATEMENTS: Final = {"SELECT_STEP_LINES": StepLineRow, "SELECT_ENDING": EndingRow}


def run_view(reading: Reading, run_id: str) -> JsonObject:
    """Return the view of one run.

    `revision` is the presentation's and orders views; `runRevision` is the execution's. Neither
    may stand for the other.

    Raises:
        RunUnknownError: no run has this id.
        StoreCorrupt: the steps have a gap, or a body has the wrong media type.
    """
    run = run_summaries.require(reading, run_id)
    manifest = run_summaries.manifest(run)
    if run.project_path is not None:
        manifest["projectPath"] = run.project_path
    effects: list[JsonValue] = [
        *unresolved_effects.unresolved(reading, run.resource_id, limit=EFFECTS_MAX)
    ]
    view: JsonObject = {
        "schema": RUN_VIEW,
        "revision": run.presentation_revision,
        "runRevision": run.run_revision,
        "display": display(run, reading.now, words=run_queue.last_words(reading, run_id)),
        "manifest": manifest,
        "steps": _window(reading, run),
        "unresolvedEffects": effects,
    }
    pairs = updates.count(reading, run_id)
    if pairs:
        view["updates"] = _updates(reading, run_id, pairs)
    scopes = settings_lists.newest(reading, run_id, SCOPES_MAX, SETTINGS_BYTES_MAX)
    if scopes:
        view["settings"] = scopes
    queue = follow_up_views.bounded_queue(reading, run_id)
    if queue is not None:
        view["followUpQueue"] = queue
    current = _current(reading, run)
    if current is not None:
        view["current"] = current
    between = retrying(reading, run)
    if between is not None:
        view["retrying"] = between
    view.update(_ending(reading, run))
    return view


def _window(reading: Reading, run: SummaryRow) -> JsonObject:
    first = max(0, run.steps - STEPS_MAX)
    found = reading.many(
        StepLineRow,
        SELECT_STEP_LINES,
        {"run_id": run.run_id, "first": first, "error_bytes": STEP_ERROR_BYTES_MAX},
    )
    if [row.step_index for row in found] != list(range(first, run.steps)):
        raise StoreCorrupt("the run's steps have a gap")
    items: list[JsonValue] = [_line(row) for row in found]
    return {"start": first, "total": run.steps, "items": items}


def _updates(reading: Reading, run_id: str, pairs: int) -> JsonObject:
    newest: list[JsonValue] = [
        *updates.current(reading, run_id, limit=UPDATES_MAX, data_bytes=UPDATE_BYTES_MAX)
    ]
    return {"total": pairs, "items": newest}


def _line(row: StepLineRow) -> JsonObject:
    if row.started_at is None or row.finished_at is None:
        raise StoreCorrupt("a step's attempt has no times")
    line: JsonObject = {
        "stepIndex": row.step_index,
        "nodeId": row.node_id,
        "nodeType": row.node_type,
        "visit": row.visit,
        "outcome": outcome_of(row.status).value,
        "startedAt": rfc3339(row.started_at),
        "finishedAt": rfc3339(row.finished_at),
    }
    if row.failed_tries:
        line["failedTries"] = row.failed_tries
    error = stored_text(row.error_media, row.error)
    if error is not None:
        line["error"] = error
    return line


def _current(reading: Reading, run: SummaryRow) -> JsonObject | None:
    attempt = None if run.finished_at is not None else attempts.unfinished(reading, run.run_id)
    if attempt is None:
        return None
    current: JsonObject = {
        "nodeId": attempt.node_id,
        "attemptId": attempt.attempt_id,
        "visit": attempt.visit,
    }
    if attempt.started_at is not None:
        current["startedAt"] = rfc3339(attempt.started_at)
    if run.status_detail is not None:
        current["statusDetail"] = run.status_detail
    return current


def _ending(reading: Reading, run: SummaryRow) -> JsonObject:
    """Return the output or, where it is too large, that there is one; and the error."""
    if run.finished_at is None:
        return {}
    row = reading.one(
        EndingRow,
        SELECT_ENDING,
        {
            "run_id": run.run_id,
            "output_bytes": OUTPUT_BYTES_MAX,
            "error_bytes": ERROR_BYTES_MAX,
        },
    )
    assert row is not None, "the summary was read in this snapshot"
    ending: JsonObject = {}
    if row.output is not None:
        ending["finalOutput"] = stored_json(row.output_media, row.output)
    elif row.output_bytes is not None:
        ending["finalOutputStored"] = True
    error = stored_text(row.error_media, row.error)
    if error is not None:
        ending["error"] = error
    return ending
