"""A manual effect was under way when its runner ended: nobody knows, so nobody tries again."""

import json

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import ACTING, SHELLING, SHORT, three


@pytest.mark.parametrize("second", [ACTING, SHELLING], ids=["action", "shell"])
@pytest.mark.parametrize("killed", ["runner", "server"])
def test_manual_effect_in_flight_becomes_ambiguous_is_shown_so_and_is_never_tried_again(
    home: Home, killed: str, second: str
) -> None:
    """Neither the same server nor the next one runs it, and other runs are not held up.

    Case: A51, A58, B34.
    """
    server = home.servers.start()
    run_id = home.run(three(second, recovery="manual"))
    node = home.meetings.arrive("second")
    if killed == "runner":
        node.runner.kill()
    else:
        server.kill()
        node.await_end()
        server = home.servers.start()
    view = home.await_status(run_id, "ambiguous")
    assert view["display"]["controls"] == ["cancel", "review"]
    node.assert_gone()
    _assert_shown_ambiguous(home, run_id, node.facts["effectId"])
    server.stop()
    home.servers.start()
    home.assert_completed(home.run(SHORT), ["only 1"], "done")
    assert home.show(run_id)["display"]["status"] == "ambiguous"
    assert home.notes() == ["first", "second began", "only"]
    parked = "SELECT status, error_code FROM run_queue WHERE run_id = ?"
    assert home.database.rows(parked, run_id) == [("parked", "effectAmbiguous")]


def test_cancel_of_an_ambiguous_run_ends_it_and_still_says_that_nobody_knows(home: Home) -> None:
    home.servers.start()
    run_id = home.run(three(ACTING, recovery="manual"))
    node = home.meetings.arrive("second")
    node.runner.kill()
    home.await_status(run_id, "ambiguous")
    verdict = json.loads(home.command("cancel", run_id, "--json"))
    assert (verdict["verdict"], verdict["status"]) == ("won", "cancelled")
    ambiguous = [effect["effectId"] for effect in verdict["ambiguousEffects"]]
    assert ambiguous == [node.facts["effectId"]]
    state = home.show(run_id)
    assert state["display"]["status"] == "cancelled"
    assert [effect["status"] for effect in state["effects"]] == ["ambiguous"]
    home.assert_verified()


def _assert_shown_ambiguous(home: Home, run_id: str, effect_id: str) -> None:
    state = home.show(run_id)
    assert state["display"]["status"] == "ambiguous"
    assert "finishedAt" not in state
    assert state["effects"] == [
        {
            "effectId": effect_id,
            "effectType": "second.done",
            "status": "ambiguous",
            "attempts": 1,
            "nodeId": "second",
        }
    ]
    (listed,) = [run for run in home.listed() if run["runId"] == run_id]
    assert listed["display"]["status"] == "ambiguous"
    assert f"{run_id}  ambiguous" in home.command("list")
    shown = home.command("show", run_id)
    assert "ambiguous" in shown
    assert "second.done" in shown
    home.assert_verified()
