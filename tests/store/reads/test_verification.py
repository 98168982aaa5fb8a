"""Each broken promise is found under its own code, and nothing else is."""

from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from store import verification

if TYPE_CHECKING:
    from tests.store.reads.conftest import ScriptedStore

# `done` has ended, `live` is at work on a node: what each statement breaks, it breaks alone.
BREAKS: Final[dict[str, tuple[str, ...]]] = {
    "queueState": ("UPDATE run_queue SET status = 'done', finished_at = 1 WHERE run_id = 'live'",),
    "waitingRequest": ("UPDATE runs SET status = 'waiting' WHERE run_id = 'live'",),
    "pendingRequest": (
        """
        INSERT INTO interactive_requests (request_id, run_id, attempt_id, target_session_id, kind,
                                          contract_hash, revision, status, created_at, updated_at)
        SELECT 'request', 'live', attempt_id, 's', 'agent', blob_hash, 1, 'pending', 1, 1
          FROM node_attempts, blobs WHERE run_id = 'done' LIMIT 1
        """,
    ),
    "acceptedRequest": (
        """
        INSERT INTO interactive_requests (request_id, run_id, attempt_id, target_session_id, kind,
                                          contract_hash, revision, status,
                                          accepted_submission_id, created_at, updated_at,
                                          settled_at)
        SELECT 'request', 'live', attempt_id, 's', 'agent', blob_hash, 1, 'settled', 'gone', 1, 1,
               1
          FROM node_attempts, blobs WHERE run_id = 'live' LIMIT 1
        """,
    ),
    "activeClock": (
        """
        INSERT INTO attempt_active_intervals (attempt_id, interval_number, started_at,
                                              observed_at, elapsed_ms)
        SELECT attempt_id, 1, 1, 1, 0 FROM node_attempts WHERE run_id = 'live'
        """,
    ),
    "sessionTurns": (
        "INSERT INTO resources VALUES ('m1', 'workflow_message', '1', 0, 1, 1)",
        "INSERT INTO resources VALUES ('m2', 'workflow_message', '2', 0, 1, 1)",
        """
        INSERT INTO workflow_messages (workflow_message_id, resource_id, run_id,
                                       target_session_id, kind, source_id, content_hash,
                                       order_number, status, created_at, updated_at)
        SELECT resource_id, resource_id, 'live', 's', 'notification', 'x', blob_hash,
               CAST(aggregate_key AS INTEGER), 'cancelled', 1, 1
          FROM resources, (SELECT blob_hash FROM blobs LIMIT 1)
         WHERE resource_type = 'workflow_message'
        """,
        """
        INSERT INTO workflow_turns (workflow_turn_id, workflow_message_id, run_id,
                                    target_session_id, state, active_elapsed_ms, started_at)
        SELECT workflow_message_id, workflow_message_id, 'live', 's', 'started', 0, 1
          FROM workflow_messages
        """,
    ),
    "eventRevision": (
        "UPDATE resources SET revision = revision + 1 WHERE aggregate_key = 'live'",
    ),
    "stepOrder": ("UPDATE run_steps SET step_index = 7 WHERE run_id = 'done' AND step_index = 4",),
    "attemptCount": (
        """
        INSERT INTO node_attempts (attempt_id, run_id, node_id, visit, attempt_number, node_type,
                                   status, created_at, updated_at)
        VALUES ('second', 'live', 'count', 1, 9, 'compute', 'interrupted', 1, 1)
        """,
    ),
    "terminalOpenWork": (
        """
        UPDATE leases SET owner_type = 'host', owner_id = 'server-1', token_hash = zeroblob(32),
                          acquired_at = 1, heartbeat_at = 1, expires_at = 9999999999999
         WHERE resource_id = (SELECT resource_id FROM runs WHERE run_id = 'done')
        """,
    ),
    "decisionEffects": (
        "INSERT INTO resources VALUES ('d', 'decision', 'decision', 0, 1, 1)",
        """
        INSERT INTO human_decisions (decision_id, resource_id, run_id, attempt_id, audience,
                                     title, subject_hash, presentation_hash, choices_hash,
                                     request_digest, presentation_revision, request_hash,
                                     created_at)
        SELECT 'decision', 'd', 'live', attempt_id, 'all', 't', blob_hash, blob_hash, blob_hash,
               zeroblob(32), 1, blob_hash, 1
          FROM node_attempts, blobs WHERE run_id = 'live' LIMIT 1
        """,
        """
        INSERT INTO human_decision_resolutions (decision_id, outcome, provenance, reason,
                                                request_digest, resolution_digest, resolved_at)
        VALUES ('decision', 'cancelled', 'explicit_cancel', 'r', zeroblob(32), zeroblob(32), 1)
        """,
    ),
    "effectAttempts": ("UPDATE effects SET attempt_count = 3 WHERE effect_type = 'report.write'",),
    "segmentCounts": (
        "INSERT INTO resources VALUES ('g', 'session', 'segment', 0, 1, 1)",
        """
        INSERT INTO session_segments (segment_id, run_id, session_id, resource_id, status,
                                      entry_count, event_count, created_at)
        VALUES ('segment', 'live', 's', 'g', 'recording', 1, 0, 1)
        """,
    ),
    "settingsChain": (
        "INSERT INTO resources VALUES ('w', 'settings', 'scope', 0, 1, 1)",
        """
        INSERT INTO workflow_settings (scope_id, resource_id, origin_run_id, active_run_id,
                                       mount_path, invocation, initial_hash, current_hash,
                                       created_at, updated_at)
        SELECT 'scope', 'w', 'live', 'live', '', 1, min(blob_hash), max(blob_hash), 1, 1
          FROM blobs
        """,
    ),
}


