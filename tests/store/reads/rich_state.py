"""Rows of every kind that an invariant is about, all of them sound, beside four real runs.

`done` has ended, `live` is at work, `lost` lost its child in a manual effect, `cancelled` never
began. The rest is written by hand: most of it has no command yet.
"""

# ruff: noqa: S608 - all parts of these statements are written here

from typing import Final


def blob(number: int) -> str:
    """An expression for the key of some stored content."""
    return f"(SELECT blob_hash FROM blobs ORDER BY blob_hash LIMIT 1 OFFSET {number})"


def attempt(run_id: str, number: int = 0) -> str:
    """An expression for the id of a run's n-th attempt."""
    return (
        f"(SELECT attempt_id FROM node_attempts WHERE run_id = '{run_id}'"
        f" ORDER BY created_at, attempt_id LIMIT 1 OFFSET {number})"
    )


def _resource(name: str, kind: str, revision: int = 0) -> str:
    return f"INSERT INTO resources VALUES ('{name}', '{kind}', '{name}', {revision}, 1, 1)"


def _request(name: str, run_id: str, of: str, status: str, submission: str | None = None) -> str:
    settled = f"'{submission}', 1, 1, 2, 2" if submission else "NULL, 1, 1, NULL, NULL"
    return f"""
        INSERT INTO interactive_requests (request_id, run_id, attempt_id, target_session_id, kind,
                                          contract_hash, revision, status, accepted_submission_id,
                                          created_at, updated_at, settled_at, consumed_at)
        VALUES ('{name}', '{run_id}', {of}, 's1', 'agent', {blob(0)}, 1, '{status}', {settled})
    """


def _submission(name: str, request: str, payload: str) -> str:
    return f"""
        INSERT INTO interactive_submissions (submission_id, request_id, idempotency_key,
                                             request_revision, payload_hash, outcome, submitted_at)
        VALUES ('{name}', '{request}', '{name}', 1, {payload}, 'accepted', 1)
    """


def _message(name: str, run_id: str, kind: str, session: str) -> tuple[str, str]:
    return (
        _resource(name, "workflow_message"),
        f"""
        INSERT INTO workflow_messages (workflow_message_id, resource_id, run_id,
                                       target_session_id, kind, source_id, content_hash,
                                       order_number, status, created_at, updated_at)
        VALUES ('{name}', '{name}', '{run_id}', '{session}', '{kind}', '{name}', {blob(0)}, 1,
                'pending', 1, 1)
        """,
    )


def _turn(name: str, message: str, run_id: str, session: str) -> str:
    return f"""
        INSERT INTO workflow_turns (workflow_turn_id, workflow_message_id, run_id,
                                    target_session_id, state, active_elapsed_ms, started_at)
        VALUES ('{name}', '{message}', '{run_id}', '{session}', 'started', 0, 1)
    """


def _decision(name: str, of: str, digest: int) -> tuple[str, str]:
    return (
        _resource(name, "decision"),
        f"""
        INSERT INTO human_decisions (decision_id, resource_id, run_id, attempt_id, audience,
                                     title, subject_hash, presentation_hash, choices_hash,
                                     request_digest, presentation_revision, request_hash,
                                     created_at)
        VALUES ('{name}', '{name}', 'done', {of}, 'all', 't', {blob(0)}, {blob(0)}, {blob(0)},
                {blob(digest)}, 1, {blob(0)}, 1)
        """,
    )


def _resolution(name: str, outcome: str, digest: int) -> str:
    how = (
        f"'human', {blob(1)}, NULL" if outcome == "accepted" else "'explicit_cancel', NULL, 'why'"
    )
    return f"""
        INSERT INTO human_decision_resolutions (decision_id, outcome, provenance, response_hash,
                                                reason, request_digest, resolution_digest,
                                                resolved_at)
        VALUES ('{name}', '{outcome}', {how}, {blob(digest)}, {blob(digest)}, 1)
    """


