"""What one process of an exploration is asked to do, and how it is told over a pipe."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from pi_workflows.protocol.canonical import JsonObject
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Finding
from runtime.chaos.tally_json import finding_json, finding_of


@dataclass(frozen=True, slots=True)
class Exploration:
    """Explore one scenario with one engine.

    Attributes:
        ref: `NAME` or `FILE::NAME`.
        item: number of the campaign's item that it is a part of; it does not travel.
    """

    ref: str
    engine: str
    wanted: Wanted
    item: int = 0

    def to_json(self) -> JsonObject:
        """Return it as a JSON object; whom to tell does not travel."""
        seeds = self.wanted.seeds
        return {
            "task": "explore",
            "ref": self.ref,
            "engine": self.engine,
            "isAll": self.wanted.is_all,
            "seeds": None if seeds is None else [seeds.start, seeds.stop],
            "budgetS": self.wanted.budget_s,
            "part": list(self.wanted.part),
            "findingsMax": self.wanted.findings_max,
            "goals": dict(self.wanted.goals),
        }


@dataclass(frozen=True, slots=True)
class Shrinking:
    """Make one finding small, and see whether it comes back at all.

    Attributes:
        seconds_max: how long it may take.
        item: as in `Exploration`.
    """

    ref: str
    finding: Finding
    seconds_max: float
    item: int = 0

    @property
    def engine(self) -> str:
        """The engine that found it."""
        return self.finding.engine

    def to_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "task": "shrink",
            "ref": self.ref,
            "finding": finding_json(self.finding),
            "secondsMax": self.seconds_max,
        }


Task = Exploration | Shrinking


def task_of(document: JsonObject, tell: Callable[[str, int], None]) -> Task:
    """Return the task of a JSON object; an exploration tells `tell` how far it is."""
    ref = cast("str", document["ref"])
    if document["task"] == "shrink":
        finding = finding_of(cast("JsonObject", document["finding"]))
        return Shrinking(ref, finding, cast("float", document["secondsMax"]))
    seeds = cast("list[int] | None", document["seeds"])
    number, of = cast("list[int]", document["part"])
    wanted = Wanted(
        is_all=cast("bool", document["isAll"]),
        seeds=None if seeds is None else range(*seeds),
        budget_s=cast("float | None", document["budgetS"]),
        part=(number, of),
        findings_max=cast("int", document["findingsMax"]),
        goals=cast("dict[str, int]", document["goals"]),
        tell=tell,
    )
    return Exploration(ref, cast("str", document["engine"]), wanted)
