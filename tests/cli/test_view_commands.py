"""`list`, `show` and `cancel`: shapes, exit codes, texts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pi_workflows.client.scripted import Answer

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject, JsonValue
    from tests.cli.conftest import Invoke, Serve

LISTED: JsonObject = {
    "runId": "r1",
    "workflowName": "echo",
    "status": "completed",
    "display": {"status": "completed", "controls": []},
    "createdAt": "2026-01-02T03:04:05.006Z",
    "updatedAt": "2026-01-02T03:04:07.006Z",
    "finishedAt": "2026-01-02T03:04:07.006Z",
    "steps": 3,
}
STATE: JsonObject = {
    "schema": "pi-workflows.run-state.v1",
    "runId": "r1",
    "workflowName": "echo",
    "status": "completed",
    "startedAt": "2026-01-02T03:04:05.006Z",
    "finishedAt": "2026-01-02T03:04:07.006Z",
    "steps": [
        {
            "nodeId": "look",
            "outcome": "failed",
            "startedAt": "2026-01-02T03:04:05.006Z",
            "finishedAt": "2026-01-02T03:04:06.256Z",
            "error": "ValueError: no\x1b[31m\nmore",
        }
    ],
    "finalOutput": {"text": "hällo\x9b"},
}


def test_list_json_prints_one_run_per_line(serve: Serve, invoke: Invoke) -> None:
    items: list[JsonValue] = [LISTED, {**LISTED, "runId": "r0"}]
    with serve({"run.list": Answer(receipt={"items": items, "nextCursor": None})}) as server:
        result = invoke("list", "--json", "--status", "completed", "--limit", "5")
    assert result.exit_code == 0
    assert [json.loads(line)["runId"] for line in result.stdout.splitlines()] == ["r1", "r0"]
    assert server.requests[0]["payload"] == {"limit": 5, "status": "completed"}


@pytest.mark.parametrize("run_id", ["", "r" * 257])
@pytest.mark.parametrize("command", ["show", "watch", "resume", "cancel"])
def test_what_can_be_no_run_id_is_not_sent(
    serve: Serve, invoke: Invoke, command: str, run_id: str
) -> None:
    with serve({}) as server:
        people, machine = invoke(command, run_id), invoke(command, run_id, "--json")
    assert (people.exit_code, machine.exit_code, server.requests) == (2, 2, [])
    assert "copy it from: pi-workflows list" in people.stderr
    assert json.loads(machine.stdout)["error"]["code"] == "RUN_ID_INVALID"


def test_list_follows_the_cursor_until_the_limit(serve: Serve, invoke: Invoke) -> None:
    page = Answer(receipt={"items": [LISTED, LISTED], "nextCursor": "c"})
    with serve({"run.list": page}) as server:
        result = invoke("list", "--json", "--limit", "3")
    assert len(result.stdout.splitlines()) == 3
    assert [request["payload"] for request in server.requests] == [
        {"limit": 3},
        {"limit": 1, "cursor": "c"},
    ]


def test_list_shows_an_aligned_table(serve: Serve, invoke: Invoke) -> None:
    with serve({"run.list": Answer(receipt={"items": [LISTED], "nextCursor": None})}):
        result = invoke("list")
    header, row = result.stdout.splitlines()
    assert header.index("STATUS") == row.index("completed")
    assert row.split()[-4:] == ["2.0", "s", "3", "echo"]


def test_list_shows_a_run_that_needs_somebody_as_parked_and_titles_behind_names(
    serve: Serve, invoke: Invoke
) -> None:
    display: JsonObject = {"status": "queued", "reason": "it changed", "controls": []}
    parked: JsonObject = {**LISTED, "status": "queued", "display": display, "title": "3 lines"}
    held: JsonObject = {**LISTED, "display": {"status": "queued", "controls": []}}
    page = Answer(receipt={"items": [parked, held], "nextCursor": None})
    with serve({"run.list": page}):
        people = invoke("list").stdout.splitlines()
        machine = invoke("list", "--json").stdout.splitlines()
    assert [line.split()[1] for line in people] == ["STATUS", "parked", "queued"]
    assert people[1].endswith("  echo: 3 lines")
    assert json.loads(machine[0]) == parked


def test_list_says_that_an_ambiguous_run_is_paused_and_what_comes_before_a_resume(
    serve: Serve, invoke: Invoke
) -> None:
    unsure: JsonObject = {"status": "ambiguous", "paused": True, "controls": []}
    changed: JsonObject = {"status": "queued", "reason": "it changed", "controls": []}
    changed |= {"first": "restore the source", "next": "pi-workflows resume r1"}
    items: list[JsonValue] = [{**LISTED, "display": unsure}, {**LISTED, "display": changed}]
    with serve({"run.list": Answer(receipt={"items": items, "nextCursor": None})}):
        listed = invoke("list")
    assert "  ambiguous, paused  " in listed.stdout
    assert "next: restore the source, then pi-workflows resume r1" in listed.stderr


def test_show_json_prints_the_run_state_document(serve: Serve, invoke: Invoke) -> None:
    with serve({"run.status": Answer(receipt={"state": STATE})}) as server:
        result = invoke("show", "r1", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == STATE
    assert "\x9b" not in result.stdout
    assert server.requests[0]["runId"] == "r1"


def test_show_is_readable_and_free_of_control_characters(serve: Serve, invoke: Invoke) -> None:
    with serve({"run.status": Answer(receipt={"state": STATE})}):
        result = invoke("show", "r1")
    assert "✗ look  1.2 s  ValueError: no[31m\n" in result.stdout
    assert "hällo" in result.stdout
    assert not {"\x1b", "\x9b"} & set(result.stdout)


def test_an_unknown_run_is_a_usage_error_with_the_servers_text(
    serve: Serve, invoke: Invoke
) -> None:
    text = "no run r9; nearest: r1"
    answer = Answer(outcome="notFound", error=text, receipt={"code": "RUN_UNKNOWN"})
    with serve({"run.status": answer}):
        people = invoke("show", "r9")
        machine = invoke("show", "r9", "--json")
    assert (people.exit_code, machine.exit_code) == (2, 2)
    assert people.stdout == ""
    assert people.stderr == f"pi-workflows: {text}\n"
    assert json.loads(machine.stdout) == {"error": {"code": "RUN_UNKNOWN", "message": text}}


def test_a_won_cancel_says_what_was_cut_off_and_what_is_ambiguous(
    serve: Serve, invoke: Invoke
) -> None:
    verdict: JsonObject = {
        "runId": "r1",
        "verdict": "won",
        "status": "cancelled",
        "revision": 9,
        "cutOff": {"nodeId": "send"},
        "ambiguousEffects": [{"effectId": "e", "effectType": "mail", "nodeId": "send"}],
    }
    with serve({"run.cancel": Answer(receipt=verdict)}) as server:
        people = invoke("cancel", "r1", "--reason", "wrong")
        machine = invoke("cancel", "r1", "--json")
    assert (people.exit_code, machine.exit_code) == (0, 0)
    assert people.stdout == 'r1 is cancelled; node "send" was cut off\n'
    assert people.stderr == (
        'effect "mail" of node "send" is ambiguous: nobody knows whether it happened; look there\n'
    )
    assert json.loads(machine.stdout) == verdict
    assert server.requests[0]["payload"] == {"reason": "wrong"}


def test_a_lost_cancel_says_how_the_run_had_ended(serve: Serve, invoke: Invoke) -> None:
    verdict: JsonObject = {"runId": "r1", "verdict": "lost", "status": "completed"}
    with serve({"run.cancel": Answer(receipt=verdict)}):
        result = invoke("cancel", "r1")
    assert result.exit_code == 1
    assert result.stdout == "r1 had ended before: completed\n"
