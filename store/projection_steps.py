"""The recorded steps of a run with their bodies, in order, and the folds over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue, load_stored
from pi_workflows.protocol.content import JSON_MEDIA
from pi_workflows.protocol.definition import exit_of
from pi_workflows.protocol.states import (
    OUTCOME_OF_ATTEMPT,
    AttemptStatus,
    NodeType,
    StepOutcome,
)
from pi_workflows.protocol.timestamps import rfc3339
from store.blobs import TEXT_MEDIA
from store.errors import StoreCorrupt
from store.transaction import Reading


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step: its attempt and the stored bodies; media and body are None together."""

    step_index: int
    attempt_id: str
    node_id: str
    node_type: str
    visit: int
    failed_tries: int
    status: AttemptStatus
    started_at: int | None
    finished_at: int | None
    prompt_media: str | None
    prompt: bytes | None
    output_media: str | None
    output: bytes | None
    error_media: str | None
    error: bytes | None
    receipt_media: str | None
    receipt: bytes | None
    settings_scope_id: str | None
    settings_change_number: int | None
    settings_hash: bytes | None


@dataclass(frozen=True, slots=True)
class Step:
    """One step, decoded.

    Attributes:
        failed_tries: earlier tries of the visit that a declared retry let be followed by others.
        started_at: UTC epoch ms.
        finished_at: UTC epoch ms.
        prompt: None unless a model was asked.
        output: JSON value; None also where no output is stored.
        receipt: what an action or shell node reports of its work; None without one.
        settings: id, change number and hash of what it ran with; None without settings.
    """

    step_index: int
    attempt_id: str
    node_id: str
    node_type: str
    visit: int
    failed_tries: int
    outcome: StepOutcome
    started_at: int
    finished_at: int
    prompt: str | None
    output: JsonValue
    error: str | None
    receipt: JsonValue
    settings: tuple[str, int, bytes] | None


SELECT_STEPS: Final = """
    SELECT s.step_index, a.attempt_id, a.node_id, a.node_type, a.visit,
           (SELECT count(*) FROM node_attempts AS t
             WHERE t.run_id = a.run_id AND t.node_id = a.node_id AND t.visit = a.visit
               AND t.attempt_number < a.attempt_number
               AND t.status IN ('failed', 'timed_out')) AS failed_tries,
           a.status, a.started_at, a.finished_at,
           p.media_type AS prompt_media, p.content AS prompt,
           o.media_type AS output_media, o.content AS output,
           e.media_type AS error_media, e.content AS error,
           c.media_type AS receipt_media, c.content AS receipt,
           a.settings_scope_id, a.settings_change_number, a.settings_hash
      FROM run_steps AS s
      JOIN node_attempts AS a ON a.attempt_id = s.attempt_id
      LEFT JOIN blobs AS p ON p.blob_hash = a.prompt_hash
      LEFT JOIN blobs AS o ON o.blob_hash = a.output_hash
      LEFT JOIN blobs AS e ON e.blob_hash = a.error_hash
      LEFT JOIN blobs AS c ON c.blob_hash = a.receipt_hash
     WHERE s.run_id = :run_id AND s.step_index >= :first
     ORDER BY s.step_index
     LIMIT :limit
"""

ROW_STATEMENTS: Final = {"SELECT_STEPS": StepRow}

_ALL: Final = -1  # SQLite's word for a LIMIT that limits nothing.


def steps(
    reading: Reading, run_id: str, *, first: int = 0, limit: int | None = None
) -> list[Step]:
    """Return steps from index `first` on, in order; empty past the last one.

    Args:
        limit: how many at most; None returns all.

    Raises:
        StoreCorrupt: an index is missing, a step's attempt has not ended, or a body has the
            wrong media type.
    """
    found = reading.many(
        StepRow,
        SELECT_STEPS,
        {"run_id": run_id, "first": first, "limit": _ALL if limit is None else limit},
    )
    for expected, row in enumerate(found, start=first):
        if row.step_index != expected:
            raise StoreCorrupt(f"the run has no step {expected}")
    return [_decoded(row) for row in found]


