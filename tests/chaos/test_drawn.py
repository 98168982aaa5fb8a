"""What is told of explorations that were drawn: how many differ, and which ones are repeated."""

import itertools
import json
from dataclasses import replace

import pytest

from runtime.chaos import drawn
from runtime.chaos.choices import Choices, Replayed
from runtime.chaos.drawn import REPEAT_EVERY, Drawn, is_repeated
from runtime.chaos.engine import Wanted
from runtime.chaos.explorer import Explorer
from runtime.chaos.outcome import Tally, Verdict
from runtime.chaos.tally_json import tally_json, tally_of
from tests.chaos.ledgers import Actor, Declaration, playing

ORDERS = 6
"""Of two actors with two steps each."""


def two_walkers(plan: Declaration) -> None:
    @plan.actor(count=2)
    async def walker(me: Actor) -> None:
        for step in range(2):
            await me.change(lambda number: number + 1, f"step-{step}")


def drawing(seeds: range, part: tuple[int, int] = (0, 1)) -> Tally:
    explorer = Explorer(playing(two_walkers), Wanted(seeds=seeds, part=part))
    return explorer.explore(is_all=False)


def test_orders_that_two_seeds_give_count_once() -> None:
    tally = drawing(range(60))
    assert (tally.explored, tally.distinct) == (60, ORDERS)


def test_what_is_promised_of_seeds_is_kept_by_seeds() -> None:
    tally = drawing(range(60))
    assert (tally.promised, tally.done, tally.verdict) == (60, 60, Verdict.HELD)


def test_what_two_processes_have_drawn_counts_once() -> None:
    parts = [drawing(range(60), (number, 2)) for number in range(2)]
    known, other = [tally_of(json.loads(json.dumps(tally_json(part)))) for part in parts]
    assert min(known.distinct or 0, other.distinct or 0) > ORDERS // 2
    known.add(other)
    assert (known.explored, known.distinct) == (60, ORDERS)


def test_of_everything_that_there_is_nothing_needs_to_be_told_apart() -> None:
    tally = Explorer(playing(two_walkers), Wanted()).explore(is_all=False)
    assert (tally.complete, tally.explored, tally.distinct) == (True, ORDERS, None)


def test_so_many_are_told_apart_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "KEYS_MAX", 3)
    assert drawing(range(60)).distinct == 3


def test_decisions_have_the_same_key_in_every_process() -> None:
    def key(**kept: str) -> int:
        choices = Choices(Replayed({f"who#{name[1:]}": option for name, option in kept.items()}))
        for _ in range(3):
            choices.pick("who", ["a", "b", "c"])
        return choices.key()

    assert key(_1="b") == 3_802_791_604_053_258_015
    assert len({key(), key(_1="b"), key(_2="b"), key(_1="c"), key(_1="b", _2="b")}) == 5


def test_the_first_ones_are_repeated_and_half_a_percent_of_all_others() -> None:
    repeated = [count for count in range(1, 10_001) if is_repeated(count)]
    assert repeated[:9] == [1, 2, 4, 8, 16, 32, 64, 128, 200]
    assert 50 <= len(repeated) <= 65


def test_long_exploration_goes_on_repeating() -> None:
    explorer = Explorer(playing(two_walkers), Wanted(seeds=range(3 * REPEAT_EVERY)))
    repeated: list[int] = []
    repeat = explorer.repeat

    def noting(choices: dict[str, str], until: int | None = None) -> object:
        repeated.append(explorer.tally.explored)
        return repeat(choices, until)

    explorer.repeat = noting  # type: ignore[assignment]
    explorer.explore(is_all=False)
    assert repeated == [1, 2, 4, 8, 16, 32, 64, 128, 200, 256, 400, 512, 600]


def test_figures_of_a_complete_part_stay_without() -> None:
    tally = replace(drawing(range(1)), complete=True, distinct=None, keys=set())
    Drawn().tell(tally, 2)
    assert tally.distinct is None


def test_what_is_never_the_same_twice_is_given_up_soon() -> None:
    numbers = itertools.count()

    def restless(plan: Declaration) -> None:
        @plan.actor(count=2)
        async def walker(me: Actor) -> None:
            await me.change(lambda number: number + 1, f"step-{next(numbers)}")

    explorer = Explorer(playing(restless), Wanted(seeds=range(1_000), findings_max=3))
    tally = explorer.explore(is_all=False)
    assert (tally.explored, tally.broken, len(tally.not_deterministic)) == (4, 0, 3)
    assert tally.verdict is Verdict.NOT_DETERMINISTIC
