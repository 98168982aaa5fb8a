"""`pause`: what it prints, and how every surface says why a paused run stands still."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.cli import render
from pi_workflows.client.scripted import Answer

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.cli.conftest import Invoke, Serve

PAUSED: Final[JsonObject] = {
    "status": "paused",
    "code": "paused",
    "reason": "it was paused and goes on when it is resumed (pi-workflows resume r1)",
    "next": "pi-workflows resume r1",
    "controls": ["resume", "cancel"],
}


def verdict(**facts: object) -> JsonObject:
    said: dict[str, object] = {
        "runId": "r1",
        "verdict": "paused",
        "status": "paused",
        "revision": 9,
        "cutOff": {},
        "ambiguousEffects": [],
    }
    return said | facts  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        (verdict(), "r1 is paused\n"),
        (
            verdict(cutOff={"attemptId": "a", "nodeId": "fetch"}),
            'r1 is paused; node "fetch" was cut off and runs again\n',
        ),
        (verdict(verdict="alreadyPaused"), "r1 was paused before\n"),
    ],
)
def test_pause_says_what_was_cut_off_and_how_the_run_goes_on(
    serve: Serve, invoke: Invoke, said: JsonObject, printed: str
) -> None:
    with serve({"run.pause": Answer(receipt=said)}) as server:
        people = invoke("pause", "r1")
        machine = invoke("pause", "r1", "--json")
    assert (people.exit_code, people.stdout) == (0, printed)
    assert people.stderr == "go on with: pi-workflows resume r1\n"
    assert (machine.exit_code, machine.stderr) == (0, "")
    assert json.loads(machine.stdout) == said
    assert {request["operation"] for request in server.requests} == {"run.pause"}
    assert {request["runId"] for request in server.requests} == {"r1"}


def test_pause_names_the_effects_that_nobody_knows_of(serve: Serve, invoke: Invoke) -> None:
    """They have to be settled before the run can be resumed; that node does not run again."""
    effects = [{"effectId": "e1", "effectType": "mail.send", "nodeId": "send"}]
    cut_off = {"attemptId": "a", "nodeId": "send"}
    said = verdict(status="ambiguous", cutOff=cut_off, ambiguousEffects=effects)
    with serve({"run.pause": Answer(receipt=said)}):
        people = invoke("pause", "r1")
    assert (people.exit_code, people.stdout) == (0, 'r1 is paused; node "send" was cut off\n')
    assert 'effect "mail.send" of node "send" is ambiguous' in people.stderr
    assert people.stderr.endswith("say what you found, then resume: pi-workflows effects r1\n")


def test_refused_pause_is_one_line_with_the_servers_text(serve: Serve, invoke: Invoke) -> None:
    text = "r1 has ended: it is completed; look with: pi-workflows show r1"
    refused = Answer(outcome="rejected", error=text, receipt={"code": "RUN_ENDED"})
    with serve({"run.pause": refused}):
        people = invoke("pause", "r1")
        machine = invoke("pause", "r1", "--json")
    assert (people.exit_code, people.stderr) == (1, f"pi-workflows: {text}\n")
    assert json.loads(machine.stdout) == {"error": {"code": "RUN_ENDED", "message": text}}


def test_show_and_list_say_that_a_run_is_paused_and_what_to_do_next(
    serve: Serve, invoke: Invoke
) -> None:
    shown = render.run_state({"runId": "r1", "status": "running", "display": PAUSED})
    assert "status    paused" in shown
    assert "it was paused and goes on when it is resumed" in shown
    assert "next: pi-workflows resume r1" in shown
    item: JsonObject = {"runId": "r1", "workflowName": "echo", "display": PAUSED}
    with serve({"run.list": Answer(receipt={"items": [item], "nextCursor": None})}):
        listed = invoke("list")
    assert "paused" in listed.stdout
    assert listed.stderr == "r1 stands still (paused); next: pi-workflows resume r1\n"


def test_watch_of_a_run_that_is_paused_ends_with_the_next_command(
    serve: Serve, invoke: Invoke
) -> None:
    view: JsonObject = {
        "schema": "pi-workflows.run-view.v1",
        "revision": 1,
        "display": PAUSED,
        "manifest": {"runId": "r1", "workflowName": "echo"},
        "steps": {"start": 0, "total": 0, "items": []},
    }
    answers = {
        "view.run.get": Answer(receipt={"view": {}}),
        "view.run.watch": Answer(events=[("run_snapshot", view, 1)]),
        "run.status": Answer(receipt={"state": {}}),
    }
    with serve(answers):
        result = invoke("watch", "r1")
    assert result.exit_code == 1
    assert result.stderr.endswith("r1 is paused; go on with: pi-workflows resume r1\n")
