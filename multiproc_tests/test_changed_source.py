"""A workflow file that changes under a run: the run stands still, and no line of it runs."""

import json
from pathlib import Path

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.processes import BOUND_S
from multiproc_tests.harness.workflows import COMPUTING, OUTPUT, SHORT, STEPS, three

PARKED = "SELECT status, error_code FROM run_queue WHERE run_id = ?"
EDITED = '\nnote("edited")\n' + three(COMPUTING)


def leave_in_second(home: Home) -> str:
    """Start a run, kill the server while its second node works, and return the run's id."""
    killed = home.servers.start()
    run_id = home.run(three(COMPUTING))
    home.meetings.arrive("second")
    killed.kill()
    return run_id


def assert_parked(home: Home, run_id: str, file: Path) -> None:
    """Assert that it stands still, that the file is named, and what to do is said."""
    view = home.await_view(run_id, lambda view: "reason" in view["display"])
    display = view["display"]
    assert (display["status"], display["code"]) == ("queued", "workflowSourceChanged")
    assert display["next"] == f"pi-workflows resume {run_id}"
    assert str(file) in display["reason"]
    assert display["first"] == "restore the source"
    assert "Restore it, then resume the run; or cancel the run and start" in display["reason"]
    assert home.database.rows(PARKED, run_id) == [("parked", "workflowSourceChanged")]


def test_edited_file_parks_the_run_and_none_of_its_code_runs(home: Home) -> None:
    """A restart of the server changes nothing about that, and other runs go on."""
    run_id = leave_in_second(home)
    file = home.write(EDITED)
    server = home.servers.start()
    assert_parked(home, run_id, file)
    server.stop()
    home.servers.start()
    home.assert_completed(home.run_file(home.write(SHORT, "other")), ["only 1"], "done")
    assert home.notes() == ["first", "second began", "only"]
    assert_parked(home, run_id, file)
    assert [step["nodeId"] for step in home.show(run_id)["steps"]] == ["first"]


@pytest.mark.parametrize("change", ["edited", "removed"])
def test_restored_file_lets_a_resume_go_on_in_the_same_run(home: Home, change: str) -> None:
    """Before that a resume parks it again for the same reason, and no code has run.

    Case: B45.
    """
    run_id = leave_in_second(home)
    file = home.write(EDITED)
    if change == "removed":
        file.unlink()
    home.servers.start()
    assert_parked(home, run_id, file)
    stood = json.loads(home.command("resume", run_id, "--json", exit_code=1))
    assert (stood["runId"], stood["status"]) == (run_id, "queued")
    assert stood["code"] == "workflowSourceChanged"
    assert_parked(home, run_id, file)
    assert home.notes() == ["first", "second began"]
    home.write(three(COMPUTING))
    resuming = home.launch("resume", run_id)
    home.meetings.arrive("second").go()
    printed, _ = resuming.communicate(timeout=BOUND_S)
    assert (resuming.returncode, printed) == (0, f"{OUTPUT}\n")
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == ["first", "second began", "second began", "second ended", "third"]
    asked = "SELECT count(*) FROM events WHERE event_type = 'run.resume_requested'"
    assert home.database.column(asked) == [2]


PARENT = """
@wf.compute()
def begin() -> str:
    return "begun"
mount = wf.include("inner", "./child.workflow.py")
wf.edge(begin, mount)
workflow = wf.build(start=begin)
"""
INNER_STEPS = ["begin 1", "inner 1", *(f"inner/{step}" for step in STEPS)]


def test_edited_included_file_parks_the_run_until_it_is_restored(home: Home) -> None:
    """Killed in the middle of the child: resumed, its finished nodes do not run again.

    Of the edited file no line has run: it would have left a note.

    Case: B45, C40.
    """
    child = three(COMPUTING).replace("workflow =", 'wf.exit("done", third)\nworkflow =')
    file = home.write(child, "child")
    killed = home.servers.start()
    run_id = home.run(PARENT)
    home.meetings.arrive("second")
    killed.kill()
    home.write('\nnote("edited")\n' + child, "child")
    home.servers.start()
    assert_parked(home, run_id, file)
    assert home.notes() == ["first", "second began"]
    home.write(child, "child")
    resuming = home.launch("resume", run_id)
    home.meetings.arrive("second").go()
    resuming.communicate(timeout=BOUND_S)
    left = {"exit": "done", "output": OUTPUT}
    home.assert_completed(run_id, [*INNER_STEPS, "inner/__piw_exit_done 1"], left)
    assert home.notes() == ["first", "second began", "second began", "second ended", "third"]
