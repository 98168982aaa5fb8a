"""Where the engine loop goes next, and the deadlines it announces."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pi_workflows.authoring import Ctx, Definition, Unlimited, Workflow
from pi_workflows.protocol.canonical import JsonValue
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.messages import CallResult, Purpose

if TYPE_CHECKING:
    from tests.runner.conftest import Player, ScriptedServer

FAILED = CallResult(outcome=StepOutcome.FAILED, error="ValueError: no (a.workflow.py:3)")
TIMED_OUT = CallResult(outcome=StepOutcome.TIMED_OUT)


def ok(output: JsonValue) -> CallResult:
    return CallResult(outcome=StepOutcome.OK, output=output)


def routed_by(value: JsonValue) -> Definition:
    wf = Workflow("routed")

    @wf.compute()
    def decide() -> dict[str, Any]:
        return {"value": value}

    @wf.compute()
    def target() -> str:
        return "reached"

    wf.switch(decide, "$.value", {True: target, 3: target, "clean": target})
    return wf.build(start=decide)


@pytest.mark.parametrize("value", [True, 3, "clean"])
def test_a_switch_matches_by_json_text(
    value: JsonValue, server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: B16."""
    player(routed_by(value), server).play()
    assert server.path == [("decide", "ok"), ("target", "ok")]


@pytest.mark.parametrize("value", [None, [3], {}, "3.0", 4, False])
def test_a_value_without_a_case_fails_the_run_with_a_routing_error(
    value: JsonValue, server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: B17."""
    player(routed_by(value), server).play()
    assert server.path == [("decide", "ok")]
    assert server.finished is not None
    assert server.finished["status"] == "failed"
    assert str(server.finished["error"]).startswith('ROUTING: node "decide": $.value ')


def test_a_failed_revisit_removes_the_earlier_output(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: B21."""
    wf = Workflow("revisit")

    @wf.compute()
    def work() -> int:
        return 1

    @wf.compute()
    def look(ctx: Ctx[Any]) -> bool:
        return ctx.get(work) is None

    @wf.compute()
    def report(ctx: Ctx[Any]) -> bool:
        return ctx.output(look)

    @wf.compute()
    def wrap(ctx: Ctx[Any]) -> dict[str, bool]:
        return {"gone": ctx.output(look)}

    wf.on_outcome(work, ok=look, failed=look)
    wf.edge(look, wrap)
    wf.switch(wrap, "$.gone", {True: report, False: work})
    playing = player(wf.build(start=work), server, {"work": [ok(1), FAILED]})
    playing.play()
    assert server.finished is not None
    assert server.finished["finalOutput"] is True
    assert playing.calls[-1].results["work"].outcome is StepOutcome.FAILED


def test_timeouts_are_announced_with_the_start_and_computed_ones_after_it(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: B26."""
    wf = Workflow("timeouts")

    @wf.compute()
    def default() -> None: ...

    @wf.compute(timeout=None)
    def unlimited() -> None: ...

    @wf.compute(timeout=2.5)
    def fixed() -> None: ...

    @wf.compute(timeout=lambda ctx: ctx.visit * 7)
    def computed() -> None: ...

    wf.edge(default, unlimited)
    wf.edge(unlimited, fixed)
    wf.edge(fixed, computed)
    playing = player(wf.build(start=default), server)
    playing.play()
    assert server.commits == [
        ["startAttempt"],
        ["finishAttempt", "startAttempt", "setDeadline"],
        ["finishAttempt", "startAttempt", "setDeadline"],
        ["finishAttempt", "startAttempt"],
        ["setDeadline"],
        ["finishAttempt", "finishRun"],
    ]
    assert [(call.purpose, call.timeout_ms) for call in playing.calls] == [
        (Purpose.NODE, 900_000),
        (Purpose.NODE, None),
        (Purpose.NODE, 2_500),
        (Purpose.TIMEOUT, 30_000),
        (Purpose.NODE, 7_000),
    ]
    stored = [deadline["timeoutMs"] for deadline in server.sent("setDeadline")]
    assert stored == [0, 2_500, 7_000]


def test_a_timeout_that_makes_no_sense_fails_the_node(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    wf = Workflow("nonsense")

    @wf.compute(timeout=lambda _ctx: -1)
    def node() -> None: ...

    player(wf.build(start=node), server).play()
    assert server.path == [("node", "failed")]


@pytest.mark.parametrize(
    ("given", "budget_ms"),
    [
        (None, None),
        (Unlimited(), None),
        (1.5, 1_500),
        (timedelta(minutes=1), 60_000),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_timeout_callback_gives_a_budget_or_none(
    server: "ScriptedServer",
    player: "type[Player]",
    given: Any,  # noqa: ANN401 - one of the kinds of a budget
    budget_ms: int | None,
    asynchronous: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Case: B26."""
    wf = Workflow("computed")

    async def later(_ctx: Ctx[Any]) -> Any:  # noqa: ANN401 - as above
        return given

    @wf.compute(timeout=later if asynchronous else lambda _ctx: given)
    def node() -> None: ...

    playing = player(wf.build(start=node), server)
    playing.play()
    assert server.path == [("node", "ok")]
    assert playing.calls[-1].timeout_ms == budget_ms


def test_a_timeout_callback_that_does_not_end_times_the_node_out_unrun(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: B26."""
    wf = Workflow("hung")

    @wf.compute(timeout=lambda _ctx: 1)
    def node() -> None: ...

    late = CallResult(outcome=StepOutcome.TIMED_OUT)
    playing = player(wf.build(start=node), server, {"node": [late]})
    playing.play()
    assert [(call.purpose, call.timeout_ms) for call in playing.calls] == [
        (Purpose.TIMEOUT, 30_000)
    ]
    assert server.path == [("node", "timed_out")]
    assert server.steps[0]["error"] == (
        'TIMED_OUT: node "node": its timeout callback ran longer than 30000 ms'
    )


def test_a_status_detail_is_announced_with_the_start(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    wf = Workflow("detailed")

    @wf.compute(status_detail="counting")
    def first() -> None: ...

    @wf.compute()
    def second() -> None: ...

    wf.edge(first, second)
    player(wf.build(start=first), server).play()
    assert [one.get("statusDetail") for one in server.sent("startAttempt")] == ["counting", None]
