"""What a node's function can read."""

from typing import Any

import pytest
from pydantic import BaseModel

from pi_workflows import (
    Ctx,
    Definition,
    EffectIdentity,
    EffectMissing,
    Node,
    OutputMissing,
    StepResult,
    Workflow,
)
from pi_workflows.protocol.canonical import JsonValue
from pi_workflows.protocol.states import StepOutcome


class Report(BaseModel):
    lines: list[str]


def reporting() -> tuple[Definition, Node[Report]]:
    wf = Workflow("flow")

    @wf.compute()
    def look() -> Report:
        return Report(lines=[])

    return wf.build(start=look), look


def context(
    definition: Definition,
    outputs: dict[str, JsonValue],
    results: dict[str, StepResult] | None = None,
    effect: EffectIdentity | None = None,
) -> Ctx[Any]:
    return Ctx(
        run_id="run-1",
        input={"a": 1},
        outputs=outputs,
        results=results or {},
        visit=2,
        codecs=definition.codecs(),
        cancelled=lambda: False,
        effect=effect,
    )


def test_an_output_is_read_through_its_declared_type() -> None:
    definition, look = reporting()
    ctx = context(definition, {"look": {"lines": ["x"]}})
    assert ctx.output(look) == Report(lines=["x"])
    assert ctx.get(look) == Report(lines=["x"])


def test_changing_an_output_does_not_change_what_is_stored() -> None:
    definition, look = reporting()
    ctx = context(definition, {"look": {"lines": ["x"]}})
    ctx.output(look).lines.append("y")
    assert ctx.output(look).lines == ["x"]


def test_a_missing_output_raises_and_get_gives_none() -> None:
    definition, look = reporting()
    ctx = context(definition, {})
    with pytest.raises(OutputMissing, match='node "look" has no output here'):
        ctx.output(look)
    assert ctx.get(look) is None
    assert ctx.result(look) is None


def test_the_context_says_run_visit_input_and_cancellation() -> None:
    definition, _ = reporting()
    ctx = context(definition, {})
    assert (ctx.run_id, ctx.visit, ctx.input, ctx.cancelled) == ("run-1", 2, {"a": 1}, False)


def test_the_effect_is_there_only_for_a_node_that_declares_one() -> None:
    definition, _ = reporting()
    effect = EffectIdentity(effect_id="effect-1", effect_type="x", key="[]", attempt_number=1)
    assert context(definition, {}, effect=effect).effect == effect
    with pytest.raises(EffectMissing):
        _ = context(definition, {}).effect


def test_a_result_has_the_stored_record_that_switches_read() -> None:
    definition, look = reporting()
    failed = StepResult(
        attempt_id="attempt-1",
        node_id="look",
        node_type="compute",
        outcome=StepOutcome.FAILED,
        started_at=1000,
        finished_at=1250,
        error="no",
    )
    ctx = context(definition, {}, {"look": failed})
    assert ctx.result(look) == failed
    assert failed.record() == {
        "attemptId": "attempt-1",
        "nodeId": "look",
        "nodeType": "compute",
        "outcome": "failed",
        "startedAt": 1000,
        "finishedAt": 1250,
        "durationMs": 250,
        "error": "no",
    }
    passed = StepResult(
        attempt_id="attempt-2",
        node_id="look",
        node_type="compute",
        outcome=StepOutcome.OK,
        started_at=1000,
        finished_at=900,
    )
    assert passed.record()["output"] is None
    assert passed.duration_ms == 0


def test_changing_a_result_does_not_change_what_is_stored() -> None:
    definition, look = reporting()
    stored = StepResult(
        attempt_id="attempt-1",
        node_id="look",
        node_type="compute",
        outcome=StepOutcome.OK,
        started_at=1000,
        finished_at=1250,
        output={"lines": ["x"]},
    )
    ctx = context(definition, {}, {"look": stored})
    seen: Any = ctx.result(look)
    seen.output["lines"].append("y")
    assert ctx.result(look) == stored
    assert stored.output == {"lines": ["x"]}


@pytest.mark.parametrize("name", ["input", "visit", "run_id", "cancelled", "anything"])
def test_nothing_of_a_context_can_be_set(name: str) -> None:
    definition, _ = reporting()
    with pytest.raises(AttributeError):
        setattr(context(definition, {}), name, 1)
