"""A workflow file that changes under a run: the run stands still, and no line of it runs."""

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import COMPUTING, SHORT, three


def test_edited_file_parks_the_run_and_none_of_its_code_runs(home: Home) -> None:
    """A restart of the server changes nothing about that, and other runs go on."""
    killed = home.servers.start()
    run_id = home.run(three(COMPUTING))
    home.meetings.arrive("second")
    killed.kill()
    home.write('\nnote("edited")\n' + three(COMPUTING))
    server = home.servers.start()
    view = home.await_view(run_id, lambda view: "reason" in view["display"])
    assert "source" in view["display"]["reason"]
    assert view["display"]["status"] == "queued"
    server.stop()
    home.servers.start()
    home.assert_completed(home.run_file(home.write(SHORT, "other")), ["only 1"], "done")
    assert home.notes() == ["first", "second began", "only"]
    parked = "SELECT status, error_code FROM run_queue WHERE run_id = ?"
    assert home.database.rows(parked, run_id) == [("parked", "workflowSourceChanged")]
    assert [step["nodeId"] for step in home.show(run_id)["steps"]] == ["first"]
