"""One process of the mutation score: `python -m pi_workflows.chaos.mutant TRIAL`.

Plants the mutation that the trial names, explores until something breaks, takes the fault out
again and repeats the same exploration: now it must hold, or the harness would cry wolf. Says what
came of it on standard output, one JSON object. Ends with its standard input.
"""

import _thread
import json
import os
import sys
import threading
import time
from contextlib import ExitStack
from typing import Any, Final

from pi_workflows.chaos.discovery import ScenarioUnknown, find
from pi_workflows.chaos.mutations import planted_mutation
from pi_workflows.chaos.registry import engine
from pi_workflows.chaos.trials import Told, Trial
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Finding, ScenarioRefused
from runtime.chaos.planting import PlantingRefused
from runtime.chaos.scenario import Scenario

ABANDONED: Final = 3
GRACE_S: Final = 2.0
"""How long what runs may take to clean up when nobody waits for it any more."""


def main() -> None:
    """Make the trial of the first argument."""
    trial = Trial.of_json(json.loads(sys.argv[1]))
    # Nothing that a scenario prints may get into the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_end_with_input, daemon=True).start()
    answer.write(json.dumps(try_out(trial).to_json()) + "\n")
    answer.flush()


def try_out(trial: Trial) -> Told:
    """Plant, explore, take out, repeat; see the module's text."""
    began = time.monotonic()
    try:
        scenario = find(trial.ref)
        finding, explored = _hunt(trial, scenario)
        seconds = time.monotonic() - began
        if finding is None:
            return Told(explored, seconds)
        clean = engine(trial.engine).repeat(scenario, finding.choices, finding.seed)
    except (ScenarioRefused, ScenarioUnknown, PlantingRefused) as refused:
        return Told(0, time.monotonic() - began, error=str(refused))
    if clean.finding is not None:
        text = f"it breaks without the fault too: {clean.finding.complaint}"
        return Told(explored, seconds, error=text)
    return Told(explored, seconds, finding=finding)


def _hunt(trial: Trial, scenario: Scenario[Any]) -> tuple[Finding | None, int]:
    """Explore with the fault in place; return the first finding and how many it took."""
    with ExitStack() as fault:
        fault.enter_context(planted_mutation(trial.mutation))
        exploring = engine(trial.engine)
        if trial.choices:
            found = exploring.repeat(scenario, trial.choices, None).finding
            return found, 1
        wanted = Wanted(is_all=trial.seeds is None, seeds=trial.seeds, findings_max=1)
        tallies = exploring.explore(scenario, wanted)
    findings = [finding for tally in tallies for finding in tally.findings]
    return (findings[0] if findings else None), sum(tally.explored for tally in tallies)


def _end_with_input() -> None:
    sys.stdin.read()
    _thread.interrupt_main()
    time.sleep(GRACE_S)
    os._exit(ABANDONED)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.stderr.flush()
        os._exit(ABANDONED)
