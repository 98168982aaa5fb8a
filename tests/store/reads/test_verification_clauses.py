"""Each way in which a promise can be broken is found, and a state with all in it is sound."""

# ruff: noqa: S608 - all parts of these statements are written here

from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from store import verification
from tests.store.reads.rich_state import RICH, attempt, blob

if TYPE_CHECKING:
    from tests.store.reads.conftest import ScriptedStore

UPDATE_REQUEST: Final = "UPDATE interactive_requests SET"
NEW_STEP: Final = (
    "UPDATE workflow_messages SET kind = '{kind}', run_id = 'done', target_session_id = 's3'"
    " WHERE workflow_message_id = 'step'"
)
CLOSE_TURN: Final = (
    "UPDATE workflow_turns SET state = 'ended', stop_reason = 'lost', ended_at = 1"
    " WHERE workflow_turn_id = 'turn'"
)
SETTLE_LOST: Final = (
    "UPDATE effects SET status = 'rejected', settled_at = 1 WHERE status = 'ambiguous'"
)

# What breaks: code, the run that is named, statements.
CLAUSES: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "queue row ended before its run": (
        "queueState",
        "live",
        ("UPDATE run_queue SET status = 'cancelled', finished_at = 1 WHERE run_id = 'live'",),
    ),
    "run ended, its queue row did not and no effect will": (
        "queueState",
        "done",
        ("UPDATE run_queue SET status = 'running', finished_at = NULL WHERE run_id = 'done'",),
    ),
    "queue row ended in another way than its run": (
        "queueState",
        "cancelled",
        ("UPDATE run_queue SET status = 'done' WHERE run_id = 'cancelled'",),
    ),
    "nothing is left to wait for": ("waitingRequest", "lost", (SETTLE_LOST,)),
    "only a consumed answer is there to wait for": (
        "waitingRequest",
        "lost",
        (
            SETTLE_LOST,
            f"{UPDATE_REQUEST} run_id = 'lost' WHERE request_id = 'answered'",
        ),
    ),
    "pending request with another run's attempt": (
        "pendingRequest",
        "live",
        (f"{UPDATE_REQUEST} attempt_id = {attempt('lost', 1)} WHERE request_id = 'asked'",),
    ),
    "pending request with a finished attempt": (
        "pendingRequest",
        "lost",
        (
            (
                f"{UPDATE_REQUEST} run_id = 'lost', attempt_id = {attempt('lost', 0)}"
                " WHERE request_id = 'asked'"
            ),
        ),
    ),
    "pending request of a run that is queued": (
        "pendingRequest",
        "queued",
        (
            "UPDATE runs SET status = 'queued' WHERE run_id = 'queued'",
            f"{UPDATE_REQUEST} run_id = 'queued', attempt_id = 'early' WHERE request_id = 'asked'",
        ),
    ),
    "accepted answer is missing": (
        "acceptedRequest",
        "done",
        ("DELETE FROM interactive_submissions WHERE submission_id = 'answer'",),
    ),
    "accepted answer is another request's": (
        "acceptedRequest",
        "done",
        (
            (
                "UPDATE interactive_submissions SET request_id = 'asked'"
                " WHERE submission_id = 'answer'"
            ),
        ),
    ),
    "accepted answer was rejected": (
        "acceptedRequest",
        "done",
        (
            (
                "UPDATE interactive_submissions SET outcome = 'rejected'"
                " WHERE submission_id = 'answer'"
            ),
        ),
    ),
    "clock runs while paused": (
        "activeClock",
        "live",
        ("UPDATE runs SET paused = 1 WHERE run_id = 'live'",),
    ),
    "clock runs for a run that is queued": (
        "activeClock",
        "queued",
        ("UPDATE attempt_active_intervals SET attempt_id = 'early' WHERE ended_at IS NULL",),
    ),
    "clock runs for an interrupted attempt": (
        "activeClock",
        "live",
        ("UPDATE node_attempts SET status = 'interrupted' WHERE run_id = 'live'",),
    ),
    "clock runs without a budget": (
        "activeClock",
        "live",
        ("UPDATE node_attempts SET timeout_ms = NULL WHERE run_id = 'live'",),
    ),
    "two turns at once in one session": (
        "sessionTurns",
        "done",
        ("UPDATE workflow_turns SET target_session_id = 's1'",),
    ),
    "an event is missing": (
        "eventRevision",
        "live",
        (
            (
                "DELETE FROM events WHERE resource_revision = 1 AND resource_id ="
                " (SELECT resource_id FROM runs WHERE run_id = 'live')"
            ),
        ),
    ),
    "an event is too much": (
        "eventRevision",
        "live",
        ("UPDATE resources SET revision = revision - 1 WHERE aggregate_key = 'live'",),
    ),
    "the first step is missing": (
        "stepOrder",
        "done",
        ("DELETE FROM run_steps WHERE run_id = 'done' AND step_index = 0",),
    ),
    "two attempts are unfinished": (
        "attemptCount",
        "lost",
        (
            (
                "UPDATE node_attempts SET status = 'interrupted', finished_at = NULL"
                f" WHERE attempt_id = {attempt('lost', 0)}"
            ),
        ),
    ),
    "ended run with an open turn": (
        "terminalOpenWork",
        "done",
        (
            (
                "UPDATE workflow_messages SET status = 'cancelled', kind = 'notification'"
                " WHERE workflow_message_id = 'end'"
            ),
        ),
    ),
    "ended run with a pending step message": (
        "terminalOpenWork",
        "done",
        (CLOSE_TURN, NEW_STEP.format(kind="step")),
    ),
    "ended run with a pending decision message": (
        "terminalOpenWork",
        "done",
        (CLOSE_TURN, NEW_STEP.format(kind="decision")),
    ),
    "ended run with an unfinished attempt": (
        "terminalOpenWork",
        "done",
        (
            (
                "UPDATE node_attempts SET status = 'interrupted', finished_at = NULL"
                f" WHERE attempt_id = {attempt('done', 4)}"
            ),
        ),
    ),
    "accepted decision whose presentations nobody settles": (
        "decisionEffects",
        "done",
        ("DELETE FROM effects WHERE effect_id = 'yes-told'",),
    ),
    "cancelled decision whose presentations nobody settles": (
        "decisionEffects",
        "done",
        ("DELETE FROM effects WHERE effect_id = 'no-told'",),
    ),
    "cancelled decision that does not cancel its run": (
        "decisionEffects",
        "done",
        ("DELETE FROM effects WHERE effect_id = 'no-ended'",),
    ),
    "accepted decision whose request is open": (
        "decisionEffects",
        "done",
        (
            (
                f"{UPDATE_REQUEST} status = 'cancelled', accepted_submission_id = NULL,"
                " settled_at = NULL, consumed_at = NULL WHERE request_id = 'yes'"
            ),
        ),
    ),
    "accepted decision whose request was settled with another answer": (
        "decisionEffects",
        "done",
        (
            (
                f"UPDATE interactive_submissions SET payload_hash = {blob(2)}"
                " WHERE submission_id = 'yes-answer'"
            ),
        ),
    ),
    "effect with fewer tries than it counts": (
        "effectAttempts",
        "done",
        ("UPDATE effects SET attempt_count = 2 WHERE effect_type = 'report.write'",),
    ),
    "effect whose tries begin at two": (
        "effectAttempts",
        "done",
        (
            (
                "UPDATE effect_attempts SET attempt_number = 2 WHERE effect_id ="
                " (SELECT effect_id FROM effects WHERE effect_type = 'report.write')"
            ),
        ),
    ),
    "segment with an entry too few": (
        "segmentCounts",
        "live",
        ("DELETE FROM session_entries WHERE entry_seq = 2",),
    ),
    "segment with a gap in its entries": (
        "segmentCounts",
        "live",
        ("UPDATE session_entries SET entry_seq = 3 WHERE entry_seq = 1",),
    ),
    "segment with an event too few": (
        "segmentCounts",
        "live",
        ("DELETE FROM session_events WHERE event_seq = 2",),
    ),
    "segment with a gap in its events": (
        "segmentCounts",
        "live",
        ("UPDATE session_events SET event_seq = 3 WHERE event_seq = 1",),
    ),
    "settings whose changes have a gap": (
        "settingsChain",
        "live",
        ("UPDATE workflow_setting_changes SET change_number = 3 WHERE change_number = 2",),
    ),
    "settings that do not begin where they should": (
        "settingsChain",
        "live",
        (f"UPDATE workflow_settings SET initial_hash = {blob(2)}",),
    ),
    "settings that are not what the last change left": (
        "settingsChain",
        "live",
        (f"UPDATE workflow_settings SET current_hash = {blob(0)}",),
    ),
    "settings whose changes do not follow each other": (
        "settingsChain",
        "live",
        (f"UPDATE workflow_setting_changes SET before_hash = {blob(2)} WHERE change_number = 2",),
    ),
}


