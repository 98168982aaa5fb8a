"""A workflow that comes with the package, run by real processes: it waits without one."""

import json

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.test_changed_source import PARKED

TRIES = "echo >> tries; test $(wc -l < tries) -ge {count}"


def monitor(home: Home, count: int, **options: object) -> str:
    """Start a monitor of a command that succeeds at this try; return the run's id."""
    given = json.dumps({"command": TRIES.format(count=count), **options})
    arguments = ("--input", given, "--project", str(home.project), "--detach", "--json")
    return str(json.loads(home.command("run", "builtin:monitor", *arguments))["runId"])


def test_monitor_runs_its_command_until_it_succeeds_and_parks_in_between(home: Home) -> None:
    """Each pause frees the runner; nothing of its own is left in the project."""
    home.servers.start()
    run_id = monitor(home, 3, every=0.05, within=600)
    turn = ["check", "report", "pause", "pause/set_end", "pause/wait", "pause/__piw_exit_waited"]
    view = home.await_status(run_id, "completed")
    assert view["finalOutput"] | {"waited": 0} == {
        "met": True,
        "checks": 3,
        "waited": 0,
        "last": "exit code 0",
        "output": "",
    }
    steps = [step["nodeId"] for step in home.show(run_id)["steps"]]
    assert steps == ["begin", *turn, *turn, "check", "report", "met"]
    parked = "SELECT count(*) FROM events WHERE event_type = 'run.queue_parked'"
    assert home.database.column(parked) == [2]
    home.assert_verified()


@pytest.mark.parametrize("mount", ["", "pause"])
def test_another_revision_of_a_built_in_parks_the_run_until_it_is_there_again(
    home: Home, mount: str
) -> None:
    """The reason names both revisions.

    Case: B45.
    """
    server = home.servers.start()
    run_id = monitor(home, 2, every=3_600, within=86_400)
    home.await_view(run_id, lambda view: "retryAt" in view["display"])
    server.stop()
    recorded = home.database.exchange_revision(run_id, mount, "sha256:of-another-version")
    home.servers.start()
    stood = json.loads(home.command("resume", run_id, "--json", exit_code=1))
    assert stood["code"] == "workflowSourceChanged"
    assert home.database.rows(PARKED, run_id) == [("parked", "workflowSourceChanged")]
    name = "wait" if mount else "monitor"
    assert f"builtin:{name} has changed since the run was started" in stood["reason"]
    assert f"(revision sha256:of-another-version, now {recorded})" in stood["reason"]
    home.servers.alive[0].stop()
    home.database.exchange_revision(run_id, mount, recorded)
    home.servers.start()
    home.command("resume", run_id, "--detach")
    home.await_view(run_id, lambda view: "retryAt" in view["display"])
    home.command("cancel", run_id)
