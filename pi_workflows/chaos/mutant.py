"""One process of the mutation score: `python -m pi_workflows.chaos.mutant TRIAL`.

Plants the mutation that the trial names, explores until the promise breaks that the mutation says
it breaks, takes the fault out again and repeats the same exploration: now it must hold, or the
harness would cry wolf. Says what came of it on standard output, one JSON object. Ends with its
standard input.
"""

import json
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, final

from pi_workflows.chaos.abandonment import answers_alone, end_with_input, until_abandoned
from pi_workflows.chaos.discovery import ScenarioUnknown, find
from pi_workflows.chaos.mutations import planted_mutation
from pi_workflows.chaos.noting import Noted
from pi_workflows.chaos.registry import engine
from pi_workflows.chaos.repeating import make_small
from pi_workflows.chaos.trials import Told, Trial
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Finding, ScenarioRefused
from runtime.chaos.planting import PlantingRefused
from runtime.chaos.scenario import Scenario

ONE_EACH: Final = frozenset({"orders", "sim"})
"""Engines to which a seed is one exploration, so that a hunt can go on behind a finding."""

FINDINGS_MAX: Final = 40
"""How many findings of other promises a hunt looks at where a seed is many explorations."""


def main() -> None:
    """Make the trial of the first argument."""
    trial = Trial.of_json(json.loads(sys.argv[1]))
    answer = answers_alone()
    end_with_input(lambda _: None)
    answer.write(json.dumps(try_out(trial).to_json()) + "\n")
    answer.flush()


def try_out(trial: Trial) -> Told:
    """Plant, explore, take out, repeat; see the module's text."""
    began = time.monotonic()
    try:
        return _Trying(trial, find(trial.ref)).told()
    except (ScenarioRefused, ScenarioUnknown, PlantingRefused) as refused:
        return Told(0, time.monotonic() - began, error=str(refused))


@final
class _Trying:
    """One trial."""

    def __init__(self, trial: Trial, scenario: Scenario[Any]) -> None:
        self._trial: Final = trial
        self._scenario = scenario
        self._began: Final = time.monotonic()
        self._beside: Finding | None = None

    def told(self) -> Told:
        """Make the trial."""
        before = None
        with planted_mutation(self._trial.mutation), self._noted() as planted:
            finding, explored = self._explored()
            took = time.monotonic() - self._began
            if finding is not None and self._trial.shrink_s:
                finding, before = self._made_small(finding)
        if finding is None:
            is_idle = planted is not None and self._is_idle(planted)
            return Told(explored, took, is_idle=is_idle, beside=self._beside)
        clean = engine(self._trial.engine).repeat(self._scenario, finding.choices, finding.seed)
        if clean.finding is not None:
            text = f"it breaks without the fault too: {clean.finding.complaint}"
            return Told(explored, took, error=text)
        return Told(explored, took, finding=finding, shrunk_from=before)

    @contextmanager
    def _noted(self) -> Generator[Noted | None]:
        """Note what happens in the explorations of a block, if it is to be compared."""
        if not self._trial.compares:
            yield None
            return
        noted, told = Noted(), self._scenario
        self._scenario = noted.scenario(told)
        try:
            yield noted
        finally:
            self._scenario = told

    def _explored(self) -> tuple[Finding | None, int]:
        """Explore until the first finding that counts; return it, and how many it took."""
        trial, total = self._trial, 0
        seeds = trial.seeds
        while True:
            finding, explored = self._explored_once(seeds)
            total += explored
            if finding is None or trial.counts(finding):
                return finding, total
            self._beside = self._beside or finding
            if trial.engine not in ONE_EACH and not trial.choices:
                return self._explored_once(seeds, FINDINGS_MAX)
            seeds = seeds[explored:] if seeds and not trial.choices else None
            if not seeds:
                return None, total

    def _explored_once(
        self, seeds: range | None, findings_max: int = 1
    ) -> tuple[Finding | None, int]:
        """Explore until so much has broken; return what counts, or with one at most whatever."""
        trial, exploring = self._trial, engine(self._trial.engine)
        if trial.choices:
            return exploring.repeat(self._scenario, trial.choices, None).finding, 1
        wanted = Wanted(is_all=seeds is None, seeds=seeds, findings_max=findings_max)
        tallies = exploring.explore(self._scenario, wanted)
        findings = [finding for tally in tallies for finding in tally.findings]
        found = [each for each in findings if findings_max == 1 or trial.counts(each)]
        return (found[0] if found else None), sum(tally.explored for tally in tallies)

    def _made_small(self, finding: Finding) -> tuple[Finding, int]:
        exploring, bound_s = engine(self._trial.engine), self._trial.shrink_s
        small = make_small(exploring, self._scenario, finding, bound_s, time.monotonic)
        return small.finding, len(finding.choices)

    def _is_idle(self, planted: Noted) -> bool:
        """Say whether the same happens in the same explorations without the fault."""
        with self._noted() as clean:
            self._explored()
        return clean is not None and clean.digest() == planted.digest()


if __name__ == "__main__":
    until_abandoned(main)
