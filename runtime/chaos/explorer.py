"""Goes through the orders of one scenario: all of them, or those of some seeds.

Some orders are repeated from their choices alone, on a subject of their own that has shared
nothing with another order: the digests of their traces must be equal.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, final

from runtime.chaos.choices import Benign, Choices, Replayed, Source, Systematic
from runtime.chaos.complaints import promise_of
from runtime.chaos.course import Course
from runtime.chaos.drawn import Drawn, is_repeated
from runtime.chaos.engine import Repeated, Wanted
from runtime.chaos.moves import CARRIED_OUT
from runtime.chaos.orders import Broken, Order, Stage
from runtime.chaos.outcome import Finding, ScenarioRefused, Tally
from runtime.chaos.seen import Seen
from runtime.chaos.shrinking import Bounds, seconds_for, shrink
from runtime.chaos.subject import MarksLost, Subject
from runtime.chaos.walks import Uniform, source_of
from runtime.chaos.wording import in_words

SPLIT_DEPTH: Final = 4
"""Orders that begin with the same decisions, so many of them, belong to one part of the work."""

FEW: Final = 1_000
"""Unless all is wanted: a scenario with at most so many orders is gone through completely."""

PROBES: Final = 16
"""Walks by which the number of orders is estimated, so that many of them are not begun in vain."""

SAMPLED: Final = 2_000
"""Unless all is wanted: how many orders of a larger scenario are drawn, if no goal is given."""

TOLD_AT: Final = 50
"""How many orders are played before somebody is told of them."""

SHRINKING: Final = Bounds(runs_max=300)
"""How much is spent to leave needless choices out of one finding, if the budget has as much."""


@dataclass(frozen=True, slots=True)
class Playing:
    """A scenario with the subject it is played on.

    Attributes:
        shared: stands at the beginning, without a mark.
        fresh: opens another one that does; it is played on once, and needs no marks.
        now_s: a clock that never goes back, in seconds, for budgets.
    """

    scenario: str
    engine: str
    promises: tuple[str, ...]
    stage: Stage
    shared: Subject
    fresh: Callable[[], AbstractContextManager[Subject]]
    now_s: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Played:
    """An order that was played.

    Attributes:
        broken: what ended it before its time; None if it held.
        digest: of an order whose subject is gone; None: the subject still stands at its end.
    """

    order: Order
    choices: Choices
    broken: Broken | None
    digest: str | None = None


@final
class Explorer:
    """One exploration.

    Attributes:
        tally: the figures so far.
    """

    def __init__(self, playing: Playing, wanted: Wanted) -> None:
        """Take over the subject."""
        self._playing: Final = playing
        self._wanted: Final = wanted
        self._course: Final = Course(playing.shared)
        self._seen: Final = Seen()
        self._began_s: Final = self._playing.now_s()
        self._benign_steps = 1
        self._told = 0
        self._drawn: Drawn | None = None
        self.tally: Final = Tally(playing.scenario, playing.engine, "orders")

    def explore(self, *, is_all: bool) -> Tally:
        """Go through what is wanted.

        Args:
            is_all: every order, unless seeds are wanted.

        Raises:
            ScenarioRefused: the scenario cannot be played as it is written.
        """
        self._play_benign()
        wanted, (part, parts) = self._wanted, self._wanted.part
        if wanted.seeds is not None:
            self._drawn = Drawn()
            self._draw(wanted.seeds[part::parts])
        elif is_all:
            self._systematic(None)
            if not self.tally.complete:
                # How many are left is unknown; that some are is not.
                self.tally.promised = self.tally.explored + 1
        else:
            count = wanted.goals.get(self.tally.unit, SAMPLED)
            few = max(FEW, count)
            self._drawn = Drawn()
            if self._estimate() <= 2 * few:
                self._systematic(max(1, 2 * few // parts))
            if not self.tally.complete and not self._is_over:
                self._draw(range(count)[part::parts])
        self._sum_up()
        return self.tally

    def repeat(self, choices: Mapping[str, str], until: int | None = None) -> Repeated:
        """Play one order, on a subject of its own; see `Engine.repeat`."""
        source = Replayed(choices)
        with self._playing.fresh() as subject:
            played = self._play(Course(subject), source, Seen(), until)
            digest = played.order.digest()
        finding = None
        if played.broken is not None:
            finding = self._finding(played, played.broken, digest)
        return Repeated(finding, played.order.timeline(), digest, frozenset(source.unused))

    def _play_benign(self) -> None:
        """Play the ordinary order: know its length, and what is declared."""
        with self._playing.fresh() as subject:
            played = self._play(Course(subject), Benign(), Seen())
        plan = played.order.plan
        self._benign_steps = max(1, played.order.steps)
        self.tally.fault_kinds = plan.budgets.kinds & CARRIED_OUT
        names = [*plan.always_checks, *plan.final_checks]
        self.tally.declare(plan.budgets.kinds, CARRIED_OUT, names)
        for name in names:
            self._seen.checks[name] += 0

    def _estimate(self) -> float:
        """Return about how many orders there are; exact where all walks have equal choices.

        Source: D. E. Knuth, Estimating the Efficiency of Backtrack Programs, Mathematics of
        Computation 29(129), 1975.
        """
        sizes = []
        for seed in range(PROBES):
            played = self._play_from_the_start(partial(Uniform, seed), Seen())
            sizes.append(math.prod(made.count for made in played.choices.made))
        self._course.begin_again()
        return sum(sizes) / PROBES

    @property
    def _is_over(self) -> bool:
        budget_s = self._wanted.budget_s
        if budget_s is not None and self._playing.now_s() - self._began_s >= budget_s:
            return True
        return self.tally.failed >= self._wanted.findings_max

    def _systematic(self, count_max: int | None) -> None:
        """Go depth first through this part's orders, at most so many."""
        source, (part, parts) = Systematic(), self._wanted.part
        elsewhere = Seen()
        ordinal = 0
        while not self._is_over and (count_max is None or self.tally.explored < count_max):
            is_ours = ordinal % parts == part
            played = self._play_shared(source, self._seen if is_ours else elsewhere)
            if is_ours:
                self._account(played, None)
            if not source.advance(None if is_ours else SPLIT_DEPTH):
                self.tally.complete = True
                return
            ordinal += source.kept_depth < SPLIT_DEPTH

    def _draw(self, seeds: range) -> None:
        self.tally.promised += len(seeds)
        for seed in seeds:
            if self._is_over:
                return
            source = partial(source_of, seed, self._benign_steps)
            self._account(self._play_from_the_start(source, self._seen), seed)

    def _play_shared(self, source: Systematic, seen: Seen) -> Played:
        """Play the next order of a depth-first walk from where it leaves the one before."""
        try:
            self._course.share(source.kept_depth if self.tally.explored else -1)
            return self._play(self._course, source, seen)
        except MarksLost:
            self._course.forget()
            source.again()
            return self._play_alone(source, seen)

    def _play_from_the_start(self, source: Callable[[], Source], seen: Seen) -> Played:
        """Play an order that has nothing to do with the one before."""
        try:
            self._course.begin_again()
            return self._play(self._course, source(), seen)
        except MarksLost:
            self._course.forget()
            return self._play_alone(source(), seen)

    def _play_alone(self, source: Source, seen: Seen) -> Played:
        with self._playing.fresh() as subject:
            played = self._play(Course(subject), source, seen)
            return replace(played, digest=played.order.digest())

    def _play(
        self, course: Course, source: Source, seen: Seen, until: int | None = None
    ) -> Played:
        choices = Choices(source)
        order = Order(self._playing.stage, course, choices, seen, until)
        try:
            order.run()
        except Broken as broken:
            return Played(order, choices, broken)
        except ScenarioRefused as refused:
            names = [name for actors in order.plan.actors for name in actors.names]
            raise refused.after(in_words(choices.unusual, names)) from refused
        return Played(order, choices, None)

    def _account(self, played: Played, seed: int | None) -> None:
        """Count an order; look closer at a broken one, and at some that held."""
        tally = self.tally
        tally.explored += 1
        self._tell(least=TOLD_AT)
        spent = played.order.remaining.spent
        tally.faults.update({kind: spent[kind] for kind in tally.fault_kinds if spent[kind]})
        if self._drawn is not None:
            self._drawn.note(played.choices)
        if played.broken is None and not is_repeated(tally.explored):
            return
        # The subject stands where the order has ended, so this comes first.
        digest = played.digest or played.order.digest()
        again = self.repeat(played.choices.unusual)
        if again.digest != digest:
            tally.not_deterministic.append(_named(seed, played.choices))
        if played.broken is None:
            return
        tally.broken += 1
        if len(tally.findings) < self._wanted.findings_max:
            tally.findings.append(self._smallest(played, played.broken))

    def _smallest(self, played: Played, broken: Broken) -> Finding:
        """Return a finding without any choice that it does not need."""

        def fails(choices: dict[str, str]) -> bool:
            again = self._play_from_the_start(lambda: Replayed(choices), Seen())
            return again.broken is not None and again.broken.check == broken.check

        now_s = self._playing.now_s
        spent_s = now_s() - self._began_s
        seconds = seconds_for(SHRINKING.seconds_max, self._wanted.budget_s, spent_s)
        bounds = replace(SHRINKING, seconds_max=seconds)
        shrunk = shrink(played.choices.unusual, fails, bounds, now_s)
        self._course.begin_again()  # What it holds is not what the next order shares.
        found = self.repeat(shrunk.choices).finding
        assert found is not None, "these choices were tried, or are those of the broken order"
        return found

    def _finding(self, played: Played, broken: Broken, digest: str) -> Finding:
        playing = self._playing
        return Finding(
            playing.scenario,
            playing.engine,
            promise_of(broken.complaint, playing.promises, broken.check),
            broken.complaint,
            dict(played.choices.unusual),
            None,
            played.order.timeline(),
            digest,
        )

    def _tell(self, *, least: int) -> None:
        """Tell of what was explored since the last time, if that is enough."""
        untold = self.tally.explored - self._told
        if untold >= least and self._wanted.tell is not None:
            self._wanted.tell(self.tally.unit, untold)
            self._told = self.tally.explored

    def _sum_up(self) -> None:
        self._tell(least=1)
        tally, seen = self.tally, self._seen
        tally.pairs = seen.pairs
        tally.checks = seen.checks
        names = sorted(seen.points)
        tally.pairs_feasible = len(seen.pairs)
        if not tally.complete:
            tally.pairs_feasible = sum(
                len(seen.points[one]) * len(seen.points[other])
                for index, one in enumerate(names)
                for other in names[index + 1 :]
            )
        tally.seconds = self._playing.now_s() - self._began_s
        if self._drawn is not None:
            self._drawn.tell(tally, self._wanted.part[1])


def _named(seed: int | None, choices: Choices) -> str:
    return f"seed {seed}" if seed is not None else f"order {choices.unusual}"
