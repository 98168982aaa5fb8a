"""What is explored at each change and in a night: which scenario by which engine, and how much."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from runtime.chaos.scenario import Scenario

UNITS: Final[Mapping[str, tuple[str, ...]]] = {
    "orders": ("orders",),
    "crash": ("power-cut states", "double faults", "I/O errors", "workloads"),
    "procs": ("process orders", "kills"),
    "sim": ("seeds",),
}
"""What each engine counts."""

SAMPLED: Final = frozenset({"orders", "process orders", "seeds"})
"""Units of which a range of seeds gives one for each seed."""

FINITE: Final = frozenset({"orders", "process orders", "I/O errors"})
"""Units of which every possible one can be asked for (I/O errors: of one life); of the others
there is always one more."""

_USABLE: Final = 0.97
"""Of a budget: the rest is for starting and ending processes."""

_WHOLE: Final = 3
"""A scenario of which every failing call is promised gets as much time as so many others."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is promised.

    Attributes:
        promised: by unit, how many there are to be in all.
        seconds: by engine, how long one process needs for all its samples, about, when nobody
            disturbs it. Where there is less time, each gets its part of it.
        seconds_complete: how long all processes may take for every order of one scenario, against
            the seconds of the others; what it does not need is theirs.
        complete: engines that explore every order of every scenario that is made for them.
        complete_core: engines that do so of the scenarios that are marked as core and made for
            them first.
        is_complete_first: every order comes first, and then a sample of the scenarios that turned
            out to have too many; False: samples of the others come first.
        stretch: by engine, how many times its part of the time a scenario may take if it needs so
            much, because some need more than others; one without an entry: its part.
        sample: by unit, how many a scenario gives beside one that is complete; a unit without an
            entry: as many as are missing; 0 leaves it to the engine.
        core: units of which every possible one is promised of core scenarios.
    """

    promised: Mapping[str, int]
    seconds: Mapping[str, float]
    seconds_complete: float
    complete: frozenset[str] = frozenset()
    complete_core: frozenset[str] = frozenset()
    is_complete_first: bool = False
    stretch: Mapping[str, float] = field(default_factory=dict)
    sample: Mapping[str, int] = field(default_factory=dict)
    core: frozenset[str] = frozenset()

    def is_complete(self, scenario: Scenario[Any], engine: str) -> bool:
        """Whether every order of a scenario is explored by an engine."""
        is_chosen = scenario.core and engine == scenario.engines[0]
        return engine in self.complete or (engine in self.complete_core and is_chosen)

    def promised_by(self, engines: Iterable[str]) -> dict[str, int]:
        """Return what is promised of the units that these engines count."""
        units = {unit for engine in engines for unit in UNITS[engine]}
        return {unit: count for unit, count in self.promised.items() if unit in units}


PER_CHANGE: Final = Figures(
    {
        "power-cut states": 100_000,
        "double faults": 50_000,
        "workloads": 18,
        "orders": 84_000,
        "process orders": 9_500,
        "kills": 1_000,
        "seeds": 500,
    },
    seconds={"orders": 36.0, "crash": 310.0, "procs": 36.0, "sim": 144.0},
    seconds_complete=40.0,
    complete_core=frozenset({"orders", "procs"}),
    stretch={"crash": 2.0},
    sample={"workloads": 0, "orders": 300, "process orders": 40, "kills": 30},
    core=frozenset({"I/O errors"}),
)

NIGHTLY: Final = Figures(
    {
        "power-cut states": 10_000_000,
        "double faults": 5_000_000,
        "workloads": 100,
        "orders": 5_000_000,
        "process orders": 1_000_000,
        "kills": 100_000,
        "seeds": 100_000,
    },
    # Of the rates of one undisturbed process, as docs/testing.md names them: 1,650 power-cut
    # states, 1,030 double faults, 160 failing calls (a workload has 1,300), 1,000 drawn orders,
    # 110 drawn process orders, 58 kills or 6.6 seeds a second.
    seconds={"orders": 5_000.0, "crash": 11_700.0, "procs": 10_800.0, "sim": 15_200.0},
    seconds_complete=400.0,
    complete=frozenset({"orders"}),
    complete_core=frozenset({"procs"}),
    is_complete_first=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One scenario with one engine.

    Attributes:
        is_all: every one there is, if that is finite; this is then promised.
        whole: units of which every one is promised, whatever is wanted of the others.
        seeds: sample these; None leaves it to goals and to the engine.
        weight: its share of the time.
        stretch: how many times as much it may take if it needs it.
        is_split: every process does a part of it; False: one process does it all, so that what
            has to be prepared is prepared once.
    """

    ref: str
    engine: str
    is_all: bool = False
    seeds: range | None = None
    weight: float = 1.0
    stretch: float = 1.0
    is_split: bool = True
    whole: frozenset[str] = frozenset()

    def owes(self, unit: str) -> bool:
        """Whether every one there is of a unit is promised."""
        return unit in self.whole or (self.is_all and unit in FINITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What one command explores.

    Attributes:
        promised: by unit, in all; a unit without an entry is left to the engines.
        sample: as in `Figures`.
        budget_s: wall time for exploring; None is unbounded.
        findings_max: a process stops a scenario after so many broken explorations.
        shrink_s_max: wall time for making one finding small; 0 leaves it as it is.
    """

    items: tuple[Item, ...]
    promised: Mapping[str, int] = field(default_factory=dict)
    sample: Mapping[str, int] = field(default_factory=dict)
    budget_s: float | None = None
    findings_max: int = 3
    shrink_s_max: float = 60.0

    def budget_of(
        self,
        index: int,
        elapsed_s: float,
        processes: int = 1,
        needless: Collection[int] = (),
    ) -> float | None:
        """Return how long the item may take that is next now; time that others left is its too.

        Args:
            needless: numbers of items that nobody will do.
        """
        if self.budget_s is None:
            return None
        left = sum(
            item.weight * (processes if item.is_split else 1)
            for number, item in enumerate(self.items)
            if number >= index and number not in needless
        )
        left_s = max(self.budget_s * _USABLE - elapsed_s, 0.0)
        item = self.items[index]
        return min(left_s, left_s * processes * item.weight * item.stretch / left)

    def goals_of(
        self, index: int, done: Mapping[str, int], needless: Collection[int] = ()
    ) -> dict[str, int]:
        """Return how many of each unit an item is to give: what is missing, shared by the rest.

        Args:
            needless: numbers of items that nobody will do.
        """
        item = self.items[index]
        if item.is_all or item.seeds is not None:
            return {}
        rest = sum(
            other.engine == item.engine and not other.is_all
            for number, other in enumerate(self.items)
            if number >= index and number not in needless
        )
        missing = {
            unit: max(ceil((self.promised[unit] - done.get(unit, 0)) / rest), 1)
            for unit in UNITS[item.engine]
            if unit in self.promised
        }
        goals = {unit: self.sample.get(unit, count) for unit, count in missing.items()}
        return {unit: count for unit, count in goals.items() if count}


def shipped_campaign(
    figures: Figures, scenarios: Iterable[Scenario[Any]], engines: Iterable[str]
) -> tuple[Item, ...]:
    """Return every scenario with every engine it is made for, engine by engine.

    Where nothing else is said those whose every order is explored come last: their size is not
    known, and whatever time the others have left is theirs.
    """
    known = list(scenarios)
    items: list[Item] = []
    for engine in engines:
        suitable = [scenario for scenario in known if engine in scenario.engines]
        complete = [scenario for scenario in suitable if figures.is_complete(scenario, engine)]
        sampled = [it for it in suitable if it not in complete or figures.is_complete_first]
        items += _sampled(figures, engine, sampled)
        items += [
            Item(ref=scenario.ref, engine=engine, is_all=True, weight=figures.seconds_complete)
            for scenario in complete
        ]
    return tuple(sorted(items, key=lambda item: item.is_all != figures.is_complete_first))


def _sampled(figures: Figures, engine: str, scenarios: Sequence[Scenario[Any]]) -> list[Item]:
    """Return what one process each explores of scenarios with an engine."""
    whole = figures.core.intersection(UNITS[engine])
    shares = [_WHOLE if whole and scenario.core else 1 for scenario in scenarios]
    return [
        Item(
            ref=scenario.ref,
            engine=engine,
            weight=figures.seconds[engine] * share / sum(shares),
            stretch=figures.stretch.get(engine, 1.0),
            is_split=False,
            whole=whole if scenario.core else frozenset(),
        )
        for scenario, share in zip(scenarios, shares, strict=True)
    ]
