"""What one glance at a run needs: status facts of many runs in one query, no payload."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, canonical_text
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import QueueStatus, RunStatus
from pi_workflows.protocol.timestamps import rfc3339
from store import runs
from store.errors import RunUnknownError
from store.transaction import Reading


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """Status facts of one run.

    Attributes:
        run_revision: of the run's resource; counts its execution.
        presentation_revision: of its views; 0 before the first one was announced.
        claimed_until: UTC epoch ms at which the run's lease ends; None when nobody owns it.
        queue_status: None for a run that was never scheduled.
        deaths: of its runners in a row without progress.
        request_kind: kind of the pending request; None when none is pending.
        ambiguous: True while an effect of the run may or may not have happened.
        open_turn: True while a model's turn that the run started is open.
        steps: recorded steps.
    """

    run_id: str
    resource_id: ResourceId
    workflow_name: str
    title: str | None
    project_path: str | None
    status: RunStatus
    paused: bool
    status_detail: str | None
    created_at: int
    updated_at: int
    finished_at: int | None
    run_revision: int
    presentation_revision: int
    claimed_until: int | None
    queue_status: QueueStatus | None
    available_at: int | None
    deaths: int
    error_code: str | None
    request_kind: str | None
    ambiguous: bool
    open_turn: bool
    steps: int


SELECT_SUMMARIES: Final = """
    SELECT r.run_id, r.resource_id, d.workflow_name, r.title, p.canonical_path AS project_path,
           r.status, r.paused, r.status_detail, r.created_at, r.updated_at, r.finished_at,
           o.revision AS run_revision,
           coalesce(v.presentation_revision, 0) AS presentation_revision,
           l.expires_at AS claimed_until, q.status AS queue_status, q.available_at,
           coalesce(q.consecutive_errors, 0) AS deaths, q.error_code, i.kind AS request_kind,
           EXISTS (SELECT 1 FROM effects AS e
                    WHERE e.source_resource_id = r.resource_id
                      AND e.status = 'ambiguous' AND e.settled_at IS NULL) AS ambiguous,
           EXISTS (SELECT 1 FROM workflow_turns AS t
                    WHERE t.run_id = r.run_id AND t.state = 'started') AS open_turn,
           coalesce((SELECT max(s.step_index) + 1 FROM run_steps AS s
                      WHERE s.run_id = r.run_id), 0) AS steps
      FROM json_each(:run_ids) AS wanted
      JOIN runs AS r ON r.run_id = wanted.value
      JOIN workflow_definitions AS d ON d.definition_digest = r.definition_digest
      JOIN resources AS o ON o.resource_id = r.resource_id
      JOIN leases AS l ON l.resource_id = r.resource_id
      LEFT JOIN projects AS p ON p.project_id = r.project_id
      LEFT JOIN viewer_runs AS v ON v.run_id = r.run_id
      LEFT JOIN run_queue AS q ON q.run_id = r.run_id
      LEFT JOIN interactive_requests AS i ON i.run_id = r.run_id AND i.status = 'pending'
     ORDER BY r.created_at DESC, r.run_id DESC
"""

ROW_STATEMENTS: Final = {"SELECT_SUMMARIES": SummaryRow}


def of_runs(reading: Reading, run_ids: Sequence[str]) -> list[SummaryRow]:
    """Return the runs that exist among `run_ids`, newest first."""
    return reading.many(SummaryRow, SELECT_SUMMARIES, {"run_ids": canonical_text(list(run_ids))})


def require(reading: Reading, run_id: str) -> SummaryRow:
    """Return one run's facts.

    Raises:
        RunUnknownError: no run has this id; names up to three that look alike.
    """
    found = of_runs(reading, [run_id])
    if not found:
        raise RunUnknownError(run_id, tuple(runs.nearest(reading, run_id)))
    return found[0]


def manifest(summary: SummaryRow) -> JsonObject:
    """Return what never or seldom changes of a run, under wire names."""
    named: JsonObject = {"runId": summary.run_id, "workflowName": summary.workflow_name}
    if summary.title is not None:
        named["title"] = summary.title
    named["createdAt"] = rfc3339(summary.created_at)
    named["updatedAt"] = rfc3339(summary.updated_at)
    if summary.finished_at is not None:
        named["finishedAt"] = rfc3339(summary.finished_at)
    return named