def _effect(name: str, source: str, effect_type: str) -> tuple[str, str]:
    return (
        _resource(name, "effect"),
        f"""
        INSERT INTO effects (effect_id, resource_id, source_resource_id, source_revision,
                             effect_type, idempotency_key, payload_hash, owner_scope, status,
                             attempt_count, created_at, updated_at)
        VALUES ('{name}', '{name}', '{source}', 1, '{effect_type}', 'key', {blob(0)}, 'system',
                'pending', 0, 1, 1)
        """,
    )


def _change(number: int) -> tuple[str, str]:
    return (
        f"""
        INSERT INTO workflow_setting_changes (change_id, scope_id, request_id, change_number,
                                              actor_type, source_type, patch_hash, before_hash,
                                              after_hash, accepted_at)
        VALUES ('change-{number}', 'scope', 'r{number}', {number}, 'session', 'cli', {blob(0)},
                {blob(number - 1)}, {blob(number)}, 1)
        """,
        f"""
        INSERT INTO events (event_id, resource_id, resource_revision, event_type, actor_type,
                            recorded_at)
        VALUES ('event-of-change-{number}', 'scope', {number}, 'settings.changed', 'session', 1)
        """,
    )


_CLOCK: Final = (
    "UPDATE node_attempts SET timeout_ms = 60000 WHERE run_id = 'live'",
    f"""
    INSERT INTO attempt_active_intervals (attempt_id, interval_number, started_at, observed_at,
                                          ended_at, elapsed_ms)
    VALUES ({attempt("live")}, 1, 1, 2, 2, 1), ({attempt("live")}, 2, 3, 4, NULL, 1)
    """,
)
_CAPTURE: Final = (
    _resource("segment", "session"),
    """
    INSERT INTO session_segments (segment_id, run_id, session_id, resource_id, status,
                                  entry_count, event_count, created_at)
    VALUES ('segment', 'live', 's1', 'segment', 'recording', 2, 2, 1)
    """,
    f"""
    INSERT INTO session_entries
    VALUES ('segment', 'live', 1, 1, 'entry-1', {blob(0)}, 1),
           ('segment', 'live', 2, 2, 'entry-2', {blob(0)}, 1)
    """,
    f"""
    INSERT INTO session_events (segment_id, run_id, event_seq, run_seq, event_type, payload_hash,
                                recorded_at)
    VALUES ('segment', 'live', 1, 1, 'turn', {blob(0)}, 1),
           ('segment', 'live', 2, 2, 'turn', {blob(0)}, 1)
    """,
)
_SETTINGS: Final = (
    _resource("scope", "settings", 2),
    f"""
    INSERT INTO workflow_settings (scope_id, resource_id, origin_run_id, active_run_id,
                                   mount_path, invocation, initial_hash, current_hash,
                                   created_at, updated_at)
    VALUES ('scope', 'scope', 'live', 'live', '', 1, {blob(0)}, {blob(2)}, 1, 1)
    """,
    *_change(1),
    *_change(2),
)

RICH: Final[tuple[str, ...]] = (
    _request("asked", "live", attempt("live"), "pending"),
    _request("answered", "done", attempt("done", 0), "settled", "answer"),
    _submission("answer", "answered", blob(0)),
    *_CLOCK,
    *_message("step", "live", "step", "s1"),
    _turn("turn", "step", "live", "s1"),
    # A run that has ended may still be told of, and that may start a turn.
    *_message("end", "done", "terminal", "s2"),
    _turn("telling", "end", "done", "s2"),
    *_decision("yes", attempt("done", 1), 0),
    _resolution("yes", "accepted", 0),
    _request("yes", "done", attempt("done", 1), "settled", "yes-answer"),
    _submission("yes-answer", "yes", blob(1)),
    *_effect("yes-told", "yes", "decision.settle_presentations"),
    *_decision("no", attempt("done", 2), 1),
    _resolution("no", "cancelled", 1),
    *_effect("no-told", "no", "decision.settle_presentations"),
    *_effect("no-ended", "no", "decision.cancel_parent"),
    *_CAPTURE,
    *_SETTINGS,
)
"""Statements that add it all to a store with the four runs."""
