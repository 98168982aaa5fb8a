"""`settings show|change|history`: shapes, patches as people write them, and usage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pi_workflows.client.scripted import Answer

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.cli.conftest import Invoke, Serve

SCOPE: JsonObject = {
    "scopeId": "r1:$root:1",
    "mountPath": [],
    "invocation": 1,
    "changeNumber": 2,
    "settings": {"lane": "careful"},
}
RECORD: JsonObject = {
    "changeNumber": 1,
    "actor": "human",
    "source": "cli",
    "patch": [
        {"op": "add", "path": "/lane", "value": "careful"},
        {"op": "move", "from": "/a", "path": "/b"},
    ],
    "acceptedAt": "2026-01-02T03:04:05.006Z",
}
RECEIPT: JsonObject = {
    "runId": "r1",
    "scopeId": "r1:$root:1",
    "changeNumber": 3,
    "adopted": False,
}


def shown(*items: JsonObject, cursor: str | None = None) -> Answer:
    return Answer(receipt={"items": [*items], "nextCursor": cursor})


def recorded(*items: JsonObject) -> Answer:
    return Answer(receipt={"items": [*items], "next": None})


def test_show_prints_each_scope_with_its_change_and_value(serve: Serve, invoke: Invoke) -> None:
    with serve({"settings.show": shown(SCOPE)}) as server:
        plain = invoke("settings", "show", "r1")
        lines = invoke("settings", "show", "r1", "--scope", "r1:$root:1", "--json")
    assert plain.stdout == 'r1:$root:1  change 2\n  {"lane":"careful"}\n'
    assert json.loads(lines.stdout) == SCOPE
    assert [request["payload"] for request in server.requests] == [
        {},
        {"scopeId": "r1:$root:1"},
    ]


def test_what_is_not_there_is_said_on_standard_error(serve: Serve, invoke: Invoke) -> None:
    with serve({"settings.show": shown(), "settings.history": recorded()}):
        none = invoke("settings", "show", "r1")
        nobody = invoke("settings", "history", "r1")
    assert (none.stdout, none.stderr) == ("", "the workflow of r1 declares no settings\n")
    assert (nobody.stdout, nobody.stderr) == ("", "nobody has changed these settings\n")


def test_a_pointer_and_a_value_become_an_addition(serve: Serve, invoke: Invoke) -> None:
    """A value that is no JSON is a text."""
    with serve({"run.changeSettings": Answer(receipt=RECEIPT)}) as server:
        result = invoke(
            "settings", "change", "r1", "/lane=careful", "/cpu=2", '/note="3"', "/a=b=c"
        )
    assert result.stdout == "change 3 of r1:$root:1\n"
    assert server.requests[0]["payload"] == {
        "source": "cli",
        "patch": [
            {"op": "add", "path": "/lane", "value": "careful"},
            {"op": "add", "path": "/cpu", "value": 2},
            {"op": "add", "path": "/note", "value": "3"},
            {"op": "add", "path": "/a", "value": "b=c"},
        ],
    }


def test_a_whole_patch_its_scope_and_expectation_are_passed_on(
    serve: Serve, invoke: Invoke
) -> None:
    patch = '[{"op": "remove", "path": "/note"}]'
    options = ("--scope", "r1:sub:2", "--expect", "4", "--json")
    with serve({"run.changeSettings": Answer(receipt=RECEIPT)}) as server:
        result = invoke("settings", "change", "r1", "--patch", "-", *options, stdin=patch)
    assert json.loads(result.stdout) == RECEIPT
    assert server.requests[0]["payload"] == {
        "scopeId": "r1:sub:2",
        "patch": [{"op": "remove", "path": "/note"}],
        "source": "cli",
        "expectedChangeNumber": 4,
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "POINTER=VALUE"),
        (("lane=careful",), 'begin the pointer with "/"'),
        (("/lane",), "POINTER=VALUE"),
        (("/lane=x", "--patch", "[]"), "not with both"),
        (("--patch", "{"), "--patch is not JSON"),
        (("--patch", '{"op": "add"}'), "list of operations"),
        (("--patch", "[1]"), "list of operations"),
        (("/lane=x", "--expect", "-1"), "expect"),
        (("/lane=NaN",), """/lane: JSON has no number NaN; a text needs its own quotes"""),
        (("/lane=-Infinity",), "/lane: JSON has no number -Infinity"),
        (("/lane=1e999",), "/lane: the number at $ is beyond a double; give it as a text"),
        (("/lane=[1, 9007199254740993]",), "/lane: the integer at $[1] is beyond 2^53-1"),
        (
            ("--patch", '[{"value": 1e999}]'),
            "--patch: the number at $[0].value is beyond a double",
        ),
    ],
)
def test_a_change_that_cannot_be_meant_is_a_usage_error(
    arguments: tuple[str, ...], says: str, invoke: Invoke
) -> None:
    result = invoke("settings", "change", "r1", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_patch_that_is_no_list_has_the_code_of_a_patch(invoke: Invoke) -> None:
    result = invoke("settings", "change", "r1", "--patch", "{}", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "SETTINGS_PATCH_INVALID"


def test_history_shows_who_changed_what(serve: Serve, invoke: Invoke) -> None:
    with serve({"settings.history": recorded(RECORD)}):
        plain = invoke("settings", "history", "r1")
        lines = invoke("settings", "history", "r1", "--json")
    header, row = plain.stdout.splitlines()
    assert header.split() == ["CHANGE", "WHEN", "WHO", "FROM", "PATCH"]
    assert row.endswith('human  cli   add /lane "careful"; move /a /b')
    assert json.loads(lines.stdout) == RECORD
