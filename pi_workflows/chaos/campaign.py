"""What is explored at each change and in a night: which scenario by which engine, and how much."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from runtime.chaos.scenario import Scenario

UNITS: Final[Mapping[str, tuple[str, ...]]] = {
    "orders": ("orders",),
    "crash": ("power-cut states", "double faults", "I/O errors"),
    "procs": ("process orders", "kills"),
    "sim": ("seeds",),
}
"""What each engine counts."""

SAMPLED: Final = frozenset({"orders", "process orders", "seeds"})
"""Units of which a range of seeds gives one for each seed."""

FINITE: Final = frozenset({"orders", "process orders"})
"""Units of which every possible one can be asked for; of the others there is always one more, or
the engine itself says how many it owes."""

_WEIGHT: Final = {"orders": 1.0, "crash": 6.0, "procs": 1.0, "sim": 6.0}
"""How much of the time a scenario gets with an engine, against the others: about the seconds that
one process needs when nobody disturbs it."""

_USABLE: Final = 0.97
"""Of a budget: the rest is for starting and ending processes."""

_WEIGHT_COMPLETE: Final = 40.0
"""The same of one whose every order is explored, by every process."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is promised.

    Attributes:
        promised: by unit, how many there are to be in all.
        complete: engines that explore every order of some scenarios.
        only_core: of those that are marked as core and made for this engine first, and of the
            others a sample; False: of every scenario, and a sample besides.
        sample: by unit, how many a scenario gives beside one that is complete; a unit without an
            entry: as many as are missing.
    """

    promised: Mapping[str, int]
    complete: frozenset[str]
    only_core: bool
    sample: Mapping[str, int] = field(default_factory=dict)

    def is_complete(self, scenario: Scenario[Any], engine: str) -> bool:
        """Whether every order of a scenario is explored by an engine."""
        is_chosen = scenario.core and engine == scenario.engines[0]
        return engine in self.complete and (is_chosen or not self.only_core)

    def promised_by(self, engines: Iterable[str]) -> dict[str, int]:
        """Return what is promised of the units that these engines count."""
        units = {unit for engine in engines for unit in UNITS[engine]}
        return {unit: count for unit, count in self.promised.items() if unit in units}


PER_CHANGE: Final = Figures(
    {
        "power-cut states": 100_000,
        "double faults": 50_000,
        "orders": 84_000,
        "process orders": 9_500,
        "kills": 1_000,
        "seeds": 500,
    },
    frozenset({"orders", "procs"}),
    only_core=True,
    sample={"orders": 300, "process orders": 40, "kills": 30},
)

NIGHTLY: Final = Figures(
    {
        "power-cut states": 10_000_000,
        "double faults": 5_000_000,
        "I/O errors": 100_000,
        "orders": 5_000_000,
        "process orders": 1_000_000,
        "kills": 100_000,
        "seeds": 100_000,
    },
    frozenset({"orders", "procs"}),
    only_core=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One scenario with one engine.

    Attributes:
        is_all: every one there is, if that is finite; this is then promised.
        seeds: sample these; None leaves it to goals and to the engine.
        weight: its share of the time.
        is_split: every process does a part of it; False: one process does it all, so that what
            has to be prepared is prepared once.
    """

    ref: str
    engine: str
    is_all: bool = False
    seeds: range | None = None
    weight: float = 1.0
    is_split: bool = True


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

    def budget_of(self, index: int, elapsed_s: float, processes: int = 1) -> float | None:
        """Return how long the item may take that is next now; time that others left is its too."""
        if self.budget_s is None:
            return None
        left = sum(
            item.weight * (processes if item.is_split else 1) for item in self.items[index:]
        )
        left_s = max(self.budget_s * _USABLE - elapsed_s, 0.0)
        return min(left_s, left_s * processes * self.items[index].weight / left)

    def goals_of(self, index: int, done: Mapping[str, int]) -> dict[str, int]:
        """Return how many of each unit an item is to give: what is missing, shared by the rest."""
        item = self.items[index]
        if item.is_all or item.seeds is not None:
            return {}
        rest = sum(
            other.engine == item.engine and not other.is_all for other in self.items[index:]
        )
        missing = {
            unit: max(ceil((self.promised[unit] - done.get(unit, 0)) / rest), 1)
            for unit in UNITS[item.engine]
            if unit in self.promised
        }
        return {unit: self.sample.get(unit, count) for unit, count in missing.items()}


def shipped_campaign(
    figures: Figures, scenarios: Iterable[Scenario[Any]], engines: Iterable[str]
) -> tuple[Item, ...]:
    """Return every scenario with every engine it is made for, engine by engine.

    Those whose every order is explored come last: their size is not known, and whatever time the
    others have left is theirs.
    """
    known = list(scenarios)
    items: list[Item] = []
    for engine in engines:
        suitable = [scenario for scenario in known if engine in scenario.engines]
        complete = [scenario for scenario in suitable if figures.is_complete(scenario, engine)]
        items += [
            Item(ref=scenario.ref, engine=engine, weight=_WEIGHT[engine], is_split=False)
            for scenario in suitable
            if scenario not in complete or not figures.only_core
        ]
        items += [
            Item(ref=scenario.ref, engine=engine, is_all=True, weight=_WEIGHT_COMPLETE)
            for scenario in complete
        ]
    return tuple(sorted(items, key=lambda item: item.is_all))
