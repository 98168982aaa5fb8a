"""`effects` and `effects resolve`: shapes, usage, and the question before a repeat."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pi_workflows.cli import effect_commands
from pi_workflows.client.scripted import Answer

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.cli.conftest import Invoke, Serve

EFFECT: JsonObject = {
    "effectId": "effect-" + "ab" * 20,
    "runId": "r1",
    "effectType": "mail.send",
    "nodeId": "send",
    "recovery": "manual",
    "status": "ambiguous",
    "attempts": 1,
    "createdAt": "2026-01-02T03:04:05.006Z",
    "since": "2026-01-02T03:04:06.006Z",
}
RECEIPT: JsonObject = {
    "effectId": "e1",
    "runId": "r1",
    "verb": "retry",
    "status": "pending",
    "runStatus": "waiting",
    "goesOn": True,
}
RESOLVE = ("effects", "resolve", "e1", "--reason", "I looked")


def page(*items: JsonObject, cursor: str | None = None) -> Answer:
    return Answer(receipt={"items": [*items], "nextCursor": cursor})


def test_effects_shows_a_table_and_how_to_settle_what_nobody_knows(
    serve: Serve, invoke: Invoke
) -> None:
    with serve({"effect.list": page(EFFECT)}) as server:
        result = invoke("effects")
    header, row = result.stdout.splitlines()
    assert header.split()[0] == "EFFECT"
    assert {"ambiguous", "mail.send", "send", "manual", "r1"} <= set(row.split())
    assert str(EFFECT["effectId"]) in row
    assert "effects resolve EFFECT" in result.stderr
    assert server.requests[0]["payload"] == {"all": False}


@pytest.mark.parametrize(
    ("statuses", "offered", "told"),
    [
        (("waiting",), True, False),
        (("cancelled",), False, False),
        (("failed", "waiting"), True, True),
    ],
)
def test_a_retry_is_not_offered_for_effects_of_ended_runs(
    *, statuses: tuple[str, ...], offered: bool, told: bool, serve: Serve, invoke: Invoke
) -> None:
    with serve({"effect.list": page(*({**EFFECT, "runStatus": each} for each in statuses))}):
        result = invoke("effects")
    assert ("--rejected|--retry" in result.stderr) is offered
    assert ("--retry is refused where the run has ended" in result.stderr) is told


@pytest.mark.parametrize("word", [(), ("list",)])
def test_effects_of_one_run_print_json_lines(
    word: tuple[str, ...], serve: Serve, invoke: Invoke
) -> None:
    """The word `list` may be left out."""
    with serve({"effect.list": page(EFFECT, EFFECT)}) as server:
        result = invoke("effects", *word, "r1", "--all", "--json")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [EFFECT, EFFECT]
    assert server.requests[0]["payload"] == {"all": True, "runId": "r1"}


def test_no_open_effect_is_said_on_standard_error(serve: Serve, invoke: Invoke) -> None:
    with serve({"effect.list": page()}):
        result = invoke("effects")
    assert (result.stdout, result.stderr) == ("", "no effect is open\n")


def test_all_effects_are_listed_of_one_run_only(invoke: Invoke) -> None:
    result = invoke("effects", "--all")
    assert result.exit_code == 2
    assert "name it" in result.stderr


def test_applied_takes_the_output_along(serve: Serve, invoke: Invoke) -> None:
    with serve({"effect.resolve": Answer(receipt=RECEIPT)}) as server:
        result = invoke(*RESOLVE, "--applied", "--output", '{"id": 7}', "--json")
    assert json.loads(result.stdout) == RECEIPT
    assert server.requests[0]["payload"] == {
        "effectId": "e1",
        "verb": "applied",
        "reason": "I looked",
        "output": {"id": 7},
    }


def test_rejected_says_what_is_next(serve: Serve, invoke: Invoke) -> None:
    ended: JsonObject = {**RECEIPT, "status": "rejected", "goesOn": False}
    with serve({"effect.resolve": Answer(receipt=RECEIPT)}):
        goes_on = invoke(*RESOLVE, "--rejected")
    with serve({"effect.resolve": Answer(receipt=ended)}):
        over = invoke(*RESOLVE, "--rejected")
    assert goes_on.stderr == "its run goes on: pi-workflows watch r1\n"
    assert (over.stdout, over.stderr) == (
        "e1 is rejected\n",
        "its run: pi-workflows show r1\n",
    )


def test_retry_warns_and_asks_nobody_where_nobody_can_answer(serve: Serve, invoke: Invoke) -> None:
    with serve({"effect.resolve": Answer(receipt=RECEIPT)}):
        result = invoke(*RESOLVE, "--retry")
    assert result.exit_code == 0
    assert "happen twice" in result.stderr


def test_a_retry_that_is_refused_is_not_warned_of(serve: Serve, invoke: Invoke) -> None:
    refused = Answer(outcome="rejected", error="it has ended", receipt={"code": "RUN_ENDED"})
    with serve({"effect.resolve": refused}):
        result = invoke(*RESOLVE, "--retry", "--yes")
    assert result.exit_code == 1
    assert result.stderr == "pi-workflows: it has ended\n"


@pytest.mark.parametrize(("output", "told"), [((), True), (("--output", "null"), False)])
def test_an_output_that_is_left_out_is_said_to_be_null(
    *, output: tuple[str, ...], told: bool, serve: Serve, invoke: Invoke
) -> None:
    receipt = {**RECEIPT, "verb": "applied", "status": "applied"}
    with serve({"effect.resolve": Answer(receipt=receipt)}):
        result = invoke(*RESOLVE, "--applied", *output)
    assert ("without --output" in result.stderr) is told


def test_no_output_is_missed_where_the_run_has_ended(serve: Serve, invoke: Invoke) -> None:
    receipt = {**RECEIPT, "verb": "applied", "status": "applied", "runStatus": "cancelled"}
    with serve({"effect.resolve": Answer(receipt=receipt)}):
        result = invoke(*RESOLVE, "--applied")
    assert "without --output" not in result.stderr


@pytest.mark.parametrize(("answer", "sent"), [("y\n", 1), ("n\n", 0), ("\n", 0)])
def test_retry_asks_back_on_a_terminal(
    answer: str, sent: int, serve: Serve, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effect_commands, "_somebody_can_answer", lambda: True)
    with serve({"effect.resolve": Answer(receipt=RECEIPT)}) as server:
        result = invoke(*RESOLVE, "--retry", stdin=answer)
        assert len(server.requests) == sent
        assert result.exit_code == 1 - sent
        assert ("nothing was changed" in result.stderr) == (not sent)
        assert invoke(*RESOLVE, "--retry", "--yes").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "exactly one of"),
        (("--applied", "--retry"), "exactly one of"),
        (("--rejected", "--output", "1"), "--output goes with --applied only"),
        (("--applied", "--output", "{"), "--output is not JSON"),
        (("--applied", "--output", "NaN"), "--output is not JSON"),
    ],
)
def test_a_word_that_makes_no_sense_is_a_usage_error(
    arguments: tuple[str, ...], says: str, invoke: Invoke
) -> None:
    """Nothing is sent."""
    result = invoke(*RESOLVE, *arguments)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize("reason", [(), ("--reason", " ")])
def test_a_word_needs_a_reason(reason: tuple[str, ...], invoke: Invoke) -> None:
    result = invoke("effects", "resolve", "e1", "--applied", *reason)
    assert result.exit_code == 2
    assert "--reason" in result.stderr


def test_a_conflict_is_told_with_its_code(serve: Serve, invoke: Invoke) -> None:
    refused = Answer(outcome="conflict", error="that stands", receipt={"code": "EFFECT_SETTLED"})
    with serve({"effect.resolve": refused}):
        result = invoke(*RESOLVE, "--rejected", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "EFFECT_SETTLED"


def test_word_about_an_effect_of_a_paused_run_names_the_resume(
    serve: Serve, invoke: Invoke
) -> None:
    receipt = {**RECEIPT, "status": "rejected", "goesOn": False, "paused": True}
    with serve({"effect.resolve": Answer(receipt=receipt)}):
        result = invoke(*RESOLVE, "--rejected")
    assert result.stderr == "its run is paused; next: pi-workflows resume r1\n"
