"""The engine `procs`: real processes on one real database file, in every order of their points.

Each actor is played by a process of its own with its own connections (`procs_subject.py`). The
controller lets one of them go at a time (`runtime/chaos/procs_order.py`), kills and stops them as
the choices say, serves their clock, and looks at what is committed through a reader of its own.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Final, final

from pi_workflows.chaos.live_state import refuse_live_state
from pi_workflows.chaos.procs_stage import Stage, opened
from pi_workflows.chaos.procs_store import ALL_POINTS, FEWEST_POINTS
from pi_workflows.chaos.scene import Scene
from runtime.chaos.choices import Benign, Choices, Replayed, Source
from runtime.chaos.complaints import promise_of
from runtime.chaos.drawn import Drawn, is_repeated
from runtime.chaos.engine import Repeated, Wanted
from runtime.chaos.outcome import Finding, Tally
from runtime.chaos.procs_order import Played
from runtime.chaos.procs_sampling import Sampled, Shared, Skipped, estimated
from runtime.chaos.scenario import Scenario
from runtime.chaos.walks import Uniform, source_of

ORDERS: Final = "process orders"
KILLS: Final = "kills"

SAMPLED: Final = 200
"""Orders that are drawn of a scenario if nobody says how many."""

KILLED: Final = 100
KILLED_CORE: Final = 1_000
"""Orders with a kill that are drawn if nobody says how many."""

KILLS_SHARE: Final = 0.4
"""Of the time that there is; what is left of it is the others'."""

DRAWS_PER_KILL: Final = 10
"""An order in which nobody lives until the drawn step is drawn again, so often at most."""

PROBES: Final = 60
ORDERS_MAX: Final = 50_000
"""More orders than this are not gone through; it is estimated by some that are probed."""

KINDS: Final[frozenset[str]] = frozenset({"clock_jump", "kill", "pause", "drop", "duplicate"})
"""What can go wrong here."""


@final
class ProcsEngine:
    """Explores scenes with processes; see `runtime.chaos.engine.Engine`."""

    name: Final = "procs"

    def __init__(self, folder: Path | None = None) -> None:
        """Put databases into a new folder in `folder`.

        Args:
            folder: None means memory, or the place for temporary files.

        Raises:
            ScenarioRefused: it is the live state directory or holds it.
        """
        if folder is not None:
            refuse_live_state(folder)
        self._folder: Final = folder

    def explore(self, scenario: Scenario[Scene], wanted: Wanted) -> list[Tally]:
        """Explore orders, and orders with a kill if the scenario allows one.

        With `is_all` the orders are all there are without a kill or a pause, unless there are
        too many; otherwise, and for the kills, they are drawn.

        Raises:
            ScenarioRefused: it cannot be explored as it is written.
        """
        with _opened(scenario, self._folder) as stage:
            exploring = _Exploring(scenario, stage, wanted)
            # Kills come first, or a short budget would be spent before them.
            if stage.budgets.kill and wanted.seeds is None:
                exploring.kills()
            if wanted.is_all and wanted.seeds is None and exploring.is_finite:
                exploring.every_order()
            else:
                exploring.samples()
            return exploring.tallies[::-1]

    def repeat(
        self,
        scenario: Scenario[Scene],
        choices: Mapping[str, str],
        seed: int | None,  # noqa: ARG002 - the choices alone decide
        until: int | None = None,
    ) -> Repeated:
        """Play one order again; see `runtime.chaos.engine.Engine`."""
        source = Replayed(choices)
        with _opened(scenario, self._folder) as stage:
            made = Choices(source)
            played = stage.play(made, stage.budgets, until=until)
        return Repeated(
            None if played.complaint is None else _finding(scenario, played, made),
            tuple(played.timeline),
            played.digest,
            frozenset(source.unused),
        )


