"""Unusual decisions in words that a person reads without knowing the harness."""

from collections.abc import Collection, Mapping
from typing import Final

_AFTER: Final = " after "
_ORDINALS: Final = {1: "st", 2: "nd", 3: "rd"}
_TEENS: Final = range(11, 14)


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `11th`."""
    suffix = "th" if number % 100 in _TEENS else _ORDINALS.get(number % 10, "th")
    return f"{number}{suffix}"


def in_words(choices: Mapping[str, str], actors: Collection[str] = ()) -> list[str]:
    """Return a line per decision.

    Args:
        choices: as they are kept: `FAMILY#N` and the option taken.
        actors: names that stand for "this one goes on" when they are an option.
    """
    return [_line(name, option, actors) for name, option in choices.items()]


def _line(name: str, option: str, actors: Collection[str]) -> str:
    family, _, number = name.rpartition("#")
    said = f"{option} goes on" if option in actors else option
    actor, after, point = family.partition(_AFTER)
    if after:
        # A fault leaves the actor where it was, so the next decision is after the same place.
        nth = "" if number == "1" else f", {ordinal(int(number))} decision"
        return f"after {point} of {actor}{nth}: {said}"
    nth = "" if number == "1" else f"{ordinal(int(number))} "
    return f"{nth}{family}: {said}"
