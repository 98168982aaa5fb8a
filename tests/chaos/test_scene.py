"""What a scenario declares, and what an actor may not do."""

import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from runtime.chaos.acting import Acting
from runtime.chaos.choices import Benign, Choices
from runtime.chaos.engine import Engine
from runtime.chaos.guard import Guard
from runtime.chaos.outcome import ScenarioRefused


class Standing:
    """A clock that stands still."""

    def wall_ms(self) -> int:
        """Return always the same instant."""
        return 1_700_000_000_000


def begun(body: Callable[[Me], Coroutine[Any, Any, None]], guard: Guard) -> Acting:
    me = Me("worker-0", 0, Standing(), Choices(Benign()))
    acting = Acting(me.name, body(me), guard)
    acting.start()
    return acting


def test_declarations_are_collected_anew_for_each_call() -> None:
    @scenario(promises=("P3",))
    def one_winner(s: Scene) -> None:
        """One of two gets it."""
        job = s.resource("job")

        @s.actor(count=2)
        async def worker(me: Me) -> None:
            await me.claim(job)

        s.faults(clock_jump=(31.0,), kill=1)

        @s.finally_
        def at_most_one(look: Look) -> None:
            assert len(look.events(job)) <= 1

    assert (one_winner.name, one_winner.summary) == ("one_winner", "One of two gets it.")
    for _ in range(2):
        plan = Scene()
        one_winner.body(plan)
        assert [actor.names for actor in plan.actors] == [["worker-0", "worker-1"]]
        assert plan.budgets.kinds == {"clock_jump", "kill"}
        assert list(plan.final_checks) == ["at_most_one"]
        assert len(plan.preparation) == 1
    assert Engine is not None


async def reads_the_clock(_: Me) -> None:
    time.monotonic()


async def waits_for_something_else(_: Me) -> None:
    class Foreign:
        def __await__(self) -> Generator[object, None, None]:
            yield "mine"

    await Foreign()


def test_real_time_is_refused_with_the_line() -> None:
    guard = Guard()
    with guard.installed(), pytest.raises(ScenarioRefused) as refused:
        begun(reads_the_clock, guard)
    line = reads_the_clock.__code__.co_firstlineno + 1
    assert f"test_scene.py:{line}: time.monotonic is not available" in str(refused.value)
    assert "use the handle's now_ms" in str(refused.value)


def test_foreign_await_is_refused() -> None:
    with pytest.raises(ScenarioRefused, match=r"test_scene\.py:\d+: worker-0 awaits something"):
        begun(waits_for_something_else, Guard())


def test_killed_actor_takes_no_further_step() -> None:
    steps: list[str] = []

    async def careful(me: Me) -> None:
        try:
            await me.sync("here")
        finally:
            steps.append("cleaned up")
            await me.sync("there")

    acting = begun(careful, Guard())
    assert acting.waiting is not None
    assert acting.waiting.point == "sync here"
    acting.kill()
    assert acting.ended
    assert steps == []
    acting.close()