@final
class _Exploring:
    """One exploration of one scenario.

    Attributes:
        tallies: the figures so far, the last ones last.
    """

    def __init__(self, scenario: Scenario[Scene], stage: Stage, wanted: Wanted) -> None:
        self._scenario: Final = scenario
        self._stage: Final = stage
        self._wanted: Final = wanted
        self._peaceful: Final = replace(stage.budgets, kill=0, pause=0)
        self._began_s: Final = time.monotonic()
        self.tallies: Final[list[Tally]] = []
        self._drawn: Drawn | None = None

    @property
    def is_finite(self) -> bool:
        """Whether all orders without kills and pauses are few enough to go through them."""
        probed = [Choices(Uniform(seed)) for seed in range(PROBES)]
        for choices in probed:
            self._stage.play(choices, self._peaceful)
        return estimated([choices.made for choices in probed]) <= ORDERS_MAX

    def every_order(self) -> None:
        """Go depth first through every order of this part, without kills and pauses."""
        # What is left out here, the orders with a kill have, if there are any.
        left_out = frozenset() if self._stage.budgets.kill else frozenset({"pause"})
        tally = self._begin(ORDERS, KINDS - {"kill", "pause"}, left_out)
        source = Shared(self._wanted.part)
        while not self._is_over(tally):
            choices = Choices(source)
            try:
                played = self._stage.play(choices, self._peaceful)
            except Skipped:
                pass
            else:
                if source.is_mine:
                    self._account(tally, played, choices)
            if not source.advance():
                tally.complete = True
                break
        if not tally.complete:
            # How many are left is unknown; that some are is not.
            tally.promised = tally.explored + 1
        self._end(tally)

    def samples(self) -> None:
        """Draw orders in which anything may go wrong that the scenario allows.

        Odd seeds give the processes priorities (PCT), even ones draw each step.
        """
        tally = self._begin(ORDERS, KINDS)
        self._drawn = Drawn()
        seeds = self._wanted.seeds
        number = self._wanted.goals.get(ORDERS, SAMPLED)
        steps = self._benign_steps()
        self._draw(
            tally,
            range(number) if seeds is None else seeds,
            lambda seed: source_of(seed, steps) if seed % 2 else Sampled(seed),
        )

    def kills(self) -> None:
        """Draw orders in which somebody is killed, as likely early as late.

        One that has ended before the drawn step is not counted, and another is drawn.
        """
        tally = self._begin(KILLS, frozenset({"kill"}))
        self._drawn = Drawn()
        number = KILLED_CORE if self._scenario.core else KILLED
        part, parts = self._wanted.part
        tally.promised = len(range(self._wanted.goals.get(KILLS, number))[part::parts])
        steps = self._benign_steps()
        for seed in islice(count(part, parts), tally.promised * DRAWS_PER_KILL):
            if self._is_over(tally) or tally.explored >= tally.promised:
                break
            choices = Choices(Sampled(seed, kill_within=steps))
            played = self._stage.play(choices, self._stage.budgets)
            if played.faults["kill"] or played.complaint is not None:
                self._account(tally, played, choices)
        self._end(tally)

    def _benign_steps(self) -> int:
        """Return how many decisions the ordinary order has, at least 1."""
        choices = Choices(Benign())
        self._stage.play(choices, self._stage.budgets)
        return max(1, len(choices.made))

    def _draw(self, tally: Tally, seeds: range, source: Callable[[int], Source]) -> None:
        part, parts = self._wanted.part
        mine = seeds[part::parts]
        tally.promised += len(mine)
        for seed in mine:
            if self._is_over(tally):
                break
            choices = Choices(source(seed))
            self._account(tally, self._stage.play(choices, self._stage.budgets), choices)
        self._end(tally)

    def _begin(
        self, unit: str, kinds: frozenset[str], left_out: frozenset[str] = frozenset()
    ) -> Tally:
        tally = Tally(self._scenario.name, ProcsEngine.name, unit)
        self._drawn = None
        declared = self._stage.budgets.kinds
        tally.fault_kinds = declared & kinds
        tally.declare(declared, KINDS - left_out, self._stage.checks)
        self.tallies.append(tally)
        return tally

    def _end(self, tally: Tally) -> None:
        tally.checks.update(self._stage.checks)
        for name in self._stage.checks:
            self._stage.checks[name] = 0
        self._stage.end_database()
        for damage in self._stage.damages:
            broken = Played(complaint=str(damage), promise=damage.invariant)
            tally.broken += 1
            tally.findings.append(_finding(self._scenario, broken, Choices(Benign())))
        self._stage.damages.clear()
        if self._drawn is not None:
            self._drawn.tell(tally, self._wanted.part[1])
        tally.pairs_feasible = len(tally.pairs) if tally.complete else None
        tally.seconds = (
            time.monotonic() - self._began_s - sum(other.seconds for other in self.tallies)
        )

    def _is_over(self, tally: Tally) -> bool:
        budget_s = self._wanted.budget_s
        if budget_s is not None:
            share = KILLS_SHARE if tally.unit == KILLS else 1.0
            if time.monotonic() - self._began_s >= budget_s * share:
                return True
        return tally.failed >= self._wanted.findings_max

    def _account(self, tally: Tally, played: Played, choices: Choices) -> None:
        """Count an order; play a broken one again, and some that held, on a file of their own."""
        tally.explored += 1
        tally.faults.update(played.faults)
        tally.pairs |= played.pairs
        if self._drawn is not None:
            self._drawn.note(choices)
        if self._wanted.tell is not None:
            self._wanted.tell(tally.unit, 1)
        if played.complaint is not None:
            tally.broken += 1
            tally.findings.append(_finding(self._scenario, played, choices))
        elif not is_repeated(tally.explored):
            return
        kept = Choices(Replayed(choices.unusual))
        again = self._stage.play(kept, self._stage.budgets, on_new_file=True)
        if again.digest != played.digest:
            tally.not_deterministic.append(f"order {choices.unusual}")


def _opened(scenario: Scenario[Scene], folder: Path | None) -> AbstractContextManager[Stage]:
    """Open the scenario's stage: the points depend on it alone, so that choices fit again."""
    return opened(scenario, FEWEST_POINTS if scenario.core else ALL_POINTS, folder)


def _finding(scenario: Scenario[Scene], played: Played, choices: Choices) -> Finding:
    return Finding(
        scenario.name,
        ProcsEngine.name,
        promise_of(played.complaint or "", scenario.promises, played.promise),
        played.complaint or "",
        dict(choices.unusual),
        None,
        tuple(played.timeline),
        played.digest,
    )
