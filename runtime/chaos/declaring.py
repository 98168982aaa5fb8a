"""What a scenario may declare; whatever else it does is refused with its line."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NoReturn

from runtime.chaos.outcome import ScenarioRefused
from runtime.chaos.own_code import nearest, place_of_declaration

_SECONDS_MAX: Final = 10_000_000_000
"""Some three hundred years: what a clock of ours can still say."""


def refuse(rule: str) -> NoReturn:
    """Refuse the scenario at the line that declares.

    Raises:
        ScenarioRefused: always.
    """
    raise ScenarioRefused(f"{place_of_declaration()}: {rule}")


def require_known(what: str, named: object, known: Collection[str], option: str) -> None:
    """Refuse names that nobody knows.

    Args:
        what: one of them is: "engine".
        option: under which they were given.

    Raises:
        ScenarioRefused: one is unknown, or `named` is no collection of texts.
    """
    if isinstance(named, str) or not isinstance(named, Collection):
        refuse(f"{option} is {named!r}; it is a collection of texts, as in {tuple(known)[:1]!r}.")
    for name in named:
        if name not in known:
            refuse(f"there is no {what} {name!r}{nearest(name, list(known))}")


def require_count(option: str, count: object, what: str) -> None:
    """Refuse what is no number above 0.

    Raises:
        ScenarioRefused: says that there is at least one of them.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        refuse(f"{option} is {count!r}; there is at least one {what}.")


def require_faults(
    misspelt: Mapping[str, object],
    counts: Mapping[str, object],
    spans: Mapping[str, object],
) -> None:
    """Refuse kinds of faults that do not exist, and budgets that say nothing.

    Args:
        misspelt: what was given and is no kind.
        counts: how often, by kind.
        spans: seconds, by kind; each at most once.

    Raises:
        ScenarioRefused: names the kind and what it takes.
    """
    for name in misspelt:
        refuse(f"there is no fault {name!r}{nearest(name, [*counts, *spans])}")
    for kind, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            refuse(f"the fault {kind} is {count!r}; say how often it may happen: 0, 1, 2, …")
    for kind, seconds in spans.items():
        _require_spans(kind, seconds)


def _require_spans(kind: str, seconds: object) -> None:
    example = f"say for how many seconds, in a tuple: {kind}=(31.0,)"
    if isinstance(seconds, str) or not isinstance(seconds, Sequence):
        refuse(f"the fault {kind} is {seconds!r}; {example}.")
    for each in seconds:
        if not isinstance(each, int | float) or isinstance(each, bool):
            refuse(f"the fault {kind} has {each!r} in it; {example}.")
        if not math.isfinite(each) or not each or abs(each) > _SECONDS_MAX:
            refuse(f"the fault {kind} has {each!r} in it, which no clock can do; {example}.")
        if kind == "sleep" and each < 0:
            refuse(f"the fault {kind} has {each!r} in it; nobody sleeps backwards.")
