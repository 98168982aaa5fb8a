"""`pi-workflows.run-state.v1`: a whole run in one document, built on read and never stored.

The caller holds one snapshot of the database, so that everything in a document is of one moment.
"""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import RunStatus
from pi_workflows.protocol.timestamps import rfc3339
from pi_workflows.protocol.version import RUN_STATE
from store import (
    attempts,
    definitions,
    follow_up_views,
    projection_steps,
    run_queue,
    run_settings,
    run_summaries,
    runner_ends,
    runs,
    unresolved_effects,
    updates,
)
from store.display import display
from store.errors import StoreCorrupt
from store.projection_steps import Step, stored_json, stored_text
from store.run_retry_view import retrying
from store.run_summaries import SummaryRow
from store.transaction import Reading

EFFECTS_MAX: Final = 256
"""Unresolved effects that one document lists."""


@dataclass(frozen=True, slots=True)
class BodiesRow:
    """Input, output and error of a run; media and body are None together."""

    input_media: str
    input: bytes
    output_media: str | None
    output: bytes | None
    error_media: str | None
    error: bytes | None
    parent_run_id: str | None
    prompt_media: str | None
    prompt: bytes | None


SELECT_BODIES: Final = """
    SELECT i.media_type AS input_media, i.content AS input,
           o.media_type AS output_media, o.content AS output,
           e.media_type AS error_media, e.content AS error, r.parent_run_id,
           p.media_type AS prompt_media, p.content AS prompt
      FROM runs AS r
      JOIN blobs AS i ON i.blob_hash = r.input_hash
      LEFT JOIN blobs AS o ON o.blob_hash = r.final_output_hash
      LEFT JOIN blobs AS e ON e.blob_hash = r.error_hash
      LEFT JOIN blobs AS p ON p.blob_hash = r.presentation_prompt_hash
     WHERE r.run_id = :run_id
"""

ROW_STATEMENTS: Final = {"SELECT_BODIES": BodiesRow}


def run_state(reading: Reading, run_id: str) -> JsonObject:
    """Return the run as `pi-workflows.run-state.v1`; optional fields are absent, not null.

    Beyond the schema's fields: `display`, each step's `visit`, `effects`, the effects that are
    not resolved, and, while the run has not ended and its newest runner ended badly,
    `lastRunner`. A number of queries that does not depend on the number of steps.

    Raises:
        RunUnknownError: no run has this id.
        StoreCorrupt: the steps have a gap, or a body has the wrong media type.
    """
    run = run_summaries.require(reading, run_id)
    recorded = projection_steps.steps(reading, run_id)
    state = _head(reading, run)
    state.update(_history(recorded))
    if run.status_detail is not None:
        state["statusDetail"] = run.status_detail
    if run.paused:
        state["paused"] = True
    state.update(current(reading, run))
    between = retrying(reading, run)
    if between is not None:
        state["retrying"] = between
    state.update(_bodies(reading, run))
    effects: list[JsonValue] = [
        *unresolved_effects.unresolved(reading, run.resource_id, limit=EFFECTS_MAX)
    ]
    state["effects"] = effects
    told: list[JsonValue] = [*updates.current(reading, run_id)]
    if told:
        state["updates"] = told
    queue = follow_up_views.whole_queue(reading, run_id)
    if queue is not None:
        state["followUpQueue"] = queue
    last_runner = None if run.status.terminal else runner_ends.bad_end(reading, run_id)
    if last_runner is not None:
        state["lastRunner"] = last_runner
    words = run_queue.last_words(reading, run_id)
    state["display"] = display(run, reading.now, words=words)
    return state


def current(reading: Reading, run: SummaryRow) -> JsonObject:
    """Return where a live run stands; empty between nodes and after the end."""
    attempt = None if run.finished_at is not None else attempts.unfinished(reading, run.run_id)
    if attempt is None:
        return {}
    where: JsonObject = {"currentNode": attempt.node_id, "currentAttemptId": attempt.attempt_id}
    if attempt.started_at is not None:
        where["currentNodeStartedAt"] = rfc3339(attempt.started_at)
    bound = run_settings.binding(reading, attempt.attempt_id)
    if bound is not None and bound.settings_hash is not None:
        where["currentSettingsScopeId"] = bound.settings_scope_id
        where["currentSettingsChangeNumber"] = bound.settings_change_number
        where["currentSettingsHash"] = bound.settings_hash.hex()
    if run.status is RunStatus.WAITING:
        where["waitingOn"] = attempt.node_id
    return where


def _head(reading: Reading, run: SummaryRow) -> JsonObject:
    head: JsonObject = {
        "schema": RUN_STATE,
        "traceSeq": run.run_revision,
        "runId": run.run_id,
        "workflowName": run.workflow_name,
        "startedAt": rfc3339(run.created_at),
        "updatedAt": rfc3339(run.updated_at),
        "status": run.status.value,
    }
    if run.title is not None:
        head["runTitle"] = run.title
    if run.finished_at is not None:
        head["finishedAt"] = rfc3339(run.finished_at)
    head.update(_sources(reading, run))
    return head


def _sources(reading: Reading, run: SummaryRow) -> JsonObject:
    """Return where the workflow and all that it includes come from."""
    root, *mounts = runs.sources(reading, run.run_id)
    shown: JsonObject = {"workflowSource": root.identity.stored()}
    if mounts:
        digest = runs.require(reading, run.run_id).definition_digest
        definition = definitions.load(reading, digest)
        included: list[JsonValue] = [
            {
                "mountPath": [*mount.mount_path.split("/")],
                "workflowName": definition.mounts[mount.mount_path].name,
                "source": mount.identity.stored(),
            }
            for mount in mounts
        ]
        shown["workflowSources"] = included
        shown["definitionDigest"] = f"sha256:{digest.hex()}"
    return shown


def _history(recorded: list[Step]) -> JsonObject:
    steps: list[JsonValue] = [projection_steps.projected(step) for step in recorded]
    return {
        "steps": steps,
        "outputs": projection_steps.outputs(recorded),
        "results": projection_steps.results(recorded),
    }


def _bodies(reading: Reading, run: SummaryRow) -> JsonObject:
    row = reading.one(BodiesRow, SELECT_BODIES, {"run_id": run.run_id})
    if row is None:
        raise StoreCorrupt("the input of a run is missing")
    bodies: JsonObject = {"input": stored_json(row.input_media, row.input)}
    if row.output is not None:
        bodies["finalOutput"] = stored_json(row.output_media, row.output)
    error = stored_text(row.error_media, row.error)
    if error is not None:
        bodies["error"] = error
    if row.parent_run_id is not None:
        bodies["parentRunId"] = row.parent_run_id
    prompt = stored_text(row.prompt_media, row.prompt)
    if prompt is not None:
        bodies["presentationPrompt"] = prompt
    return bodies
