"""The mutation score: every planted fault has to be found, or the harness proves nothing.

Each mutation is tried in a process of its own, so that nothing of it is left anywhere.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, final

from pi_workflows.chaos.mutation import Mutation
from pi_workflows.chaos.mutations import MUTATIONS, known_mutation
from pi_workflows.chaos.trials import Told, Trial
from runtime.chaos.outcome import Verdict
from runtime.chaos.scenario import Scenario

PROGRAM: Final = "pi_workflows.chaos.mutant"

TRIAL_S_MAX: Final = 300.0
"""Wall time after which a trial is given up: nothing was found."""

TRIAL_FRESH_S_MAX: Final = 900.0
"""The same for a hunt with fresh seeds."""

SEEDS_FRESH: Final = MappingProxyType({"orders": 400, "procs": 400, "crash": 2, "sim": 200})
"""How many fresh seeds a mutation is hunted with before it counts as one that survived.

To the engine `crash` a seed is an order of commands, with all the power cuts and faults there."""

SEEDS_OWN: Final = 400
"""How many seeds a scenario of a user's own gets to notice a mutation."""

_SAID_CHARS: Final = 400


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutation that was tried."""

    mutation: Mutation
    trial: Trial
    told: Told

    @property
    def is_caught(self) -> bool:
        """Whether it was found."""
        return self.told.is_caught

    @property
    def has_survived(self) -> bool:
        """Whether nothing has noticed it, though it made a difference."""
        return not self.told.is_caught and not self.told.is_idle


@dataclass(frozen=True, slots=True)
class MutationResult:
    """What a score consists of.

    Attributes:
        judged: in the order of the catalogue.
        median_max: how many explorations a catch may take in the middle; None promises nothing.
    """

    judged: tuple[Judged, ...]
    median_max: float | None = None

    @property
    def survivors(self) -> list[Judged]:
        """Return those that nothing has noticed."""
        return [each for each in self.judged if each.has_survived]

    @property
    def caught(self) -> list[Judged]:
        """Return those that were found."""
        return [each for each in self.judged if each.is_caught]

    @property
    def score(self) -> float:
        """Return the share that was caught of those that made a difference, from 0 to 1."""
        tried = len(self.caught) + len(self.survivors)
        return len(self.caught) / tried if tried else 0.0

    @property
    def median(self) -> float | None:
        """Return the median of how many explorations a catch took; None without any."""
        took = [each.told.explored for each in self.caught]
        return statistics.median(took) if took else None

    @property
    def is_late(self) -> bool:
        """Whether the catches took more explorations than they may."""
        return self.median_max is not None and (self.median or 0) > self.median_max

    @property
    def verdict(self) -> Verdict:
        """Return `VIOLATED` when one has survived, or when none was found at all.

        Else `BUDGET_ENDED` when all were found, and too late.
        """
        if self.survivors or not self.caught:
            return Verdict.VIOLATED
        return Verdict.BUDGET_ENDED if self.is_late else Verdict.HELD


def mutate(
    names: Sequence[str],
    jobs: int,
    report: Callable[[Judged], None],
    *,
    fresh_from: int | None = None,
    shrink_s: float = 0.0,
) -> MutationResult:
    """Try mutations of the product on the shipped scenarios, and tell of each that is judged.

    Args:
        names: of the catalogue; none means all.
        jobs: processes at a time.
        report: called from this thread.
        fresh_from: hunt with seeds from here on instead of where a mutation is known to be
            found; None for the known places.
        shrink_s: how long each finding may be made smaller; 0 leaves it as it is.

    Raises:
        MutationUnknown: a name is not of the catalogue.
    """
    chosen = [known_mutation(name) for name in names] or list(MUTATIONS.values())
    trials = [(each, _trial(each, fresh_from, shrink_s)) for each in chosen]
    bound_s = TRIAL_S_MAX if fresh_from is None else TRIAL_FRESH_S_MAX
    return _Trials(jobs, bound_s).run(trials, report)


def mutate_scenario(
    scenario: Scenario[Any], jobs: int, report: Callable[[Judged], None]
) -> MutationResult:
    """Try on a scenario of a user's own the mutations that any scenario of its kind could notice.

    One that survives has changed what happens, and none of the scenario's invariants has noticed.
    One that makes no difference is not counted: nothing in the scenario depends on it.
    """
    trials = [
        (
            each,
            Trial(
                mutation=each.name,
                ref=scenario.ref,
                engine=scenario.engines[0],
                seeds=range(SEEDS_OWN),
                compares=True,
            ),
        )
        for each in MUTATIONS.values()
        if scenario.engines[0] in each.general
    ]
    return _Trials(jobs).run(trials, report)


def _trial(mutation: Mutation, fresh_from: int | None, shrink_s: float) -> Trial:
    caught = mutation.caught
    seeds, choices = caught.seeds, caught.choices
    if fresh_from is not None:
        seeds, choices = range(fresh_from, fresh_from + SEEDS_FRESH[caught.engine]), {}
    return Trial(
        mutation=mutation.name,
        ref=caught.scenario,
        engine=caught.engine,
        promise=mutation.promise,
        seeds=seeds,
        choices=choices,
        shrink_s=shrink_s,
    )


@final
class _Trials:
    """Trials under way, each in a process of its own."""

    def __init__(self, jobs: int, seconds_max: float = TRIAL_S_MAX) -> None:
        self._jobs: Final = max(jobs, 1)
        self._seconds_max: Final = seconds_max
        self._children: Final[set[subprocess.Popen[str]]] = set()

    def run(
        self, trials: Sequence[tuple[Mutation, Trial]], report: Callable[[Judged], None]
    ) -> MutationResult:
        """Make all trials; an error, or an interrupt, ends those that are under way."""
        judged: dict[str, Judged] = {}
        with ThreadPoolExecutor(max_workers=self._jobs) as pool:
            running = {pool.submit(self._try, trial): (each, trial) for each, trial in trials}
            try:
                for done in as_completed(running):
                    mutation, trial = running[done]
                    judged[mutation.name] = Judged(mutation, trial, done.result())
                    report(judged[mutation.name])
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for child in list(self._children):
                    child.kill()
                raise
        return MutationResult(tuple(judged[mutation.name] for mutation, _ in trials))

    def _try(self, trial: Trial) -> Told:
        """Make a trial; its process ends when this one does."""
        read_end, held = os.pipe()
        try:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", PROGRAM, json.dumps(trial.to_json())],
                stdin=read_end,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self._children.add(child)
            try:
                return _answer(child, self._seconds_max)
            finally:
                self._children.discard(child)
        finally:
            os.close(read_end)
            os.close(held)


def _answer(child: subprocess.Popen[str], seconds_max: float) -> Told:
    """Wait for what the process of a trial says; kill one that says nothing."""
    began = time.monotonic()
    try:
        answer, said = child.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return Told(0, seconds_max, error=f"it has not ended after {seconds_max:g} s")
    if child.returncode or not answer:
        last = (said.strip().splitlines() or [f"it ended with {child.returncode}"])[-1]
        return Told(0, time.monotonic() - began, error=last[:_SAID_CHARS])
    return Told.of_json(json.loads(answer))
