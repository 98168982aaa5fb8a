"""`resume`, and how every surface says why a run stands still and what to do next."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.cli import render
from pi_workflows.client.scripted import Answer

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.cli.conftest import Invoke, Serve

AT: Final = "2026-01-02T03:04:05.006Z"
PARKED: Final[JsonObject] = {
    "status": "queued",
    "code": "runnerNoProgress",
    "reason": "its runner died 3 times in a row",
    "next": "pi-workflows resume r1",
    "controls": ["cancel", "resume"],
}


def receipt(verdict: str) -> JsonObject:
    return {"runId": "r1", "verdict": verdict, "status": "running", "revision": 9}


def view(status: str) -> JsonObject:
    return {
        "schema": "pi-workflows.run-view.v1",
        "revision": 1,
        "display": {"status": status, "controls": []},
        "manifest": {"runId": "r1", "workflowName": "echo", "createdAt": AT},
        "steps": {"start": 0, "total": 0, "items": []},
    }


def resuming(verdict: str = "resumable") -> dict[str, Answer]:
    return {
        "run.resume": Answer(receipt=receipt(verdict)),
        "view.run.watch": Answer(events=[("run_snapshot", view("completed"), 1)]),
        "run.status": Answer(receipt={"state": {"finalOutput": "done"}}),
    }


def test_resume_stays_with_the_run_and_prints_what_came_out_of_it(
    serve: Serve, invoke: Invoke
) -> None:
    with serve(resuming()) as server:
        people = invoke("resume", "r1")
        machine = invoke("resume", "r1", "--json")
    assert (people.exit_code, people.stdout) == (0, "done\n")
    assert json.loads(machine.stdout) == {
        "runId": "r1",
        "status": "completed",
        "finalOutput": "done",
    }
    assert (server.requests[0]["operation"], server.requests[0]["runId"]) == ("run.resume", "r1")
    assert server.requests[0]["payload"] == {}


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ("resumable", "r1 goes on"),
        ("alreadyRunning", "r1 runs already"),
        ("waitingForInteraction", "r1 waits for an answer"),
    ],
)
def test_detached_resume_returns_at_once_and_says_what_it_found(
    serve: Serve, invoke: Invoke, verdict: str, says: str
) -> None:
    with serve(resuming(verdict)) as server:
        people = invoke("resume", "r1", "--detach")
        machine = invoke("resume", "r1", "--detach", "--json")
    assert (people.exit_code, people.stdout) == (0, "")
    assert says in people.stderr
    assert "pi-workflows " in people.stderr
    assert json.loads(machine.stdout) == receipt(verdict)
    assert {request["operation"] for request in server.requests} == {"run.resume"}


def test_refused_resume_is_one_line_with_the_servers_text(serve: Serve, invoke: Invoke) -> None:
    text = "r1 has ended: it is completed; look with: pi-workflows show r1"
    refused = Answer(outcome="rejected", error=text, receipt={"code": "RUN_ENDED"})
    with serve({"run.resume": refused}):
        people = invoke("resume", "r1")
        machine = invoke("resume", "r1", "--json")
    assert (people.exit_code, people.stderr) == (1, f"pi-workflows: {text}\n")
    assert json.loads(machine.stdout) == {"error": {"code": "RUN_ENDED", "message": text}}


def test_show_says_why_a_run_stands_still_and_what_to_do_next() -> None:
    shown = render.run_state({"runId": "r1", "status": "running", "display": PARKED})
    assert "status    parked" in shown
    assert "runnerNoProgress: its runner died 3 times in a row" in shown
    assert "next: pi-workflows resume r1" in shown


def test_show_says_when_a_run_that_is_held_back_goes_on() -> None:
    display: JsonObject = {"status": "queued", "retryAt": AT, "controls": []}
    shown = render.run_state({"runId": "r1", "status": "running", "display": display})
    assert f"it is held back after a death and goes on {render.local_time(AT)}" in shown


def test_show_calls_a_wait_that_the_node_asked_for_no_failure() -> None:
    retrying: JsonObject = {"nodeId": "wait", "failedTries": 1, "error": "10 s in all"}
    display: JsonObject = {"status": "queued", "retryAt": AT, "controls": []}
    state: JsonObject = {"runId": "r1", "status": "running", "display": display}
    shown = render.run_state({**state, "retrying": {**retrying, "asked": True}})
    assert "wait  waits: 10 s in all" in shown
    assert f"it waits and goes on {render.local_time(AT)}" in shown
    assert "failed" not in shown
    assert "held back after a failed try" in render.run_state({**state, "retrying": retrying})


@pytest.mark.parametrize(
    ("runners", "display", "said"),
    [
        ((4, 4), {"status": "queued"}, "all 4 runners are busy with other runs"),
        ((1, 1), {"status": "queued"}, "the one runner is busy with other runs"),
        ((3, 4), {"status": "queued"}, None),
        ((4, 4), {"status": "running"}, None),
        ((4, 4), {"status": "queued", "retryAt": AT}, None),
        ((4, 4), PARKED, None),
    ],
)
def test_show_says_when_only_the_number_of_runners_keeps_a_run_waiting(
    serve: Serve, invoke: Invoke, runners: tuple[int, int], display: JsonObject, said: str | None
) -> None:
    active, capacity = runners
    state: JsonObject = {"runId": "r1", "status": "running", "display": display}
    answers = {
        "run.status": Answer(receipt={"state": state}),
        "server.status": Answer(receipt={"activeRunners": active, "capacity": capacity}),
    }
    with serve(answers):
        people = invoke("show", "r1")
        machine = invoke("show", "r1", "--json")
    assert (people.exit_code, machine.exit_code) == (0, 0)
    assert json.loads(machine.stdout) == state
    assert ("it starts as soon as there is room" in people.stdout) == (said is not None)
    assert (said or "") in people.stdout


def test_list_says_of_each_run_that_needs_somebody_what_to_do_next(
    serve: Serve, invoke: Invoke
) -> None:
    parked: JsonObject = {"runId": "r1", "workflowName": "echo", "display": PARKED}
    live: JsonObject = {"runId": "r2", "display": {"status": "running", "controls": []}}
    page = Answer(receipt={"items": [parked, live], "nextCursor": None})
    with serve({"run.list": page}):
        people = invoke("list")
        machine = invoke("list", "--json")
    assert people.stderr == ("r1 stands still (runnerNoProgress); next: pi-workflows resume r1\n")
    assert machine.stderr == ""


def test_watch_of_a_parked_run_ends_with_the_next_command(serve: Serve, invoke: Invoke) -> None:
    parked = {**view("queued"), "display": PARKED}
    answers = {
        "view.run.get": Answer(receipt={"view": {}}),
        "view.run.watch": Answer(events=[("run_snapshot", parked, 1)]),
        "run.status": Answer(receipt={"state": {}}),
    }
    with serve(answers):
        result = invoke("watch", "r1")
    assert result.exit_code == 1
    assert result.stderr.endswith("; next: pi-workflows resume r1\n")
