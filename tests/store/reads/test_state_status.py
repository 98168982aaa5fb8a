"""Counts for an operator, and nothing that a run worked on."""

from typing import TYPE_CHECKING

from pi_workflows.protocol.canonical import canonical_text
from store import state_status, verification
from store.schema import APPLICATION_ID, SCHEMA_DIGEST

if TYPE_CHECKING:
    from tests.store.reads.conftest import ScriptedStore


def prepared(scripted: "ScriptedStore") -> None:
    scripted.create("done", run_input="body-of-input").work()
    scripted.create("live").begin().start("count")
    lost = scripted.create("lost").begin()
    lost.step("count", "body-of-output")
    lost.start("check")
    lost.lose_child()


def test_status_counts_what_there_is(scripted: "ScriptedStore") -> None:
    prepared(scripted)
    facts = scripted.read(state_status.state_status, wal_bytes=17)
    size = facts.pop("databaseBytes")
    assert isinstance(size, int)
    assert size % 4096 == 0
    assert facts == {
        "schemaName": "pi-workflows-state",
        "schemaVersion": 1,
        "schemaDigest": SCHEMA_DIGEST.hex(),
        "applicationId": APPLICATION_ID,
        "userVersion": 1,
        "walBytes": 17,
        "counts": {
            "runs": {"completed": 1, "running": 1, "waiting": 1},
            "queue": {"done": 1, "running": 1, "parked": 1},
            "effects": {"applied": 4, "rejected": 1, "ambiguous": 1},
        },
        "activeLeases": 1,
        "expiredLeases": 0,
        "pendingRequests": 0,
        "pendingDecisions": 0,
        "unsettledEffects": 1,
        "ambiguousEffects": 1,
        "violations": 0,
    }


def test_claim_counts_as_expired_from_its_last_instant_on(scripted: "ScriptedStore") -> None:
    scripted.create("live").begin()
    scripted.now += 3_600_000
    facts = scripted.read(state_status.state_status, wal_bytes=0)
    assert (facts["activeLeases"], facts["expiredLeases"]) == (0, 1)


def test_violations_are_counted(scripted: "ScriptedStore") -> None:
    scripted.create("new")
    scripted.alter("UPDATE resources SET revision = revision + 1")
    assert scripted.read(state_status.state_status, wal_bytes=0)["violations"] == 1


def test_no_report_names_an_owner_a_session_a_path_or_a_payload(
    scripted: "ScriptedStore",
) -> None:
    """Case: A97, C113."""
    prepared(scripted)
    scripted.alter(
        "UPDATE run_bindings SET execution_mode = 'interactive', origin_session_id = 'session-x'",
        "UPDATE resources SET revision = revision + 1",
        "UPDATE effects SET attempt_count = attempt_count + 1",
        "UPDATE runs SET status = 'waiting' WHERE run_id = 'live'",
    )
    printed = canonical_text(
        [
            scripted.read(state_status.state_status, wal_bytes=0),
            scripted.read(verification.verify),
        ]
    )
    assert "waitingRequest" in printed
    for secret in ("server-1", "session-x", "/projects/one", "body-of-", "report.md", "AAAA"):
        assert secret not in printed
