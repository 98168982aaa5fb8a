"""Settings of a run at work are changed from other terminals, and it follows."""

import json
from typing import TYPE_CHECKING, Any

from multiproc_tests.harness.servers import ROOT

if TYPE_CHECKING:
    from multiproc_tests.harness.home import Home

EXAMPLE = ROOT / "examples" / "steered_rounds.workflow.py"


def start(home: "Home") -> str:
    given = ("--input", '{"pause_seconds": 0.01}', "--detach", "--json")
    return str(json.loads(home.command("run", str(EXAMPLE), *given))["runId"])


def refused(home: "Home", *arguments: str) -> str:
    """The code of a change that is refused."""
    printed = home.command("settings", "change", *arguments, "--json", exit_code=1)
    return str(json.loads(printed)["error"]["code"])


def lines(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


def test_a_settings_route_follows_what_a_second_terminal_says(home: "Home") -> None:
    """Rules, model and the workflow's own check refuse from there what they do not allow."""
    home.servers.start()
    run_id = start(home)
    home.await_steps(run_id, 3)
    changed = json.loads(
        home.command("settings", "change", run_id, "/lane=careful", "--expect", "0", "--json")
    )
    assert changed["changeNumber"] == 1
    assert refused(home, run_id, "/lane=quick", "--expect", "0") == "SETTINGS_STALE"
    assert refused(home, run_id, "/lane=wild") == "SETTINGS_REJECTED"
    assert refused(home, run_id, "/more=1") == "SETTINGS_DENIED"
    view = home.await_view(
        run_id, lambda view: any(it["nodeId"] == "careful" for it in view["steps"]["items"])
    )
    assert [scope["changeNumber"] for scope in view["settings"]] == [1]
    assert home.command("settings", "change", run_id, "/lane=stop").startswith("change 2 of")
    home.await_status(run_id, "completed")
    assert refused(home, run_id, "/lane=quick") == "RUN_ENDED"
    state = home.show(run_id)
    output = state["finalOutput"]
    assert output["quick"] >= 1
    assert output["careful"] >= 1
    assert output["changes"] == 2
    assert {step["settingsChangeNumber"] for step in state["steps"]} == {0, 1, 2}
    (scope,) = lines(home.command("settings", "show", run_id, "--json"))
    assert scope["settings"] == {"lane": "stop", "pause_seconds": 0.01}
    history = lines(home.command("settings", "history", run_id, "--json"))
    assert [(it["changeNumber"], it["actor"], it["source"]) for it in history] == [
        (1, "human", "cli"),
        (2, "human", "cli"),
    ]
    home.assert_verified()


def test_settings_outlive_the_runner_and_the_server(home: "Home") -> None:
    """A change while nobody works on the run is there when it goes on."""
    server = home.servers.start()
    run_id = start(home)
    home.await_steps(run_id, 3)
    home.command("pause", run_id)
    home.command("settings", "change", run_id, "/lane=stop")
    server.kill()
    home.servers.start()
    home.command("resume", run_id)
    home.await_status(run_id, "completed")
    assert home.show(run_id)["finalOutput"]["changes"] == 1
    home.assert_verified()
