"""Observed effects in the engine loop: looked for before anything is sent again."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from pi_workflows.authoring import (
    Ctx,
    Definition,
    Observation,
    Workflow,
    absent,
    applied,
    observe,
    unknown,
)
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.messages import Call, CallResult, Purpose, Send

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.runner.conftest import Player, ScriptedServer

TIMED_OUT = CallResult(outcome=StepOutcome.TIMED_OUT)
EFFECT = "effect-send-1"


def with_look(look: Callable[[Ctx[Any]], Any]) -> Definition:
    wf = Workflow("observed")

    @wf.action(effect=observe("mail.send", look, timeout=5))
    def send(ctx: Ctx[Any]) -> str:
        return f"sent by try {ctx.effect.attempt_number}"

    @wf.compute()
    def after(ctx: Ctx[Any]) -> str | None:
        return ctx.get(send)

    wf.on_outcome(send, ok=after, failed=after, timed_out=after)
    return wf.build(start=send)


def transitions(message: Send) -> "list[JsonObject]":
    return cast("list[JsonObject]", message.payload["transitions"])


def purposes(calls: list[Call]) -> list[Purpose]:
    return [call.purpose for call in calls if call.node.node_id == "send"]


def crashed(definition: Definition, server: "ScriptedServer", player: "type[Player]") -> None:
    """Die while the action may be acting."""
    player(definition, server).play(crash_before=2)
    assert server.effects[EFFECT]["status"] == "applying"
    server.recover()


def found(seen: object) -> Callable[[Ctx[Any]], Any]:
    def look(ctx: Ctx[Any]) -> object:
        assert ctx.effect.attempt_number == 1
        assert ctx.effect.key == '["run-1","mail.send","send",1]'
        return seen

    return look


def test_the_first_try_of_an_effect_is_not_looked_for(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    playing = player(with_look(found(unknown())), server)
    playing.play()
    assert purposes(playing.calls) == [Purpose.NODE]
    assert server.effects[EFFECT]["status"] == "applied"


def test_effect_that_is_found_applied_is_adopted_without_a_second_send(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: A53."""
    definition = with_look(found(applied("sent before")))
    crashed(definition, server, player)
    again = player(definition, server)
    again.play()
    assert purposes(again.calls) == [Purpose.OBSERVE]
    assert (server.effects[EFFECT]["status"], server.effects[EFFECT]["attemptNumber"]) == (
        "applied",
        1,
    )
    assert server.finished is not None
    assert server.finished["finalOutput"] == "sent before"
    assert server.steps[0]["receipt"] == {
        "actionType": "function",
        "adopted": True,
        "observed": True,
    }
    settled, finished, *_ = server.commits[-2]
    assert (settled, finished) == ("settleEffect", "finishAttempt")


def test_effect_that_is_absent_is_sent_as_the_next_numbered_try(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    definition = with_look(found(absent()))
    crashed(definition, server, player)
    again = player(definition, server)
    again.play()
    assert purposes(again.calls) == [Purpose.OBSERVE, Purpose.NODE]
    assert server.effects[EFFECT]["attemptNumber"] == 2
    assert server.finished is not None
    assert server.finished["finalOutput"] == "sent by try 2"


def raising(_ctx: Ctx[Any]) -> Observation[str]:
    raise ConnectionError("no answer")


@pytest.mark.parametrize(
    ("look", "says"),
    [
        (found(unknown("the provider is down")), "gave no answer: the provider is down"),
        (found(unknown()), "gave no answer: it gave no reason"),
        (raising, "gave no answer: ConnectionError: no answer"),
        (found("applied"), "returns applied(value), absent() or unknown(), not str"),
        (found(applied(7.5)), "NOT_JSON"),
    ],
)
def test_a_look_without_an_answer_makes_the_effect_ambiguous(
    look: Callable[[Ctx[Any]], Any],
    says: str,
    server: "ScriptedServer",
    player: "type[Player]",
) -> None:
    """Whatever it raises, whatever else it returns: nothing is sent."""
    definition = with_look(look)
    crashed(definition, server, player)
    again = player(definition, server)
    again.play()
    assert purposes(again.calls) == [Purpose.OBSERVE]
    assert server.effects[EFFECT]["status"] == "ambiguous"
    (settled,) = server.sent("settleEffect")
    assert says in str(settled["error"])
    assert settled["observed"] is True


def test_a_look_that_takes_too_long_makes_the_effect_ambiguous(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """It has a bound of its own; ignoring it is settled by the message made beforehand."""
    definition = with_look(found(absent()))
    crashed(definition, server, player)
    again = player(definition, server, {"send": [TIMED_OUT]})
    again.play()
    assert again.calls[0].timeout_ms == 5_000
    assert server.effects[EFFECT]["status"] == "ambiguous"
    abandoned, finished = transitions(again.calls[0].abandon)
    assert (abandoned["outcome"], abandoned["observed"]) == ("ambiguous", True)
    assert finished["outcome"] == "timed_out"


def test_a_look_may_be_async_and_need_no_context(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    wf = Workflow("observed")

    async def look() -> Observation[int]:
        return applied(7)

    @wf.action(effect=observe("mail.send", look))
    def send() -> int:
        raise AssertionError

    definition = wf.build(start=send)
    crashed(definition, server, player)
    player(definition, server).play()
    assert server.steps[0]["output"] == 7


@pytest.mark.parametrize(
    ("seen", "status", "outcome"),
    [
        (applied("sent, late"), "applied", "ok"),
        (absent(), "rejected", "timed_out"),
        (unknown("down"), "ambiguous", "timed_out"),
    ],
)
def test_an_action_stopped_at_its_deadline_is_looked_for_at_once(
    seen: object,
    status: str,
    outcome: str,
    server: "ScriptedServer",
    player: "type[Player]",
) -> None:
    """Its try is still open, so that try's row says what was found."""
    playing = player(with_look(found(seen)), server, {"send": [TIMED_OUT]})
    playing.play()
    assert purposes(playing.calls) == [Purpose.NODE, Purpose.OBSERVE]
    assert server.effects[EFFECT]["status"] == status
    assert server.path[0] == ("send", outcome)
    assert ("sent, late" in server.steps[0].values()) == (outcome == "ok")
    (settled,) = server.sent("settleEffect")
    assert "observed" not in settled


def test_an_observed_action_abandoned_at_its_deadline_is_ambiguous(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Its code still runs when the message is sent: a look would prove nothing."""
    playing = player(with_look(found(absent())), server)
    playing.play(crash_before=3)
    server.answer(playing.calls[0].abandon)
    assert server.effects[EFFECT]["status"] == "ambiguous"
