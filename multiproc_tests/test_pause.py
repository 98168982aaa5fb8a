"""Pause from another process: its node's processes end at once, and it runs again when resumed."""

import json

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.processes import BOUND_S
from multiproc_tests.harness.workflows import ACTING, COMPUTING, OUTPUT, SHELLING, STEPS, three

TRIES = """
    SELECT visit || ' ' || attempt_number || ' ' || status FROM node_attempts
     WHERE node_id = 'second' ORDER BY attempt_number
"""


@pytest.mark.parametrize(
    ("second", "recovery"),
    [(COMPUTING, ""), (SHELLING, "idempotent")],
    ids=["compute", "shell"],
)
def test_pause_ends_the_node_that_works_and_a_resume_runs_it_again(
    home: Home, second: str, recovery: str
) -> None:
    """Same visit, new attempt; the step before it stays. A restart of the server changes nothing.

    Case: B44.
    """
    server = home.servers.start()
    run_id = home.run(three(second, recovery=recovery))
    node = home.meetings.arrive("second")
    verdict = json.loads(home.command("pause", run_id, "--json"))
    assert (verdict["verdict"], verdict["status"]) == ("paused", "paused")
    assert verdict["cutOff"]["nodeId"] == "second"
    assert verdict["ambiguousEffects"] == []
    node.await_end()
    again = json.loads(home.command("pause", run_id, "--json"))
    assert (again["verdict"], again["status"]) == ("alreadyPaused", "paused")
    server.stop()
    home.servers.start()
    state = home.show(run_id)
    assert (state["paused"], state["display"]["status"]) == (True, "paused")
    assert [step["nodeId"] for step in state["steps"]] == ["first"]
    assert home.notes() == ["first", "second began"]
    resuming = home.launch("resume", run_id)
    repeated = home.meetings.arrive("second")
    assert repeated.facts["visit"] == 1
    repeated.go()
    printed, _ = resuming.communicate(timeout=BOUND_S)
    assert (resuming.returncode, printed) == (0, f"{OUTPUT}\n")
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.database.column(TRIES) == ["1 1 cancelled", "1 2 completed"]
    assert home.notes() == ["first", "second began", "second began", "second ended", "third"]


def test_pause_while_a_manual_effect_is_applied_leaves_it_to_a_person(home: Home) -> None:
    """The word comes first, then the resume: neither alone lets the run go on.

    Case: B34.
    """
    home.servers.start()
    run_id = home.run(three(ACTING, recovery="manual"))
    node = home.meetings.arrive("second")
    verdict = json.loads(home.command("pause", run_id, "--json"))
    (effect,) = verdict["ambiguousEffects"]
    assert verdict["status"] == "ambiguous"
    assert effect["effectId"] == node.facts["effectId"]
    node.await_end()
    assert home.show(run_id)["display"]["status"] == "ambiguous"
    refused = json.loads(home.command("resume", run_id, "--json", exit_code=1))
    assert refused["error"]["code"] == "EFFECT_AMBIGUOUS"
    word = ("--applied", "--output", '"second"', "--reason", "it is there", "--json")
    said = json.loads(home.command("effects", "resolve", effect["effectId"], *word))
    assert (said["goesOn"], said["paused"]) == (False, True)
    assert home.show(run_id)["display"]["code"] == "paused"
    home.command("resume", run_id)
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == ["first", "second began", "third"]


def test_pause_of_a_run_that_has_ended_is_refused(home: Home) -> None:
    home.servers.start()
    run_id = home.run(three(COMPUTING))
    home.meetings.arrive("second").go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    refused = json.loads(home.command("pause", run_id, "--json", exit_code=1))
    assert refused["error"]["code"] == "RUN_ENDED"
