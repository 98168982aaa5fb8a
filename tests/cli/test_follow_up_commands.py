"""`follow-up`: where a prompt comes from, what is printed, and how a list goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pi_workflows.client.scripted import Answer, ScriptedServer

if TYPE_CHECKING:
    from pathlib import Path

    from pi_workflows.protocol.canonical import JsonObject
    from pi_workflows.protocol.paths import StatePaths
    from tests.cli.conftest import Invoke, Serve

RECEIPT: JsonObject = {"runId": "r1", "followUpId": "f1", "order": 2, "state": "queued"}


def item(order: int, **facts: object) -> JsonObject:
    shown: JsonObject = {
        "followUpId": f"f{order}",
        "requestId": f"n{order}",
        "order": order,
        "state": "pending_presentation",
        "actor": "human",
        "source": "cli",
        "createdAt": "2026-01-02T03:04:05.006Z",
        "updatedAt": "2026-01-02T03:04:05.006Z",
        "prompt": "Write the note.\nShort.",
        "promptBytes": 22,
    }
    return shown | facts  # type: ignore[return-value]


def test_add_says_its_place_and_how_to_take_it_back(serve: Serve, invoke: Invoke) -> None:
    with serve({"followUp.queue": Answer(receipt=RECEIPT)}) as server:
        people = invoke("follow-up", "add", "r1", "Write the note.", "--request-id", "n")
        machine = invoke("follow-up", "add", "r1", "Write the note.", "--json")
    assert (people.exit_code, people.stdout) == (0, "f1 is number 2 of r1\n")
    assert people.stderr == "take it back with: pi-workflows follow-up remove r1 f1\n"
    assert json.loads(machine.stdout) == RECEIPT
    payloads = [request["payload"] for request in server.requests]
    asked = {"prompt": "Write the note.", "source": "cli"}
    assert payloads == [{**asked, "requestId": "n"}, asked]


def test_add_of_what_was_queued_before_says_what_became_of_it(
    serve: Serve, invoke: Invoke
) -> None:
    adopted = Answer(outcome="adopted", receipt={**RECEIPT, "state": "removed"})
    with serve({"followUp.queue": adopted}):
        result = invoke("follow-up", "add", "r1", "Write the note.", "--request-id", "n")
    assert result.stdout == "f1 was queued before; it is removed\n"


def test_prompt_is_read_from_a_file(serve: Serve, invoke: Invoke, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("Schreib den Brief für Zoë.", encoding="utf-8")
    with serve({"followUp.queue": Answer(receipt=RECEIPT)}) as server:
        assert invoke("follow-up", "add", "r1", "--file", str(note)).exit_code == 0
    assert server.requests[0]["payload"] == {
        "prompt": "Schreib den Brief für Zoë.",
        "source": "cli",
    }


@pytest.mark.parametrize("arguments", [(), ("do it", "--file", "x")])
def test_prompt_is_said_once(arguments: tuple[str, ...], invoke: Invoke) -> None:
    result = invoke("follow-up", "add", "r1", *arguments)
    assert result.exit_code == 2
    assert "as an argument or with --file" in result.stderr


def test_file_that_cannot_be_read_or_is_no_text_is_a_usage_error(
    invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    missing = invoke("follow-up", "add", "r1", "--file", str(tmp_path / "missing"))
    binary = invoke("follow-up", "add", "r1", "--file", str(tmp_path / "bytes"))
    assert (missing.exit_code, binary.exit_code) == (2, 2)
    assert "cannot read the prompt" in missing.stderr
    assert "is not UTF-8 text" in binary.stderr


def test_list_goes_on_page_by_page_in_order(paths: StatePaths, invoke: Invoke) -> None:
    pages = {
        0: Answer(receipt={"presentation": "none", "items": [item(1), item(2)], "next": 2}),
        2: Answer(receipt={"presentation": "none", "items": [item(3)], "next": None}),
    }

    def script(request: JsonObject) -> Answer:
        payload = request["payload"]
        assert isinstance(payload, dict)
        return pages[int(str(payload["after"]))]

    with ScriptedServer(paths.socket, script) as server:
        people = invoke("follow-up", "list", "r1")
        machine = invoke("follow-up", "list", "r1", "--json")
    header, *rows = people.stdout.splitlines()
    assert header.split() == ["ORDER", "STATE", "QUEUED", "BY", "PROMPT", "FOLLOW-UP"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert "pending presentation" in rows[0]
    assert "Write the note." in rows[0]
    assert "Short." not in people.stdout
    assert [json.loads(line) for line in machine.stdout.splitlines()] == [
        item(1),
        item(2),
        item(3),
    ]
    assert [request["payload"] for request in server.requests] == [{"after": 0}, {"after": 2}] * 2


def test_empty_list_says_how_to_queue_one(serve: Serve, invoke: Invoke) -> None:
    empty = Answer(receipt={"presentation": "none", "items": [], "next": None})
    with serve({"followUp.list": empty}):
        result = invoke("follow-up", "list", "r1")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "pi-workflows follow-up add r1 PROMPT" in result.stderr


def test_remove_says_whether_it_was_removed_before(serve: Serve, invoke: Invoke) -> None:
    receipt: JsonObject = {**RECEIPT, "state": "removed"}
    with serve({"followUp.remove": Answer(receipt=receipt)}) as server:
        first = invoke("follow-up", "remove", "r1", "f1", "--reason", "done by hand")
    assert first.stdout == "f1 was removed\n"
    assert server.requests[0]["payload"] == {"followUpId": "f1", "reason": "done by hand"}
    with serve({"followUp.remove": Answer(outcome="adopted", receipt=receipt)}):
        again = invoke("follow-up", "remove", "r1", "f1")
    assert (again.exit_code, again.stdout) == (0, "f1 was removed before\n")


def test_refused_removal_is_one_line_with_exit_code_1(serve: Serve, invoke: Invoke) -> None:
    text = "the follow-up cannot be removed: it was sent"
    refused = Answer(outcome="conflict", error=text, receipt={"code": "FOLLOW_UP_OVER"})
    with serve({"followUp.remove": refused}):
        result = invoke("follow-up", "remove", "r1", "f1")
    assert (result.exit_code, result.stderr) == (1, f"pi-workflows: {text}\n")
