"""Restart from another process: a new run of the same file and input, once."""

import json

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import COMPUTING, OUTPUT, SHELLING, STEPS, three


def test_run_that_was_cancelled_is_restarted_once_and_runs_from_the_beginning(home: Home) -> None:
    """Case: B47."""
    home.servers.start()
    run_id = home.run(three(COMPUTING))
    node = home.meetings.arrive("second")
    early = json.loads(home.command("restart", run_id, "--json", exit_code=1))
    assert early["error"]["code"] == "RUN_NOT_ENDED"
    home.command("cancel", run_id)
    node.await_end()
    receipt = json.loads(home.command("restart", run_id, "--detach", "--json"))
    child = receipt["runId"]
    assert (receipt["parentRunId"], receipt["restartNumber"]) == (run_id, 1)
    again = json.loads(home.command("restart", run_id, "--detach", "--json"))
    assert again["runId"] == child
    home.meetings.arrive("second").go()
    home.assert_completed(child, STEPS, OUTPUT)
    state = home.show(child)
    assert state["parentRunId"] == run_id
    assert home.show(run_id)["status"] == "cancelled"
    assert home.notes() == [
        "first",
        "second began",
        "first",
        "second began",
        "second ended",
        "third",
    ]
    stale = ("restart", child, "--revision", "1", "--json")
    assert json.loads(home.command(*stale, exit_code=1))["error"]["code"] == "REVISION_STALE"


def test_run_that_left_an_effect_ambiguous_is_restarted_after_a_word_about_it(home: Home) -> None:
    home.servers.start()
    run_id = home.run(three(SHELLING))
    home.meetings.arrive("second")
    verdict = json.loads(home.command("cancel", run_id, "--json"))
    (effect,) = verdict["ambiguousEffects"]
    refused = json.loads(home.command("restart", run_id, "--json", exit_code=1))
    assert refused["error"]["code"] == "EFFECT_AMBIGUOUS"
    assert "--retry" not in refused["error"]["message"]
    word = ("--rejected", "--reason", "nothing there")
    home.command("effects", "resolve", effect["effectId"], *word)
    child = json.loads(home.command("restart", run_id, "--detach", "--json"))["runId"]
    home.meetings.arrive("second").go()
    home.assert_completed(child, STEPS, OUTPUT)
