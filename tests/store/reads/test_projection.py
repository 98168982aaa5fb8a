"""The whole of a run in one document, as stored and never otherwise."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from pi_workflows.protocol.states import WorkerStatus
from store import projection, run_lists, run_views, state_status, verification
from store.errors import RunUnknownError, StoreCorrupt
from store.opening import open_reader
from store.rows import scalar
from store.workers import WorkerEnd

if TYPE_CHECKING:
    from tests.store.reads.conftest import ScriptedStore

TRACE: Final = """
    SELECT group_concat(CAST(b.content AS TEXT), ' ')
      FROM events AS e JOIN blobs AS b ON b.blob_hash = e.payload_hash
"""
GOLDEN: Final = Path(__file__).parents[2] / "golden" / "run_state.json"


def state_of(scripted: "ScriptedStore", run_id: str) -> dict[str, Any]:
    return cast("dict[str, Any]", scripted.read(projection.run_state, run_id))


def test_scripted_run_projects_to_the_golden_document(scripted: "ScriptedStore") -> None:
    """Case: B87."""
    scripted.create("run-1", run_input={"folder": "notes"}).work()
    assert state_of(scripted, "run-1") == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_queued_run_has_neither_current_node_nor_end(scripted: "ScriptedStore") -> None:
    """Case: B88."""
    scripted.create("run-1", run_input=[1])
    state = state_of(scripted, "run-1")
    assert (state["status"], state["steps"], state["input"]) == ("queued", [], [1])
    absent = {"currentNode", "waitingOn", "finishedAt", "finalOutput", "error", "paused"}
    assert absent.isdisjoint(state)


def test_waiting_run_names_the_node_it_waits_on_and_has_no_end(
    scripted: "ScriptedStore",
) -> None:
    """Case: B88."""
    run = scripted.create("run-1").begin()
    run.step("count", 1)
    run.start("check")
    run.lose_child()
    state = state_of(scripted, "run-1")
    assert state["status"] == "waiting"
    assert state["currentNode"] == state["waitingOn"] == "check"
    assert state["currentAttemptId"] == "attempt-run-1-check-1"
    assert "finishedAt" not in state


def test_live_run_shows_how_its_last_runner_ended(scripted: "ScriptedStore") -> None:
    run = scripted.create("run-1").begin()
    run.lose_child(WorkerEnd(WorkerStatus.CRASHED, exit_code=134, diagnostic="ä" * 3_000 + "!"))
    assert state_of(scripted, "run-1")["lastRunner"] == {
        "status": "crashed",
        "exitCode": 134,
        "endedAt": "2023-11-14T22:13:20.040Z",
        "outputTail": "ä" * 1_999 + "!",
    }


def test_the_newest_runner_is_the_last_one_and_its_signal_is_named(
    scripted: "ScriptedStore",
) -> None:
    run = scripted.create("run-1").begin()
    run.lose_child(WorkerEnd(WorkerStatus.TIMED_OUT, exit_code=1, diagnostic="first"))
    scripted.now += 60_000
    run.begin()
    assert "lastRunner" not in state_of(scripted, "run-1"), "a runner works on it"
    run.lose_child(WorkerEnd(WorkerStatus.CLAIM_LOST, signal="9"))
    last = state_of(scripted, "run-1")["lastRunner"]
    assert (last["status"], last["signal"]) == ("claimLost", "9")
    assert {"exitCode", "outputTail"}.isdisjoint(last)


def test_runner_that_ended_well_or_whose_run_has_ended_is_not_shown(
    scripted: "ScriptedStore",
) -> None:
    scripted.create("run-1").begin().lose_child(WorkerEnd(WorkerStatus.CANCELLED, exit_code=0))
    assert "lastRunner" not in state_of(scripted, "run-1")
    over = scripted.create("run-2").begin()
    over.lose_child()
    over.cancel("enough")
    assert "lastRunner" not in state_of(scripted, "run-2")


def test_effect_of_unknown_outcome_is_listed_with_its_node(scripted: "ScriptedStore") -> None:
    run = scripted.create("run-1").begin()
    run.step("count", 1)
    run.start("check")
    run.lose_child()
    state = state_of(scripted, "run-1")
    [effect] = state["effects"]
    assert effect["status"] == "ambiguous"
    assert (effect["effectType"], effect["nodeId"], effect["attempts"]) == ("shell", "check", 1)


def test_running_node_is_current_with_its_start_and_detail(scripted: "ScriptedStore") -> None:
    run = scripted.create("run-1").begin()
    run.start("count", detail="counting lines")
    state = state_of(scripted, "run-1")
    assert (state["status"], state["currentNode"]) == ("running", "count")
    assert state["currentNodeStartedAt"] == "2023-11-14T22:13:20.040Z"
    assert state["statusDetail"] == "counting lines"
    assert "waitingOn" not in state


def test_later_failure_removes_the_output_and_replaces_the_result(
    scripted: "ScriptedStore",
) -> None:
    run = scripted.create("run-1").begin()
    run.step("count", 1)
    run.step("check", "fine")
    scripted.alter(
        "UPDATE node_attempts SET status = 'failed', output_hash = NULL WHERE node_id = 'check'"
    )
    state = state_of(scripted, "run-1")
    assert state["outputs"] == {"count": 1}
    assert state["results"]["check"]["outcome"] == "failed"
    assert "output" not in state["results"]["check"]


def test_gap_in_the_steps_is_an_error(scripted: "ScriptedStore") -> None:
    scripted.create("run-1").work()
    scripted.alter("UPDATE run_steps SET step_index = 9 WHERE step_index = 2")
    with pytest.raises(StoreCorrupt):
        state_of(scripted, "run-1")
    with pytest.raises(StoreCorrupt):
        scripted.read(run_views.run_view, "run-1")


def test_step_of_an_unfinished_attempt_is_an_error(scripted: "ScriptedStore") -> None:
    scripted.create("run-1").work()
    scripted.alter(
        "UPDATE node_attempts SET status = 'interrupted', finished_at = NULL"
        " WHERE node_id = 'report'"
    )
    with pytest.raises(StoreCorrupt):
        state_of(scripted, "run-1")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET error_hash = input_hash",
        """
        UPDATE runs SET final_output_hash = (
            SELECT error_hash FROM node_attempts WHERE error_hash IS NOT NULL
        )
        """,
        """
        UPDATE node_attempts SET output_hash = (
            SELECT error_hash FROM node_attempts WHERE error_hash IS NOT NULL
        ) WHERE node_id = 'report'
        """,
    ],
)
def test_body_of_the_wrong_media_type_is_an_error_and_the_status_stays(
    scripted: "ScriptedStore", statement: str
) -> None:
    """Case: A16."""
    scripted.create("run-1").work()
    scripted.alter(statement)
    with pytest.raises(StoreCorrupt):
        state_of(scripted, "run-1")
    found = scalar(scripted.reader.connection, "SELECT status FROM runs", {})
    assert found == "completed"


def test_unknown_run_names_its_nearest(scripted: "ScriptedStore") -> None:
    scripted.create("run-1")
    with pytest.raises(RunUnknownError) as refused:
        state_of(scripted, "run-2")
    assert refused.value.nearest == ("run-1",)


def test_trace_holds_flags_and_no_body(scripted: "ScriptedStore") -> None:
    """Case: A17, B89."""
    run = scripted.create("run-1", run_input="body-of-input").begin()
    run.step("count", "body-of-output", receipt={"note": "body-of-receipt"})
    run.step("check", error="body-of-error")
    trace = scalar(scripted.reader.connection, TRACE, {})
    assert isinstance(trace, str)
    assert '"outputStored":true' in trace
    assert '"inputStored":true' in trace
    assert "body-of-" not in trace


def test_readers_change_no_row_and_no_byte(scripted: "ScriptedStore") -> None:
    """Case: A94, B87."""
    scripted.create("run-1").work()
    scripted.create("run-2").begin().start("count")
    scripted.close()
    before = scripted.state.content()
    scripted.reader = open_reader(scripted.state.path)
    for run_id in ("run-1", "run-2"):
        scripted.read(projection.run_state, run_id)
        scripted.read(run_views.run_view, run_id)
    scripted.read(run_lists.page, limit=10)
    scripted.read(state_status.state_status, wal_bytes=0)
    scripted.read(verification.verify)
    assert scripted.reader.connection.total_changes() == 0
    scripted.reader.close()
    assert scripted.state.content()["state.sqlite"] == before["state.sqlite"]
    assert not scripted.state.content().get("state.sqlite-wal")
    scripted.open()
