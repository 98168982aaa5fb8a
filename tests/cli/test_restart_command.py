"""`restart`: which revision it names, whose end it waits for, what it says of a repeat."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pi_workflows.cli import render
from pi_workflows.client.scripted import Answer

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.cli.conftest import Invoke, Serve


def receipt() -> JsonObject:
    return {
        "runId": "r2",
        "parentRunId": "r1",
        "restartNumber": 1,
        "status": "queued",
        "workflowName": "echo",
    }


def restarting(outcome: str = "accepted") -> dict[str, Answer]:
    view: JsonObject = {
        "schema": "pi-workflows.run-view.v1",
        "revision": 1,
        "display": {"status": "completed", "controls": []},
        "manifest": {"runId": "r2", "workflowName": "echo"},
        "steps": {"start": 0, "total": 0, "items": []},
    }
    return {
        "view.run.get": Answer(receipt={"view": {"runRevision": 42, "revision": 3}}),
        "run.restart": Answer(outcome=outcome, receipt=receipt()),
        "view.run.watch": Answer(events=[("run_snapshot", view, 1)]),
        "run.status": Answer(receipt={"state": {"finalOutput": "done"}}),
    }


def test_restart_names_the_revision_it_reads_and_stays_with_the_new_run(
    serve: Serve, invoke: Invoke
) -> None:
    with serve(restarting()) as server:
        people = invoke("restart", "r1")
        machine = invoke("restart", "r1", "--json")
    assert (people.exit_code, people.stdout) == (0, "done\n")
    assert people.stderr.startswith("r1 is restarted at revision 42: r2\n")
    assert json.loads(machine.stdout) == {
        "runId": "r2",
        "status": "completed",
        "finalOutput": "done",
    }
    asked = [request for request in server.requests if request["operation"] == "run.restart"]
    assert [(one["runId"], one["expectedRevision"]) for one in asked] == [("r1", 42)] * 2
    watched = {one["runId"] for one in server.requests if one["operation"] == "view.run.watch"}
    assert watched == {"r2"}


def test_named_revision_is_sent_without_a_look(serve: Serve, invoke: Invoke) -> None:
    with serve(restarting()) as server:
        people = invoke("restart", "r1", "--revision", "7", "--detach")
        machine = invoke("restart", "r1", "--revision", "7", "--detach", "--json")
    assert (people.exit_code, people.stdout) == (0, "r2\n")
    assert "come back with: pi-workflows watch r2" in people.stderr
    assert json.loads(machine.stdout) == receipt()
    assert [request["operation"] for request in server.requests] == ["run.restart"] * 2
    assert {request["expectedRevision"] for request in server.requests} == {7}


def test_run_that_was_restarted_before_is_said_so(serve: Serve, invoke: Invoke) -> None:
    with serve(restarting("adopted")):
        people = invoke("restart", "r1", "--detach")
    assert (people.exit_code, people.stdout) == (0, "r2\n")
    assert people.stderr.startswith("r1 was restarted before: r2\n")


@pytest.mark.parametrize(
    ("outcome", "code"), [("conflict", "REVISION_STALE"), ("rejected", "RUN_NOT_ENDED")]
)
def test_refused_restart_is_one_line_with_the_servers_text(
    serve: Serve, invoke: Invoke, outcome: str, code: str
) -> None:
    refused = Answer(outcome=outcome, error="no", receipt={"code": code})
    with serve({**restarting(), "run.restart": refused}):
        people = invoke("restart", "r1")
        machine = invoke("restart", "r1", "--json")
    assert (people.exit_code, people.stderr) == (1, "pi-workflows: no\n")
    assert json.loads(machine.stdout) == {"error": {"code": code, "message": "no"}}


def test_revision_that_is_no_number_is_a_usage_error(serve: Serve, invoke: Invoke) -> None:
    with serve({}) as server:
        result = invoke("restart", "r1", "--revision", "last")
    assert result.exit_code == 2
    assert server.requests == []


def test_show_of_a_restart_names_the_run_that_it_restarts() -> None:
    shown = render.run_state({"runId": "r2", "status": "queued", "parentRunId": "r1"})
    assert "restarts  r1" in shown
    assert "restarts" not in render.run_state({"runId": "r1", "status": "completed"})
