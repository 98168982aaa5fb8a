"""What every engine offers to the commands and to the tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from runtime.chaos.outcome import Finding, Moment, Tally
from runtime.chaos.scenario import Scenario

PlanT = TypeVar("PlanT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How much is to be explored; an engine stops at the first limit it meets.

    Attributes:
        is_all: explore everything there is, if that is finite; else the engine's own share of
            what is promised per change.
        seeds: sample these instead.
        budget_s: wall time after which to stop; None is unbounded.
        part: K of N, from 0: explore only this share of the work, so that N processes do it all.
        findings_max: stop a scenario after so many broken explorations.
        goals: by a tally's unit, how many of it this scenario is to give, all parts together; an
            engine may stop when it has its part of each. A unit without one: the engine decides.
        tell: called now and then with a unit and how many more of it were explored; None tells
            nobody. It returns at once and raises nothing but an interrupt.
    """

    is_all: bool = False
    seeds: range | None = None
    budget_s: float | None = None
    part: tuple[int, int] = (0, 1)
    findings_max: int = 3
    goals: Mapping[str, int] = field(default_factory=dict)
    tell: Callable[[str, int], None] | None = None


@dataclass(frozen=True, slots=True)
class Repeated:
    """One exploration that was repeated from its choices.

    Attributes:
        finding: what it broke; None if it held.
        timeline: what happened, whether it held or not.
        digest: of the whole trace.
        unused: choices that no longer come up.
    """

    finding: Finding | None
    timeline: tuple[Moment, ...]
    digest: str
    unused: frozenset[str]


class Engine(Protocol[PlanT]):
    """One way to explore a scenario."""

    @property
    def name(self) -> str:
        """`orders`, `crash`, `procs` or `sim`."""
        ...

    def explore(self, scenario: Scenario[PlanT], wanted: Wanted) -> list[Tally]:
        """Explore, and return the figures; one tally per unit that is counted.

        Raises:
            ScenarioRefused: the scenario cannot be explored as it is written.
        """
        ...

    def repeat(
        self,
        scenario: Scenario[PlanT],
        choices: Mapping[str, str],
        seed: int | None,
        until: int | None = None,
    ) -> Repeated:
        """Explore once, as these choices say; all other decisions are benign.

        Args:
            until: stop after so many entries of the timeline; None goes to the end.

        Raises:
            ScenarioRefused: as `explore`.
        """
        ...
