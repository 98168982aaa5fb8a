"""Declared retries in the engine loop: one visit, numbered tries, one effect and key."""

from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

from pi_workflows.authoring import (
    Ctx,
    Definition,
    EffectSpec,
    Retry,
    RetryLater,
    Workflow,
    absent,
    idempotent,
    manual,
    observe,
)
from pi_workflows.protocol.states import StepOutcome
from pi_workflows.runner.messages import CallResult, ExitReason, Purpose

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.runner.conftest import Player, ScriptedServer

FAILED = CallResult(outcome=StepOutcome.FAILED, error="ValueError: no (a.workflow.py:3)")
TIMED_OUT = CallResult(outcome=StepOutcome.TIMED_OUT)
EFFECT = "effect-flaky-1"
NOW = Retry(attempts=3, backoff=0)
LATER = Retry(attempts=3, backoff=60)


def computing(retry: Retry) -> Definition:
    wf = Workflow("retried")

    @wf.compute(retry=retry)
    def flaky(ctx: Ctx[Any]) -> list[int]:
        return [ctx.visit, ctx.attempt]

    @wf.compute()
    def after(ctx: Ctx[Any]) -> list[int] | None:
        return ctx.get(flaky)

    wf.on_outcome(flaky, ok=after, failed=after, timed_out=after)
    return wf.build(start=flaky)


def acting(effect: EffectSpec[Any], retry: Retry = NOW) -> Definition:
    wf = Workflow("retried")

    @wf.action(effect=effect, retry=retry)
    def flaky(ctx: Ctx[Any]) -> list[object]:
        return [ctx.attempt, ctx.effect.attempt_number, ctx.effect.key]

    return wf.build(start=flaky)


def tries(server: "ScriptedServer") -> list[tuple[object, object]]:
    """Visit and id of every try, which no two share."""
    started = [one for one in server.sent("startAttempt") if one["nodeId"] == "flaky"]
    assert len({one["attemptId"] for one in started}) == len(started)
    return [(one["nodeId"], one["visit"]) for one in started]


