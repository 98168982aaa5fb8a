"""Snapshot, digest and input of a built workflow."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from pi_workflows import (
    Command,
    Ctx,
    Definition,
    InputRejected,
    NotJsonError,
    Route,
    Workflow,
    idempotent,
    manual,
)
from pi_workflows.protocol.canonical import canonical_bytes, digest_hex
from pi_workflows.protocol.definition import DefinitionSnapshot, PlainEdge, SwitchEdge


class Next(StrEnum):
    again = "again"
    enough = "enough"


class EchoIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    count: int = Field(default=1, ge=1)
    tags: list[str] = []


def loop(*, wait: Any = 10, swapped: bool = False) -> Definition:  # noqa: ANN401 - any timeout
    wf = Workflow("loop", max_steps=7, contract_id="loop:1")

    @wf.shell(effect=idempotent("loop.print"), timeout=wait, status_detail="printing")
    def say(_ctx: Ctx[Any]) -> Command:
        return Command("true")

    @wf.compute(timeout=None)
    def judge() -> Route[Next]:
        return Route(route=Next.again)

    @wf.action(effect=manual("loop.end"), timeout=lambda ctx: ctx.visit)
    def end() -> None: ...

    if swapped:
        wf.route(judge, {Next.enough: end, Next.again: say})
        wf.edge(say, judge)
    else:
        wf.edge(say, judge)
        wf.route(judge, {Next.again: say, Next.enough: end})
    return wf.build(start=say)


def test_the_snapshot_holds_the_graph_without_its_code() -> None:
    assert loop().snapshot() == {
        "schema": "pi-workflows.definition-snapshot.v1",
        "name": "loop",
        "contractId": "loop:1",
        "startAt": "say",
        "maxSteps": 7,
        "nodes": [
            {
                "id": "end",
                "type": "action",
                "timeout": "dynamic",
                "form": "function",
                "effect": {"type": "loop.end", "recovery": "manual"},
            },
            {"id": "judge", "type": "compute", "timeoutMs": None},
            {
                "id": "say",
                "type": "shell",
                "timeoutMs": 10_000,
                "statusDetail": "printing",
                "form": "shell",
                "effect": {"type": "loop.print", "recovery": "idempotent"},
            },
        ],
        "edges": [
            {
                "from": "judge",
                "switch": {"on": "$.route", "cases": {"again": "say", "enough": "end"}},
            },
            {"from": "say", "to": "judge"},
        ],
        "mounts": [],
        "settings": None,
    }


def test_a_node_without_timeout_has_none_in_the_snapshot() -> None:
    wf = Workflow("flow")

    @wf.compute()
    def only() -> int:
        return 1

    snapshot = wf.build(start=only).snapshot()
    assert snapshot["nodes"] == [{"id": "only", "type": "compute"}]
    assert "contractId" not in snapshot


def test_the_snapshot_reads_back_as_the_same_graph() -> None:
    definition = loop()
    parsed = DefinitionSnapshot.parse(definition.snapshot())
    assert parsed.edges == definition.edges
    assert parsed.edges["say"] == PlainEdge("judge")
    assert isinstance(parsed.edges["judge"], SwitchEdge)
    assert parsed.nodes["say"].effect_recovery == "idempotent"


def test_the_digest_is_of_the_canonical_snapshot_and_ignores_order_of_declaration() -> None:
    definition = loop()
    assert definition.digest() == digest_hex(canonical_bytes(definition.snapshot()))
    assert definition.digest() == loop(swapped=True).digest()


def test_the_digest_follows_fixed_timeouts_but_not_computed_ones() -> None:
    assert loop(wait=10).digest() != loop(wait=11).digest()
    assert loop(wait=lambda: 1).digest() == loop(wait=lambda: 2).digest()


def echo(model: Any) -> Definition:  # noqa: ANN401 - a type form
    wf: Workflow[Any] = Workflow("echo", input=model)

    @wf.compute()
    def only() -> int:
        return 1

    return wf.build(start=only)


def test_an_accepted_input_is_its_normal_form() -> None:
    accepted = echo(EchoIn).accept_input({"text": "x", "count": "3"})
    assert accepted == {"text": "x", "count": 3, "tags": []}


def test_a_rejected_input_names_every_field_and_no_value() -> None:
    with pytest.raises(InputRejected) as caught:
        echo(EchoIn).accept_input({"count": -77, "tags": ["a", 12345], "zzz": "secret"})
    error = caught.value
    assert error.code == "INPUT_REJECTED"
    assert [path for path, _ in error.fields] == ["text", "count", "tags[1]", "zzz"]
    assert error.message.startswith('workflow "echo": input rejected.\n  text: Field required')

    for payload in ("-77", "12345", "secret"):
        assert payload not in str(error)


def test_no_input_for_a_model_that_needs_fields_is_called_that() -> None:
    with pytest.raises(InputRejected) as caught:
        echo(EchoIn).accept_input(None)
    assert caught.value.message.startswith(
        'workflow "echo": no input was given, and it needs one.\n  text: Field required'
    )


def test_an_input_of_another_kind_is_rejected_as_a_whole() -> None:
    with pytest.raises(InputRejected) as caught:
        echo(EchoIn).accept_input([])
    assert [path for path, _ in caught.value.fields] == ["input"]


def test_an_unsaid_input_of_a_model_is_an_empty_object() -> None:
    class AllDefault(BaseModel):
        count: int = 3

    assert echo(AllDefault).accept_input(None) == {"count": 3}
    assert echo(AllDefault | None).accept_input(None) is None
    with pytest.raises(InputRejected) as caught:
        echo(EchoIn).accept_input(None)
    assert [path for path, _ in caught.value.fields] == ["text"]


def test_without_a_model_any_json_is_the_input_and_nothing_is_null() -> None:
    definition = echo(None)
    assert definition.accept_input(None) is None
    assert definition.accept_input([1, {"a": -0.0}]) == [1, {"a": 0}]


def test_an_input_that_is_not_json_is_refused_with_its_path() -> None:
    for definition in (echo(None), echo(EchoIn)):
        with pytest.raises(NotJsonError) as caught:
            definition.accept_input({"text": 1e17})
        assert caught.value.message.startswith('workflow "echo" input at $.text: got an integer')


def test_an_input_may_be_any_declared_type() -> None:
    definition = echo(list[datetime])
    assert definition.accept_input(["2026-01-02T00:00:00Z"]) == ["2026-01-02T00:00:00Z"]
    assert definition.input_codec.load(["2026-01-02T00:00:00Z"])[0].year == 2026


def test_codecs_are_by_node() -> None:
    assert sorted(loop().codecs()) == ["end", "judge", "say"]
