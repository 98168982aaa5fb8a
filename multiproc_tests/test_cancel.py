"""Cancel from another process: it wins in one commit, and nothing goes on after it."""

import json

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import (
    COMPUTING,
    OUTPUT,
    SHELLING,
    SHORT,
    STEPS,
    three,
)

ONE_RUNNER = {"PI_WORKFLOWS_MAX_RUNNERS": "1"}

WAITING = """
@wf.compute()
def only(ctx: Ctx) -> str:
    return meet(ctx.run_id)


workflow = wf.build(start=only)
"""


@pytest.mark.parametrize(
    ("second", "recovery"),
    [(COMPUTING, ""), (SHELLING, "idempotent")],
    ids=["compute", "shell"],
)
def test_cancel_of_a_running_run_wins_ends_its_processes_and_owns_what_is_unknown(
    home: Home, second: str, recovery: str
) -> None:
    """Case: D5."""
    home.servers.start()
    run_id = home.run(three(second, recovery=recovery))
    node = home.meetings.arrive("second")
    verdict = json.loads(home.command("cancel", run_id, "--reason", "wrong input", "--json"))
    assert (verdict["verdict"], verdict["status"]) == ("won", "cancelled")
    assert verdict["cutOff"]["nodeId"] == "second"
    effects = [effect["effectId"] for effect in verdict["ambiguousEffects"]]
    assert effects == [node.facts[name] for name in ("effectId",) if name in node.facts]
    node.await_end()
    again = json.loads(home.command("cancel", run_id, "--reason", "wrong input", "--json"))
    assert (again["verdict"], again["revision"]) == ("won", verdict["revision"])
    again = json.loads(home.command("cancel", run_id, "--json"))
    assert (again["verdict"], again["status"]) == ("won", "cancelled")
    other = json.loads(home.command("cancel", run_id, "--reason", "no", "--json", exit_code=1))
    assert other["error"]["code"] == "CANCEL_CONFLICT"
    state = home.show(run_id)
    assert (state["status"], state["error"]) == ("cancelled", "wrong input")
    assert [step["nodeId"] for step in state["steps"]] == ["first"]
    assert [effect["status"] for effect in state["effects"]] == ["ambiguous"] * len(effects)
    assert home.notes() == ["first", "second began"]
    home.assert_verified()


def test_cancel_after_the_end_lost_and_says_so(home: Home) -> None:
    home.servers.start()
    run_id = home.run(SHORT)
    home.assert_completed(run_id, ["only 1"], "done")
    verdict = json.loads(home.command("cancel", run_id, "--json", exit_code=1))
    assert (verdict["verdict"], verdict["status"]) == ("lost", "completed")
    assert home.show(run_id)["status"] == "completed"


def test_queued_run_can_be_cancelled_while_every_runner_is_taken(home: Home) -> None:
    """Case: B40, C48."""
    home.servers.start(**ONE_RUNNER)
    running = home.run(three(COMPUTING))
    node = home.meetings.arrive("second")
    queued = home.run(SHORT)
    assert home.show(queued)["display"]["status"] == "queued"
    assert "as soon as there is room: the one runner is busy" in home.command("show", queued)
    verdict = json.loads(home.command("cancel", queued, "--json"))
    assert (verdict["verdict"], verdict["cutOff"]) == ("won", {})
    node.go()
    home.assert_completed(running, STEPS, OUTPUT)
    state = home.show(queued)
    assert (state["status"], state["steps"]) == ("cancelled", [])
    assert "only" not in home.notes()


def test_cancel_drops_a_pending_effect_and_leaves_an_applying_one_ambiguous(home: Home) -> None:
    """The dead server's effect is pending again, and its run waits behind another one.

    Case: A51, A57, B36, C58.
    """
    killed = home.servers.start(**ONE_RUNNER)
    parked = home.run(three(SHELLING))
    home.meetings.arrive("second")
    elsewhere = three(SHELLING.replace('meeting("second', 'meeting("also'))
    applying = home.run_file(home.write(elsewhere, "also"))
    killed.kill()
    home.servers.start(**ONE_RUNNER)
    node = home.meetings.arrive("also")
    assert [effect["status"] for effect in home.show(parked)["effects"]] == ["pending"]
    verdict = json.loads(home.command("cancel", parked, "--json"))
    assert (verdict["verdict"], verdict["ambiguousEffects"]) == ("won", [])
    verdict = json.loads(home.command("cancel", applying, "--json"))
    ambiguous = [effect["effectId"] for effect in verdict["ambiguousEffects"]]
    assert ambiguous == [node.facts["effectId"]]
    node.await_end()
    assert home.show(parked)["effects"] == []
    of_type = "SELECT status FROM effects WHERE effect_type = 'second.done' ORDER BY created_at"
    assert home.database.column(of_type) == ["cancelled", "ambiguous"]
    assert home.notes() == ["first", "second began", "first", "also began"]
    home.assert_verified()


def test_five_runs_have_four_runners_and_the_fifth_starts_when_one_ends(home: Home) -> None:
    """Case: C45."""
    home.servers.start()
    path = home.write(WAITING)
    run_ids = [home.run_file(path) for _ in range(5)]
    arrived = [home.meetings.arrive(*run_ids) for _ in range(4)]
    status = json.loads(home.command("server", "status", "--json"))
    assert (status["activeRunners"], status["queued"], status["capacity"]) == (4, 1, 4)
    home.meetings.assert_nobody()
    arrived[0].go()
    arrived.append(home.meetings.arrive(*run_ids))
    assert {node.place for node in arrived} == set(run_ids)
    for node in arrived[1:]:
        node.go()
    for run_id in run_ids:
        home.await_status(run_id, "completed")
    home.assert_verified()
