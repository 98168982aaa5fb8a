"""Decisions have stable names; what is kept of them repeats the exploration."""

from collections.abc import Sequence

import pytest

from runtime.chaos.choices import Benign, Choices, Replayed, Seeded, Source, Systematic

THREE = ("go on", "kill", "pause")


def explore(source: Source, asked: Sequence[str] = ("a", "b", "a")) -> Choices:
    choices = Choices(source)
    for family in asked:
        choices.pick(family, THREE)
    return choices


def test_benign_exploration_keeps_nothing() -> None:
    assert explore(Benign()).unusual == {}


def test_unusual_decisions_repeat_an_exploration() -> None:
    drawn = explore(Seeded(3, otherwise=0.9))
    again = explore(Replayed(drawn.unusual))
    assert drawn.unusual
    assert again.unusual == drawn.unusual
    assert again.made == drawn.made


def test_leaving_one_decision_out_does_not_shift_the_others() -> None:
    source = Replayed({"a#2": "kill"})
    assert explore(source).unusual == {"a#2": "kill"}
    assert source.unused == set()
    assert explore(Replayed({"a#2": "kill"}), ("b", "b", "a", "a")).unusual == {"a#2": "kill"}


def test_option_that_is_not_offered_is_benign_and_named() -> None:
    source = Replayed({"a#1": "melt", "c#1": "kill"})
    assert explore(source).unusual == {}
    assert source.unused == {"a#1", "c#1"}


def test_families_draw_from_streams_of_their_own() -> None:
    alone = explore(Seeded(5), ("a", "a", "a"))
    among = explore(Seeded(5), ("a", "b", "a", "b", "a"))
    assert alone.unusual.items() <= among.unusual.items()


def test_rate_of_a_family_is_that_of_its_first_word() -> None:
    made = explore(Seeded(1, {"kill": 0.0}, otherwise=1.0), ("kill runner", "pause runner"))
    assert set(made.unusual) == {"pause runner#1"}


def test_systematic_source_walks_every_path_once() -> None:
    source = Systematic()
    paths = []
    while True:
        choices = Choices(source)
        if choices.pick("first", THREE) == "kill":
            choices.pick("second", THREE[:2])
        paths.append(tuple(choices.unusual.items()))
        if not source.advance():
            break
    assert paths == [
        (),
        (("first#1", "kill"),),
        (("first#1", "kill"), ("second#1", "kill")),
        (("first#1", "pause"),),
    ]


@pytest.mark.parametrize(("prefix", "expected"), [((0,), 3), ((), 9)])
def test_systematic_source_stays_below_its_prefix(prefix: tuple[int, ...], expected: int) -> None:
    source = Systematic(prefix)
    explored = 1
    explore(source, ("a", "b"))
    while source.advance():
        explore(source, ("a", "b"))
        explored += 1
    assert explored == expected