def report_of(scripted: "ScriptedStore") -> dict[str, Any]:
    return cast("dict[str, Any]", scripted.read(verification.verify))


@pytest.fixture
def rich(worked: "ScriptedStore") -> "ScriptedStore":
    """The four runs, a fifth that is queued and has begun too early, and all that RICH adds."""
    worked.create("queued")
    worked.alter(
        *RICH,
        """
        INSERT INTO node_attempts (attempt_id, run_id, node_id, visit, attempt_number, node_type,
                                   status, timeout_ms, created_at, updated_at)
        VALUES ('early', 'queued', 'count', 1, 1, 'compute', 'pending', 60000, 1, 1)
        """,
    )
    return worked


def test_state_with_rows_of_every_kind_has_no_violation(rich: "ScriptedStore") -> None:
    """Case: A95."""
    report = report_of(rich)
    assert report["violations"] == []
    assert report["ok"] is True


@pytest.mark.parametrize("clause", CLAUSES)
def test_each_way_to_break_a_promise_is_found_under_its_code_alone(
    rich: "ScriptedStore", clause: str
) -> None:
    """Case: A95."""
    code, run_id, statements = CLAUSES[clause]
    rich.alter(*statements)
    report = report_of(rich)
    assert report["ok"] is False
    assert (report["integrity"], report["foreignKeys"]) == (True, True)
    found = {(violation["code"], violation["runId"]) for violation in report["violations"]}
    assert found == {(code, run_id)}
    assert all(violation["detail"] for violation in report["violations"])


def test_answer_that_nobody_has_consumed_is_something_to_wait_for(rich: "ScriptedStore") -> None:
    """The run resumes with it."""
    rich.alter(
        SETTLE_LOST,
        f"{UPDATE_REQUEST} run_id = 'lost', consumed_at = NULL WHERE request_id = 'answered'",
    )
    assert report_of(rich)["violations"] == []


def test_every_code_has_its_clauses() -> None:
    assert {code for code, _, _ in CLAUSES.values()} == {rule.code for rule in verification.RULES}
