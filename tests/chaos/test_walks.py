"""Orders drawn by a seed: a walk wanders, PCT stays with one actor and finds what is rare."""

import pytest

from runtime.chaos.choices import Choices, Source
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Tally, Verdict
from runtime.chaos.scenario import Budgets
from runtime.chaos.walks import Priorities, Uniform, Walk, source_of
from tests.chaos.ledgers import Actor, Declaration, Ledger, explored

STEPS = 12


def needle(plan: Declaration) -> None:
    """Breaks only if one actor stops after its first step and the other one then does all."""

    @plan.actor()
    async def opener(me: Actor) -> None:
        await me.change(lambda _: 1, "open")
        for _ in range(STEPS):
            await me.change(lambda number: number if number > STEPS else 0, "close")

    @plan.actor()
    async def passer(me: Actor) -> None:
        for _ in range(STEPS):
            await me.change(lambda number: number + 1 if number else 0, "pass")

    @plan.finally_
    def nobody_passed(ledger: Ledger) -> None:
        assert ledger.number <= STEPS


def test_pct_finds_a_bug_of_depth_two_that_a_walk_does_not_find() -> None:
    walks = explored(needle, Wanted(seeds=range(0, 1000, 2)))
    assert (walks.explored, walks.verdict) == (500, Verdict.HELD)
    priorities = explored(needle, Wanted(seeds=range(1, 1001, 2)))
    assert priorities.verdict is Verdict.VIOLATED
    # Two constraints: the passer waits for the first step, and the opener for all of its own.
    assert len(priorities.findings[0].choices) == 1


@pytest.mark.parametrize("seed", range(6))
def test_same_seed_draws_the_same(seed: int) -> None:
    def drawn(source: Source) -> dict[str, str]:
        choices = Choices(source)
        for step in range(20):
            options = ["worker-0", "worker-1", "clock +1 s", "kill worker-0"]
            choices.pick("start" if step == 0 else "worker-0 after step", options)
            choices.pick("worker-0 at step", ["as asked", "drop it"])
            choices.pick("worker-0 coin", ["heads", "tails"])
        return choices.unusual

    assert drawn(source_of(seed, 20)) == drawn(source_of(seed, 20))
    assert drawn(source_of(seed, 20)) != drawn(source_of(seed + 2, 20))


def test_seeds_alternate_between_walks_and_priorities() -> None:
    kinds = [type(source_of(seed, 10)) for seed in range(4)]
    assert kinds == [Walk, Priorities, Walk, Priorities]


def test_depth_of_priorities_is_one_more_than_their_changes() -> None:
    def switches(depth: int) -> int:
        choices = Choices(Priorities(7, depth, 30))
        running, count = "a", 0
        for _ in range(30):
            options = [running, *sorted({"a", "b", "c"} - {running})]
            picked = choices.pick(f"{running} after step", options)
            running, count = picked, count + (picked != running)
        return count

    # The actor of the highest priority goes first, whoever is named first.
    assert switches(1) <= 1
    assert 1 <= switches(4) <= 4


def test_uniform_walk_takes_every_option() -> None:
    source = Uniform(1)
    assert {source.pick("x#1", ("a", "b", "c")) for _ in range(100)} == {0, 1, 2}


def test_drawn_faults_stay_within_their_budgets() -> None:
    most: list[int] = []

    def scenario(plan: Declaration) -> None:
        @plan.actor(count=3)
        async def worker(me: Actor) -> None:
            for _ in range(3):
                await me.change(lambda number: number + 1)

        plan.budgets = Budgets(kill=1, clock_jump=(1.0,))

        @plan.finally_
        def counted(ledger: Ledger) -> None:
            most.append(ledger.number)

    tally = explored(scenario, Wanted(seeds=range(200)))
    assert tally.explored == 200
    assert min(most) >= 6
    assert 0 < tally.faults["kill"] < 200
    assert tally.blind_spots == []


def test_sample_that_is_one_order_over_and_over_says_so() -> None:
    """A sample of one order proves as little as a scenario that has no other."""
    tally = Tally("alone", "orders", "orders", explored=10, distinct=1)
    assert tally.blind_spots == ["one order only was seen"]
    assert Tally("two", "orders", "orders", explored=10, distinct=2).blind_spots == []
