"""Repeats what was found: whether it comes back, and whether less of it breaks the same."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from runtime.chaos.engine import Engine
from runtime.chaos.outcome import Finding
from runtime.chaos.scenario import Scenario
from runtime.chaos.shrinking import Bounds, shrink

RUNS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Smaller:
    """What became of a finding.

    Attributes:
        finding: the smallest that was found; the one given when it does not come back.
        comes_back: the same decisions have led to the same trace.
        runs: how many explorations it took.
        is_minimal: no single decision can be left out.
    """

    finding: Finding
    comes_back: bool
    runs: int
    is_minimal: bool


def make_small(
    engine: Engine[Any],
    scenario: Scenario[Any],
    finding: Finding,
    seconds_max: float,
    now_s: Callable[[], float],
) -> Smaller:
    """Repeat a finding, then leave out of its decisions what it does not need.

    A smaller exploration counts if it breaks the same promise: another break is another finding.

    Args:
        seconds_max: how long shrinking may take; the first repetition is not counted.
        now_s: a clock that never goes back, in seconds.

    Raises:
        ScenarioRefused: the scenario cannot be explored as it is written.
    """
    first = engine.repeat(scenario, finding.choices, finding.seed)
    if first.finding is None or first.digest != finding.digest:
        return Smaller(finding, comes_back=False, runs=1, is_minimal=False)
    smallest = first.finding
    used = {name: it for name, it in finding.choices.items() if name not in first.unused}

    def fails(choices: dict[str, str]) -> bool:
        nonlocal smallest
        repeated = engine.repeat(scenario, choices, finding.seed).finding
        if repeated is None or repeated.promise != finding.promise:
            return False
        smallest = repeated
        return True

    shrunk = shrink(used, fails, Bounds(runs_max=RUNS_MAX, seconds_max=seconds_max), now_s)
    small = dataclasses.replace(smallest, choices=shrunk.choices)
    return Smaller(small, comes_back=True, runs=shrunk.runs + 1, is_minimal=shrunk.is_minimal)
