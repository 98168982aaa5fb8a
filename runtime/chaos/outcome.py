"""What an exploration came to: moments, findings, and the figures of an engine."""

from collections import Counter
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Self

from runtime.chaos.complaints import is_library

DRAWN: Final = frozenset({"orders", "process orders", "kills", "seeds"})
"""Units of which each seed gives one, be it another's too: so many seeds are promised."""

_ORDERS: Final = frozenset({"orders", "process orders"})


class Verdict(IntEnum):
    """How a chaos command ends; the value is its exit code."""

    HELD = 0
    VIOLATED = 1
    NOT_DETERMINISTIC = 2
    BUDGET_ENDED = 3


class PromiseBroken(AssertionError):
    """An invariant does not hold."""


class Misused(TypeError):
    """A handle was given what it cannot use; a mistake of whoever has called it."""


class ScenarioRefused(Exception):
    """A scenario cannot be explored as it is written; the text names the line and the remedy."""

    def after(self, decisions: Sequence[str]) -> Self:
        """Return the same, with what was unusual before it came to that."""
        return type(self)(f"{self} Before that: {'; '.join(decisions)}.") if decisions else self

    @classmethod
    def foreign_await(cls, actor: str, coroutine: Coroutine[Any, Any, object]) -> Self:
        """Return the refusal of an actor that awaits something the engine cannot order."""
        frame = getattr(coroutine, "cr_frame", None)
        inner: Any = coroutine
        while getattr(inner, "cr_await", None) is not None and hasattr(inner, "cr_frame"):
            if inner.cr_frame is not None and not is_library(inner.cr_frame.f_code.co_filename):
                frame = inner.cr_frame
            inner = inner.cr_await
        place = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}: "
        return cls(
            f"{place}{actor} awaits something the harness cannot order;"
            " await only what its handle offers (do, sync, sleep, …)."
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of a timeline.

    Attributes:
        at_ms: simulated milliseconds since the exploration began.
        lane: who: an actor's name, "clock", "disk", "faults", "check".
        what: a few words: "claim", "killed", "+11 s".
        result: what came of it, in a few words; "" when there is nothing to say.
        generation: of the lease it was done under; None without one.
    """

    at_ms: int
    lane: str
    what: str
    result: str = ""
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that was broken, and how to see it again.

    Attributes:
        promise: "P3", or the name of the invariant where the scenario names no promise.
        complaint: the invariant's own words, one line.
        choices: the unusual decisions, by name.
        seed: what the rest was drawn from; None where choices alone decide.
        timeline: what happened, in order, to the break.
        digest: of the whole trace; the same choices must give the same.
    """

    scenario: str
    engine: str
    promise: str
    complaint: str
    choices: dict[str, str]
    seed: int | None
    timeline: tuple[Moment, ...]
    digest: str


@dataclass(slots=True)
class Tally:
    """The figures of one engine on one scenario; tallies of parts are added up with `add`.

    Attributes:
        unit: what is counted: "orders", "power-cut states", "double faults", "I/O errors",
            "workloads", "process orders", "kills", "seeds".
        explored: how many of them were run and checked.
        distinct: how many of them differed at least; None where each does.
        keys: what tells apart explorations that another part may have too; empty where there is
            no other part, or none that could.
        promised: how many there should be at least, unless there are fewer; 0 promises none.
        complete: True only if every possible one was explored.
        all_promised: every possible one is promised, however many that are.
        is_shared: every part did its share of each of them, one after the other: there are as
            many as the part has that did the fewest.
        faults: how often each kind of fault really happened.
        fault_kinds: the kinds that were asked for; one that never fired is reported.
        declared: the kinds that the scenario allows.
        idle: those of them that nothing here could have brought about.
        is_unchecked: the scenario declares no invariant at all.
        reached: at how many places of the first course of events every fault was put.
        places: how many places there are in that one; None when unknown.
        examined: how many of the distinct ones went through everything there is to check, where
            those that cannot be told apart go that way once; None where each does.
        pairs: pairs of places "A at p | B at q" that were seen at once.
        pairs_feasible: how many such pairs there can be at most; None when unknown.
        checks: how often each invariant ran; one that never ran is reported.
        findings: broken promises, the first few.
        broken: how many explorations broke a promise.
        not_deterministic: names of explorations that went otherwise when repeated.
        seconds: wall time, of all parts added up.
    """

    scenario: str
    engine: str
    unit: str
    explored: int = 0
    distinct: int | None = None
    keys: set[int] = field(default_factory=set)
    promised: int = 0
    complete: bool = False
    all_promised: bool = False
    is_shared: bool = False
    faults: Counter[str] = field(default_factory=Counter)
    fault_kinds: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    is_unchecked: bool = False
    reached: int = 0
    places: int | None = None
    examined: int | None = None
    pairs: set[str] = field(default_factory=set)
    pairs_feasible: int | None = None
    checks: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    broken: int = 0
    not_deterministic: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def declare(
        self, kinds: frozenset[str], carried_out: frozenset[str], checks: Collection[str]
    ) -> None:
        """Note what the scenario declares.

        Args:
            kinds: the faults that it allows.
            carried_out: those that the engine can bring about, of whatever scenario.
            checks: names of its invariants.
        """
        self.declared, self.idle = kinds, kinds - carried_out
        self.is_unchecked = not checks

    def add(self, part: "Tally") -> None:
        """Add the figures of another part of the same work; complete only if both parts are."""
        if self.is_shared:
            self.explored = min(self.explored, part.explored)
            self.promised = max(self.promised, part.promised)
        else:
            self.explored += part.explored
            self.promised += part.promised
        if self.keys or part.keys:
            self.keys |= part.keys
            self.distinct = len(self.keys)
        elif part.distinct is not None:
            self.distinct = (self.distinct or 0) + part.distinct
        self.complete = self.complete and part.complete
        self.faults += part.faults
        self.fault_kinds |= part.fault_kinds
        self.declared |= part.declared
        self.idle |= part.idle
        self.is_unchecked = self.is_unchecked or part.is_unchecked
        self.reached += part.reached
        self.places = _sum(self.places, part.places)
        self.examined = _sum(self.examined, part.examined)
        self.pairs |= part.pairs
        if self.pairs_feasible is not None:
            self.pairs_feasible = max(self.pairs_feasible, part.pairs_feasible or 0)
            self.pairs_feasible = max(self.pairs_feasible, len(self.pairs))
        self.checks.update(part.checks)  # += would forget one that never ran.
        self.findings += part.findings
        self.broken += part.broken
        self.not_deterministic += part.not_deterministic
        self.seconds += part.seconds

    @property
    def verdict(self) -> Verdict:
        """Return the worst that happened."""
        if self.not_deterministic:
            return Verdict.NOT_DETERMINISTIC
        if self.broken:
            return Verdict.VIOLATED
        is_enough = not self.all_promised and self.done >= self.promised
        return Verdict.HELD if self.complete or is_enough else Verdict.BUDGET_ENDED

    @property
    def failed(self) -> int:
        """Return how many broke a promise or went otherwise when repeated: one can do both."""
        return max(self.broken, len(self.not_deterministic))

    @property
    def done(self) -> int:
        """Return how many count towards what is promised."""
        if self.distinct is None or self.unit in DRAWN:
            return self.explored
        return self.distinct

    @property
    def owed(self) -> str:
        """Return how many are promised: a number, or "all"."""
        return "all" if self.all_promised else f"{self.promised:,}"

    @property
    def blind_spots(self) -> list[str]:
        """Return what could not have failed: a check that cannot fail is a defect.

        Of an exploration that has broken something there is none: it was left early.
        """
        if self.broken:
            return []
        spots = [f"invariant {name} never ran" for name, ran in self.checks.items() if not ran]
        if self.is_unchecked:
            spots.append("no invariant is declared: nothing of its own can be broken")
        spots += [
            f"fault {kind} never fired" for kind in sorted(self.fault_kinds - set(+self.faults))
        ]
        spots += [
            f"fault {kind} was not carried out by {self.engine}" for kind in sorted(self.idle)
        ]
        if self.unit == "orders" and self.complete and self.explored == 1:
            spots.append("there is one order only")
        elif self.unit in _ORDERS and self.distinct == 1 < self.explored:
            spots.append("one order only was seen")
        return spots


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)
