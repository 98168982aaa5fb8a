"""What a marked test does: explores in this process, makes a break small, keeps it, says it."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pi_workflows.chaos.campaign import FINITE, SAMPLED
from pi_workflows.chaos.exploration import REPLAY, replay_name
from pi_workflows.chaos.pytest_marker import Marked
from pi_workflows.chaos.registry import SCENARIOS, engine
from pi_workflows.chaos.repeating import Smaller, make_small
from pi_workflows.chaos.spreading import monotonic_s
from pi_workflows.chaos.versions import versions
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import ScenarioRefused, Verdict
from runtime.chaos.replay_file import ReplayFile
from runtime.chaos.report import Failure, Report
from runtime.chaos.report_text import figures_text, report_text, verdict_line
from runtime.chaos.scenario import Scenario
from runtime.chaos.shrinking import seconds_for

_FINDINGS_MAX: Final = 1


@dataclass(frozen=True, slots=True)
class MarkedResult:
    """What came of it.

    Attributes:
        complaint: the report of what went wrong; "" when everything held.
        figures: a table of what was explored.
    """

    complaint: str
    figures: str
    blind_spots: list[str]


def explore(marked: Marked, folder: Path, shrink_s: float) -> MarkedResult:
    """Explore a scenario as a marker asks for.

    Args:
        folder: where a replay file goes; made when there is one.
        shrink_s: how long a break may be made smaller.
    """
    scenario = marked.scenario
    explorer = engine(marked.engine or scenario.engines[0])
    wanted = Wanted(
        is_all=marked.is_all,
        seeds=marked.seeds,
        budget_s=marked.budget_s,
        findings_max=_FINDINGS_MAX,
    )
    began_s = monotonic_s()
    try:
        tallies = explorer.explore(scenario, wanted)
    except ScenarioRefused as refused:
        return MarkedResult(f"{scenario.name}: {refused}", "", [])
    failures = []
    for tally in tallies:
        tally.all_promised = marked.is_all and tally.unit in FINITE
        if marked.seeds is not None and tally.unit in SAMPLED:
            tally.promised = len(marked.seeds)
        for finding in tally.findings[:_FINDINGS_MAX]:
            seconds = seconds_for(shrink_s, marked.budget_s, monotonic_s() - began_s)
            small = make_small(explorer, scenario, finding, seconds, monotonic_s)
            if not small.comes_back:
                tally.not_deterministic.append(
                    f"the break of {finding.promise} does not come back"
                )
            failures.append(_kept(scenario, small, folder, len(finding.choices)))
    report = Report(tallies=tallies, failures=failures, versions=versions())
    complaint = "" if report.verdict is Verdict.HELD else _complaint(report)
    return MarkedResult(complaint, figures_text(report), report.blind_spots)


def _complaint(report: Report) -> str:
    """Return the report, what has come of it first: of a failed test many see one line only."""
    return f"{verdict_line(report)}\n\n{report_text(report)}"


def ref_of(scenario: Scenario[Any]) -> str:
    """Return how the command line finds a scenario: `NAME`, or `FILE::NAME` from here."""
    if SCENARIOS.get(scenario.name) is scenario:
        return scenario.name
    file = scenario.place.rpartition(":")[0]
    return f"{os.path.relpath(file)}::{scenario.name}"


def _kept(scenario: Scenario[Any], small: Smaller, folder: Path, was: int) -> Failure:
    path = folder / replay_name(small.finding)
    ReplayFile.of(small.finding, ref_of(scenario), versions()).write(path)
    replay = f"{REPLAY} {shlex.quote(os.path.relpath(path))}"
    is_cut_short = small.comes_back and not small.is_minimal
    return Failure(small.finding, replay, was, is_cut_short)
