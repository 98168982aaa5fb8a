"""A broken exploration is made small without changing what it breaks."""

from collections.abc import Callable, Mapping

import pytest

from runtime.chaos.engine import Wanted
from runtime.chaos.explorer import SHRINKING, Explorer
from runtime.chaos.shrinking import LEAST_S, Bounds, Shrunk, seconds_for, shrink
from runtime.chaos.wording import in_words, ordinal
from tests.chaos.ledgers import Actor, Declaration, Ledger, playing


class Ticking:
    """A clock that goes on by a second at each look."""

    def __init__(self) -> None:
        self._at = 0.0

    def __call__(self) -> float:
        self._at += 1
        return self._at


def noise(count: int) -> dict[str, str]:
    return {f"disk write {n % 7}#{n // 7 + 1}": "fails" for n in range(count)}


def needing(*wanted: str) -> Callable[[dict[str, str]], bool]:
    return lambda choices: set(wanted) <= choices.keys()


PATIENT = Bounds(runs_max=10_000, seconds_max=1e9)


def test_a_budget_bounds_it_too_and_leaves_it_a_little() -> None:
    assert seconds_for(60.0, None, 1_000.0) == 60.0
    assert seconds_for(60.0, 300.0, 10.0) == 60.0
    assert seconds_for(60.0, 300.0, 270.0) == 30.0
    assert seconds_for(60.0, 300.0, 301.0) == LEAST_S
    assert seconds_for(1.0, 300.0, 301.0) == 1.0


def test_two_decisions_are_found_among_hundreds() -> None:
    choices = noise(300) | {"worker-0 after claim#1": "clock +31 s", "server#1": "kill"}
    shrunk = shrink(
        choices,
        needing("worker-0 after claim#1", "server#1", "disk write 3#1"),
        PATIENT,
        Ticking(),
    )
    assert shrunk.is_minimal
    assert shrunk.choices.keys() == {"disk write 3#1", "worker-0 after claim#1", "server#1"}
    assert shrunk.runs < 150


def test_nothing_is_left_of_what_fails_by_itself() -> None:
    assert shrink(noise(50), lambda _: True, PATIENT, Ticking()).choices == {}


def test_a_decision_moves_to_the_earliest_number_that_fails_too() -> None:
    def fails(choices: dict[str, str]) -> bool:
        return any(int(name.rpartition("#")[2]) >= 3 for name in choices)

    assert shrink({"worker#9": "kill"}, fails, PATIENT, Ticking()).choices == {"worker#3": "kill"}


def test_a_decision_takes_the_option_of_another_one() -> None:
    def fails(choices: dict[str, str]) -> bool:
        return len(choices) >= 2

    shrunk = shrink({"a after b#1": "pause", "c after d#1": "kill"}, fails, PATIENT, Ticking())
    assert set(shrunk.choices.values()) == {"kill"}


def test_a_bound_ends_it_with_what_was_reached() -> None:
    choices = noise(300) | {"server#1": "kill"}
    by_runs = shrink(
        choices, needing("server#1", "disk write 3#2"), Bounds(runs_max=12), Ticking()
    )
    assert (by_runs.runs, by_runs.is_minimal) == (12, False)
    assert {"server#1", "disk write 3#2"} <= by_runs.choices.keys()
    by_time = shrink(choices, needing("server#1"), Bounds(seconds_max=5), Ticking())
    assert by_time.runs < 6


def test_the_same_choices_are_never_tried_twice() -> None:
    tried: list[frozenset[tuple[str, str]]] = []

    def fails(choices: dict[str, str]) -> bool:
        tried.append(frozenset(choices.items()))
        return {"a x#2", "b#1"} <= choices.keys()

    shrink({**noise(20), "a x#2": "1", "b#1": "1"}, fails, PATIENT, Ticking())
    assert len(tried) == len(set(tried))


def test_decisions_are_told_in_words() -> None:
    words = in_words(
        {
            "worker-0 after claim#1": "worker-1",
            "worker-1 after sync before_write#2": "clock +31 s",
            "disk write#63": "no room",
        },
        {"worker-0", "worker-1"},
    )
    assert words == [
        "after claim of worker-0: worker-1 goes on",
        "after sync before_write of worker-1, 2nd decision: clock +31 s",
        "63rd disk write: no room",
    ]
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"),
    ]


def test_what_is_left_of_a_budget_bounds_how_long_a_break_is_made_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[float] = []

    def shrunk(choices: Mapping[str, str], _f: object, bounds: Bounds, _n: object) -> Shrunk:
        given.append(bounds.seconds_max)
        return Shrunk(dict(choices), 0, is_minimal=False)

    monkeypatch.setattr("runtime.chaos.explorer.shrink", shrunk)

    def scenario(plan: Declaration) -> None:
        @plan.actor()
        async def walker(me: Actor) -> None:
            await me.change(lambda number: number + 1, "step")

        @plan.finally_
        def never(_: Ledger) -> None:
            raise AssertionError

    for budget_s in (None, 20.0, 0.5):
        Explorer(playing(scenario), Wanted(budget_s=budget_s, findings_max=1)).explore(is_all=True)
    assert given == [SHRINKING.seconds_max, pytest.approx(20.0, abs=1), LEAST_S]
