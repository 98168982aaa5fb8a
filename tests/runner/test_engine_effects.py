"""Effects in the engine loop: reserved, settled, adopted."""

from typing import TYPE_CHECKING, Any

import pytest

from pi_workflows.authoring import Ctx, Definition, Workflow, idempotent, manual
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.messages import CallResult

if TYPE_CHECKING:
    from tests.runner.conftest import Player, ScriptedServer

FAILED = CallResult(outcome=StepOutcome.FAILED, error="ValueError: no (a.workflow.py:3)")
TIMED_OUT = CallResult(outcome=StepOutcome.TIMED_OUT)


def with_effect(kind: str) -> Definition:
    wf = Workflow("effect")
    effect = manual("mail.send") if kind == "manual" else idempotent("mail.send")

    @wf.action(effect=effect)
    def send(ctx: Ctx[Any]) -> str:
        return ctx.effect.key

    @wf.compute()
    def rescue() -> str:
        return "rescued"

    wf.on_outcome(send, ok=rescue, failed=rescue, timed_out=rescue)
    return wf.build(start=send)


@pytest.mark.parametrize("result", [FAILED, TIMED_OUT])
def test_an_outcome_switch_routes_failures_to_recovery(
    result: CallResult, server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: B18."""
    player(with_effect("idempotent"), server, {"send": [result]}).play()
    assert server.path == [("send", result.outcome.value), ("rescue", "ok")]
    assert server.finished is not None
    assert server.finished["finalOutput"] == "rescued"


def test_an_effect_is_reserved_before_and_settled_after_its_callback(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    player(with_effect("idempotent"), server).play()
    assert server.commits == [
        ["startAttempt", "reserveEffect"],
        ["settleEffect", "finishAttempt", "startAttempt"],
        ["finishAttempt", "finishRun"],
    ]
    key = '["run-1","mail.send","send",1]'
    assert server.effects["effect-send-1"]["result"] == key
    assert server.steps[0]["receipt"] == {"actionType": "function"}


def test_a_request_callback_runs_after_the_start_and_before_the_reservation(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    wf = Workflow("request")

    @wf.action(effect=manual("mail.send"), request=lambda ctx: {"visit": ctx.visit})
    def send() -> None: ...

    player(wf.build(start=send), server).play()
    assert server.commits[:2] == [["startAttempt"], ["reserveEffect"]]
    assert server.effects["effect-send-1"]["request"] == {"visit": 1}


def test_a_large_request_is_reserved_by_its_digest(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    server.input = "x" * 300_000
    player(with_effect("manual"), server).play()
    request = server.effects["effect-send-1"]["request"]
    assert isinstance(request, dict)
    assert sorted(request) == ["bytes", "sha256"]


@pytest.mark.parametrize(
    ("kind", "result", "expected"),
    [
        ("manual", FAILED, "rejected"),
        ("idempotent", FAILED, "rejected"),
        ("manual", TIMED_OUT, "ambiguous"),
        ("idempotent", TIMED_OUT, "rejected"),
    ],
)
def test_an_effect_is_settled_by_what_is_known_of_it(
    kind: str,
    result: CallResult,
    expected: str,
    server: "ScriptedServer",
    player: "type[Player]",
) -> None:
    """A caught error rejects the effect and fails the node.

    Case: B35.
    """
    playing = player(with_effect(kind), server, {"send": [result]})
    playing.play()
    assert server.effects["effect-send-1"]["status"] == expected
    assert server.path[0] == ("send", result.outcome.value)


def test_an_abandoned_effect_is_settled_by_a_message_made_before_the_code_runs(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """The message closes the attempt and starts nothing, since the process must end then."""
    playing = player(with_effect("manual"), server)
    playing.play(crash_before=3)
    server.answer(playing.calls[0].abandon)
    assert server.path == [("send", "timed_out")]
    assert server.effects["effect-send-1"]["status"] == "ambiguous"
    assert server.active is None


def test_an_applied_effect_is_adopted_without_running_its_callback(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    server.effects["effect-send-1"] = {
        "status": "applied",
        "attemptNumber": 1,
        "recovery": "manual",
        "request": {"input": None, "outputs": {}},
        "result": "saved",
    }
    playing = player(with_effect("manual"), server)
    playing.play()
    assert [call.node.node_id for call in playing.calls] == ["rescue"]
    assert server.steps[0]["output"] == "saved"


def test_an_output_that_an_operator_gave_and_no_node_declares_is_called_an_output(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    server.effects["effect-send-1"] = {
        "status": "applied",
        "attemptNumber": 1,
        "recovery": "manual",
        "request": {"input": None, "outputs": {}},
        "result": None,
    }
    player(with_effect("manual"), server).play()
    assert server.steps[0]["error"] == (
        'EFFECT_OUTPUT_REFUSED: node "send": its effect is applied, but the output that was given '
        "for it is no str: output: Input should be a valid string"
    )


def test_an_ambiguous_effect_never_runs_again(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    playing = player(with_effect("manual"), server)
    playing.play(crash_before=2)
    server.recover()
    again = player(with_effect("manual"), server)
    again.play()
    assert [call.node.node_id for call in again.calls] == ["rescue"]
    assert server.path[0] == ("send", "failed")


def test_each_visit_of_an_action_has_its_own_effect_key(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    wf = Workflow("visits", max_steps=2)

    @wf.action(effect=idempotent("visit"))
    def act(ctx: Ctx[Any]) -> str:
        return ctx.effect.key

    wf.edge(act, act)
    player(wf.build(start=act), server).play()
    assert [step["output"] for step in server.steps] == [
        '["run-1","visit","act",1]',
        '["run-1","visit","act",2]',
    ]