def report_of(scripted: "ScriptedStore") -> dict[str, Any]:
    return cast("dict[str, Any]", scripted.read(verification.verify))


def test_sound_state_has_no_violation(worked: "ScriptedStore") -> None:
    """Case: A95."""
    report = report_of(worked)
    assert report == {
        "ok": True,
        "schema": True,
        "integrity": True,
        "foreignKeys": True,
        "violations": [],
        "databaseBytes": report["databaseBytes"],
    }
    assert report["databaseBytes"] > 0


@pytest.mark.parametrize("code", BREAKS)
def test_broken_promise_is_reported_under_its_code_alone(
    worked: "ScriptedStore", code: str
) -> None:
    """Case: A95."""
    worked.alter(*BREAKS[code])
    report = report_of(worked)
    assert report["ok"] is False
    assert {violation["code"] for violation in report["violations"]} == {code}
    run = "done" if code in {"stepOrder", "terminalOpenWork", "effectAttempts"} else "live"
    assert {violation["runId"] for violation in report["violations"]} == {run}
    assert all(violation["detail"] for violation in report["violations"])


def test_every_rule_has_a_fixture() -> None:
    """Case: A95."""
    assert sorted(rule.code for rule in verification.RULES) == sorted(BREAKS)


def test_pending_settle_effect_excuses_the_queue_row(worked: "ScriptedStore") -> None:
    """Case: A96."""
    worked.alter(
        "UPDATE run_queue SET status = 'running', finished_at = NULL WHERE run_id = 'done'",
        "UPDATE effects SET status = 'pending', settled_at = NULL"
        " WHERE effect_type = 'run.settle_queue' AND idempotency_key = 'done:completed'",
    )
    assert report_of(worked)["ok"] is True
    worked.alter("UPDATE effects SET status = 'applied', settled_at = 1 WHERE status = 'pending'")
    assert {found["code"] for found in report_of(worked)["violations"]} == {"queueState"}


def test_expired_claim_is_no_violation(worked: "ScriptedStore") -> None:
    worked.now += 3_600_000
    assert report_of(worked)["ok"] is True


def test_row_without_its_parent_is_found(worked: "ScriptedStore") -> None:
    worked.close()
    worked.state.alter(
        "PRAGMA foreign_keys = OFF", "DELETE FROM run_bindings", "DELETE FROM projects"
    )
    worked.open()
    report = report_of(worked)
    assert (report["ok"], report["integrity"], report["foreignKeys"]) == (False, True, False)


def test_damaged_page_is_found(worked: "ScriptedStore") -> None:
    page = worked.reader.connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'runs_created'"
    ).get
    assert isinstance(page, int)
    worked.close()
    worked.state.overwrite((page - 1) * 4096 + 8, b"\xff\xff\xff\xff")
    worked.open()
    report = report_of(worked)
    assert (report["ok"], report["schema"], report["integrity"]) == (False, True, False)
    assert report["violations"] == []


def test_report_of_one_code_is_bounded(scripted: "ScriptedStore") -> None:
    for number in range(verification.VIOLATIONS_PER_CODE_MAX + 5):
        scripted.create(f"run-{number}")
    scripted.alter("UPDATE resources SET revision = revision + 1")
    assert len(report_of(scripted)["violations"]) == verification.VIOLATIONS_PER_CODE_MAX
