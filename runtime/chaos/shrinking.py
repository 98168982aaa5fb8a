"""Makes a broken exploration small: what is left out of its decisions, one by one, is benign.

Whole families go first, since most of them have nothing to do with the break. Then single
decisions go by delta debugging, until none can be left out. At last each that stayed is tried
at an earlier number of its family, and with an option that another decision took.

Source: A. Zeller and R. Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE
Transactions on Software Engineering 28(2), 2002: the algorithm ddmin.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

Fails = Callable[[dict[str, str]], bool]
"""Whether an exploration with these choices still breaks the same promise."""


LEAST_S: Final = 2.0
"""What is begun to be made small gets so long, even if the budget has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When to be content with what has been reached.

    Attributes:
        runs_max: explorations, counted without those that were tried before.
        seconds_max: wall time.
    """

    runs_max: int = 500
    seconds_max: float = 60.0


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What came of it.

    Attributes:
        choices: still fail.
        runs: how many explorations it took.
        is_minimal: no single decision can be left out; False when a bound ended it before.
    """

    choices: dict[str, str]
    runs: int
    is_minimal: bool


def seconds_for(most_s: float, budget_s: float | None, spent_s: float) -> float:
    """Return how long shrinking may take: what a budget has left, and a little in any case.

    Args:
        most_s: never longer.
        budget_s: of the whole exploration; None is unbounded.
        spent_s: how much of it has gone.
    """
    if budget_s is None:
        return most_s
    return min(most_s, max(budget_s - spent_s, LEAST_S))


def shrink(
    choices: Mapping[str, str], fails: Fails, bounds: Bounds, now_s: Callable[[], float]
) -> Shrunk:
    """Return the smallest choices that were found to fail.

    Args:
        choices: fail; that is not tried again.
        fails: explores once. What it raises leaves as itself.
        now_s: a clock that never goes back, in seconds.
    """
    shrinking = _Shrinking(dict(choices), fails, bounds, now_s)
    is_minimal = False
    try:
        shrinking.leave_out_families()
        shrinking.leave_out_decisions()
        is_minimal = True
        while shrinking.simplify():
            is_minimal = False
            shrinking.leave_out_decisions()
            is_minimal = True
    except _Bounded:
        pass
    return Shrunk(shrinking.best, shrinking.runs, is_minimal)


class _Bounded(Exception):
    """A bound is met."""


@final
class _Shrinking:
    """The state of one shrinking; `best` always fails."""

    def __init__(
        self, choices: dict[str, str], fails: Fails, bounds: Bounds, now_s: Callable[[], float]
    ) -> None:
        self.best = choices
        self.runs = 0
        self._fails: Final = fails
        self._bounds: Final = bounds
        self._now_s: Final = now_s
        self._ends_at: Final = now_s() + bounds.seconds_max
        self._tried: Final[set[frozenset[tuple[str, str]]]] = {frozenset(choices.items())}

    def leave_out_families(self) -> None:
        """Leave out all, then all that one actor or device has decided, then single families."""
        if self._takes({}):
            return
        for word in (_first_word, _family):
            for family in dict.fromkeys(word(name) for name in self.best):
                self._takes(_without(self.best, family, word))

    def leave_out_decisions(self) -> None:
        """Apply ddmin: leave out ever smaller parts until no single decision can go."""
        parts = 2
        while len(self.best) > 1:
            names = list(self.best)
            parts = min(parts, len(names))
            if self._takes_one_of(_reductions(self.best, names, parts)):
                parts = max(parts - 1, 2)
                continue
            if parts >= len(names):
                return
            parts = min(parts * 2, len(names))

    def simplify(self) -> bool:
        """Move a decision to an earlier number, or let it take an option that another takes.

        Returns:
            False when no decision can be made simpler.
        """
        return any(self._takes_one_of(self._simpler(name)) for name in list(self.best))

    def _simpler(self, name: str) -> Iterator[dict[str, str]]:
        family, _, number = name.rpartition("#")
        for earlier in range(1, int(number)):
            moved = f"{family}#{earlier}"
            if moved not in self.best:
                yield {moved if each == name else each: it for each, it in self.best.items()}
        for option in sorted(set(self.best.values())):
            if option < self.best[name]:
                yield {**self.best, name: option}

    def _takes_one_of(self, candidates: Iterable[dict[str, str]]) -> bool:
        return any(self._takes(candidate) for candidate in candidates)

    def _takes(self, candidate: dict[str, str]) -> bool:
        """Make a candidate the best if it fails; what was tried before has not failed."""
        key = frozenset(candidate.items())
        if key in self._tried:
            return False
        if self.runs >= self._bounds.runs_max or self._now_s() >= self._ends_at:
            raise _Bounded
        self._tried.add(key)
        self.runs += 1
        if not self._fails(candidate):
            return False
        self.best = candidate
        return True


def _reductions(
    choices: Mapping[str, str], names: Sequence[str], parts: int
) -> Iterator[dict[str, str]]:
    """Yield each part alone, then each complement."""
    edges = [len(names) * number // parts for number in range(parts + 1)]
    chunks = [set(names[low:high]) for low, high in itertools.pairwise(edges)]
    for chunk in chunks:
        yield {name: choices[name] for name in names if name in chunk}
    if parts > 2:  # noqa: PLR2004 - of two parts each is the other's complement
        for chunk in chunks:
            yield {name: choices[name] for name in names if name not in chunk}


def _family(name: str) -> str:
    return name.rpartition("#")[0]


def _first_word(name: str) -> str:
    return _family(name).split(" ", 1)[0]


def _without(
    choices: Mapping[str, str], family: str, word: Callable[[str], str]
) -> dict[str, str]:
    return {name: option for name, option in choices.items() if word(name) != family}