def outputs(recorded: Sequence[Step]) -> JsonObject:
    """Return the latest `ok` output by node; any later other outcome of the node removes it.

    An exit gives its output to its mount too.
    """
    folded: JsonObject = {}
    for step in recorded:
        for name in _names(step):
            if step.outcome is StepOutcome.OK:
                folded[name] = step.output
            else:
                folded.pop(name, None)
    return folded


def results(recorded: Sequence[Step]) -> JsonObject:
    """Return the latest result by node, whatever its outcome: what `$result.` paths read."""
    folded: JsonObject = {}
    for step in recorded:
        result = _facts(step)
        result["durationMs"] = max(0, step.finished_at - step.started_at)
        if step.outcome is StepOutcome.OK:
            result["output"] = step.output
        if step.error is not None:
            result["error"] = step.error
        for name in _names(step):
            folded[name] = result
    return folded


def _names(step: Step) -> list[str]:
    """Return under which names a step is known: an exit stands for its mount too."""
    left = exit_of(step.node_id)
    return [step.node_id] if left is None else [step.node_id, left[0]]


def projected(step: Step) -> JsonObject:
    """Return a step as `pi-workflows.run-state.v1` shows it."""
    shown = _facts(step)
    shown["visit"] = step.visit
    if step.failed_tries:
        shown["failedTries"] = step.failed_tries
    shown["prompt"] = step.prompt
    shown["output"] = step.output
    if step.error is not None:
        shown["error"] = step.error
    if step.settings is not None:
        scope_id, number, value = step.settings
        shown["settingsScopeId"] = scope_id
        shown["settingsChangeNumber"] = number
        shown["settingsHash"] = value.hex()
    if step.receipt is not None:
        shown["action"] = step.receipt
    return shown


def stored_json(media_type: str | None, content: bytes | None) -> JsonValue:
    """Return a stored JSON value; None where nothing is stored.

    Raises:
        StoreCorrupt: it is stored as another media type.
    """
    if content is None:
        return None
    if media_type != JSON_MEDIA:
        raise StoreCorrupt("a JSON value is stored as another media type")
    return load_stored(content)


def stored_text(media_type: str | None, content: bytes | None) -> str | None:
    """Return a stored text, without a character that a cut split; None where nothing is stored.

    Raises:
        StoreCorrupt: it is stored as another media type.
    """
    if content is None:
        return None
    if media_type != TEXT_MEDIA:
        raise StoreCorrupt("a text is stored as another media type")
    return content.decode(errors="ignore")


def outcome_of(status: AttemptStatus) -> StepOutcome:
    """Return the outcome of a step whose attempt has this status.

    Raises:
        StoreCorrupt: the attempt has not ended.
    """
    outcome = OUTCOME_OF_ATTEMPT.get(status)
    if outcome is None:
        raise StoreCorrupt(f"a step's attempt is {status}")
    return outcome


def _decoded(row: StepRow) -> Step:
    if row.started_at is None or row.finished_at is None:
        raise StoreCorrupt("a step's attempt has no times")
    return Step(
        step_index=row.step_index,
        attempt_id=row.attempt_id,
        node_id=row.node_id,
        node_type=row.node_type,
        visit=row.visit,
        failed_tries=row.failed_tries,
        outcome=outcome_of(row.status),
        started_at=row.started_at,
        finished_at=row.finished_at,
        prompt=(
            stored_text(row.prompt_media, row.prompt) if row.node_type == NodeType.AGENT else None
        ),
        output=stored_json(row.output_media, row.output),
        error=stored_text(row.error_media, row.error),
        receipt=stored_json(row.receipt_media, row.receipt),
        settings=_settings(row),
    )


def _settings(row: StepRow) -> tuple[str, int, bytes] | None:
    scope_id, number, value = row.settings_scope_id, row.settings_change_number, row.settings_hash
    if scope_id is None or number is None or value is None:
        return None
    return scope_id, number, value


def _facts(step: Step) -> JsonObject:
    return {
        "attemptId": step.attempt_id,
        "nodeId": step.node_id,
        "nodeType": step.node_type,
        "outcome": step.outcome.value,
        "startedAt": rfc3339(step.started_at),
        "finishedAt": rfc3339(step.finished_at),
    }