def test_failed_try_is_followed_by_another_of_the_same_visit_and_only_the_last_is_a_step(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """A retry at once travels in the message that closes the failed try.

    Case: D18.
    """
    playing = player(computing(NOW), server, {"flaky": [FAILED, TIMED_OUT]})
    playing.play()
    assert tries(server) == [("flaky", 1)] * 3
    assert [call.attempt for call in playing.calls] == [1, 2, 3, 1]
    assert server.path == [("flaky", "ok"), ("after", "ok")]
    assert server.steps[0]["output"] == [1, 3]
    assert server.commits[:3] == [["startAttempt"]] + [["finishAttempt", "startAttempt"]] * 2


def test_last_failure_is_the_step_and_routes(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    player(computing(NOW), server, {"flaky": [FAILED, FAILED, TIMED_OUT]}).play()
    assert server.path == [("flaky", "timed_out"), ("after", "ok")]
    assert [bool(one.get("retry")) for one in server.sent("finishAttempt")[:3]] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("outcomes", "result", "count"),
    [(["failed"], TIMED_OUT, 1), (["timed_out"], FAILED, 1), (["timed_out"], TIMED_OUT, 3)],
)
def test_only_the_outcomes_that_are_named_are_tried_again(
    outcomes: list[Literal["failed", "timed_out"]],
    result: CallResult,
    count: int,
    server: "ScriptedServer",
    player: "type[Player]",
) -> None:
    retry = Retry(attempts=3, backoff=0, outcomes=outcomes)
    player(computing(retry), server, {"flaky": [result] * 3}).play()
    assert len(tries(server)) == count


def test_a_wait_ends_the_child_at_once_and_the_next_one_goes_on_counting(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """What announces the failed try is sent alone; the server parks the run.

    Case: D18.
    """
    server.parks_retries = True
    for count in (1, 2):
        ending = player(computing(LATER), server, {"flaky": [FAILED]}).play()
        assert ending is not None
        assert ending.reason is ExitReason.CLAIM_LOST
        assert server.commits[-1] == ["finishAttempt"]
        assert server.failed_tries == count
    player(computing(LATER), server, {"flaky": [FAILED]}).play()
    assert tries(server) == [("flaky", 1)] * 3
    assert server.path == [("flaky", "failed"), ("after", "ok")]


def asking(retry: Retry, after: float) -> Definition:
    """A node whose first try asks for a wait of its own."""
    wf = Workflow("retried")

    @wf.action(effect=idempotent("x"), retry=retry)
    async def flaky(ctx: Ctx[Any]) -> int:
        if ctx.attempt == 1:
            raise ExceptionGroup("one", [RetryLater(after, "no room before noon")])
        return ctx.attempt

    return wf.build(start=flaky)


@pytest.mark.parametrize(("after", "wait_ms"), [(7.5, 7_500), (0, 0), (3_600, 300_000)])
def test_a_try_that_says_when_the_next_one_is_due_is_believed_up_to_the_longest_wait(
    after: float, wait_ms: int, server: "ScriptedServer", player: "type[Player]"
) -> None:
    """The effect is given back for as long, and the reason is told as any other.

    Case: D18.
    """
    player(asking(LATER, after), server).play()
    (settled, _), (finished, _) = server.sent("settleEffect"), server.sent("finishAttempt")
    assert settled["retryAfterMs"] == finished["retryAfterMs"] == wait_ms
    assert str(finished["error"]).startswith("no room before noon")
    assert cast("JsonObject", finished["receipt"])["retryAfterMs"] == wait_ms
    assert server.path == [("flaky", "ok")]


def test_without_another_try_to_come_it_is_a_failure_like_any_other(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    player(asking(Retry(attempts=1), 5), server).play()
    (finished,) = server.sent("finishAttempt")
    assert (finished["outcome"], finished.get("retryAfterMs")) == ("failed", None)
    assert server.path == [("flaky", "failed")]


@pytest.mark.parametrize("after", [-1, float("nan"), 31 * 86_400, True])
def test_a_wait_that_is_no_time_is_refused_where_it_is_written(after: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 30 days"):
        RetryLater(after, "no")


def test_a_crash_in_a_try_is_no_failed_try(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """The count of the visit goes on where it was.

    Case: D18.
    """
    first = player(computing(NOW), server, {"flaky": [FAILED]})
    first.play(crash_before=4)
    assert [call.attempt for call in first.calls] == [1]
    again = player(computing(NOW), server, {"flaky": [FAILED]})
    again.play()
    assert [call.attempt for call in again.calls][:2] == [2, 3]


def test_a_later_visit_begins_to_count_anew(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    wf = Workflow("retried", max_steps=4)

    @wf.compute(retry=NOW)
    def flaky(ctx: Ctx[Any]) -> int:
        return ctx.attempt

    @wf.compute()
    def after() -> None: ...

    wf.edge(flaky, after)
    wf.edge(after, flaky)
    playing = player(wf.build(start=flaky), server, {"flaky": [FAILED]})
    playing.play()
    assert [call.attempt for call in playing.calls if call.node.node_id == "flaky"] == [1, 2, 1]
    assert server.finished is not None
    assert "MAX_STEPS" in str(server.finished["error"]), "failed tries are no steps"


@pytest.mark.parametrize("effect", [idempotent("x"), manual("x")], ids=["idempotent", "manual"])
def test_an_action_keeps_effect_and_key_over_its_tries(
    effect: EffectSpec[Any], server: "ScriptedServer", player: "type[Player]"
) -> None:
    """A caught error is known not to have applied, whatever the kind; the last one is rejected.

    Case: D18, B35.
    """
    player(acting(effect), server, {"flaky": [FAILED, FAILED]}).play()
    assert server.steps[0]["output"] == [3, 3, '["run-1","x","flaky",1]']
    assert [one["outcome"] for one in server.sent("settleEffect")] == [
        "rejected",
        "rejected",
        "applied",
    ]
    assert list(server.effects) == [EFFECT]


def test_the_last_failure_of_an_action_rejects_its_effect(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: D18."""
    player(acting(manual("x")), server, {"flaky": [FAILED] * 3}).play()
    assert server.effects[EFFECT]["status"] == "rejected"
    assert server.path == [("flaky", "failed")]


@pytest.mark.parametrize(
    ("effect", "count", "settled"),
    [
        (idempotent("x"), 3, ["interrupted", "interrupted", "rejected"]),
        (manual("x"), 1, ["ambiguous"]),
    ],
    ids=["idempotent", "manual"],
)
def test_what_may_have_happened_is_repeated_only_where_that_is_harmless(
    effect: EffectSpec[Any],
    count: int,
    settled: list[str],
    server: "ScriptedServer",
    player: "type[Player]",
) -> None:
    """At a deadline nobody knows; the message for code that ignores it says the same."""
    playing = player(acting(effect), server, {"flaky": [TIMED_OUT] * 3})
    playing.play()
    assert len(tries(server)) == count
    assert [one["outcome"] for one in server.sent("settleEffect")] == settled
    transitions = playing.calls[0].abandon.payload["transitions"]
    assert isinstance(transitions, list)
    assert isinstance(transitions[0], dict)
    assert transitions[0]["outcome"] == settled[0]


def test_an_observed_action_is_looked_for_before_each_further_try(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Also after a caught error: a look costs less than a duplicate."""
    playing = player(acting(observe("x", absent)), server, {"flaky": [FAILED]})
    playing.play()
    assert [call.purpose for call in playing.calls] == [
        Purpose.NODE,
        Purpose.OBSERVE,
        Purpose.NODE,
    ]
    assert server.effects[EFFECT]["attemptNumber"] == 2


def test_an_observed_action_abandoned_at_its_deadline_is_looked_for_by_its_next_try(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """The message made beforehand gives it back while a retry is left; the last is in doubt."""
    definition = acting(observe("x", absent), Retry(attempts=2, backoff=0))
    first, second = player(definition, server), player(definition, server)
    for playing, steps, status in ((first, 3, "pending"), (second, 5, "ambiguous")):
        playing.play(crash_before=steps)
        server.answer(playing.calls[-1].abandon)
        assert server.effects[EFFECT]["status"] == status
    assert [call.purpose for call in second.calls] == [Purpose.OBSERVE, Purpose.NODE]
    assert server.path == [("flaky", "timed_out")]


def test_an_action_that_did_its_work_is_applied_and_not_repeated_over_its_output(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    wf = Workflow("retried")
    sent: list[int] = []

    @wf.action(effect=manual("x"), retry=NOW)
    def flaky() -> Any:  # noqa: ANN401 - what has no JSON form
        sent.append(1)
        return {1, 2}

    player(wf.build(start=flaky), server).play()
    assert sent == [1]
    assert server.effects[EFFECT]["status"] == "applied"
    assert server.path == [("flaky", "failed")]


def test_a_rejected_effect_that_is_adopted_is_not_tried_again(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """An operator has said so: no retry changes it."""
    request: JsonObject = {"input": None, "outputs": {}}
    server.effects[EFFECT] = {
        "status": "rejected",
        "attemptNumber": 1,
        "recovery": "manual",
        "request": request,
    }
    player(acting(manual("x")), server).play()
    assert len(tries(server)) == 1
    assert server.path == [("flaky", "failed")]
