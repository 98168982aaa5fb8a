"""What `chaos run` does: plans, explores with all cores, shows how far it is, reports."""

import contextlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Any, Final

from pi_workflows.chaos.campaign import (
    NIGHTLY,
    PER_CHANGE,
    Campaign,
    Item,
    shipped_campaign,
)
from pi_workflows.chaos.discovery import ScenarioUnknown, find_all
from pi_workflows.chaos.exploration import CarryingOut
from pi_workflows.chaos.registry import SCENARIOS, engine_names
from pi_workflows.chaos.spreading import ExploringFailed, TaskRefused, Terminated, cores
from pi_workflows.cli import output
from pi_workflows.cli.chaos_options import ReportTo
from pi_workflows.cli.chaos_progress import (
    ExplorationProgress,
    ItemLines,
    LiveFigures,
    Unshown,
)
from pi_workflows.cli.context import usage_problem
from pi_workflows.client.errors import ClientError
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from runtime.chaos.junit import junit_text
from runtime.chaos.report import Report, report_json
from runtime.chaos.report_text import WIDTH, failure_text, figures_text, report_text
from runtime.chaos.scenario import Scenario

_WIDTH_MIN: Final = 40
"""Nothing can be drawn in less, whatever COLUMNS says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says, checked for what excludes what.

    Attributes:
        names: () is every shipped scenario.
        engines: () is the first that a scenario is made for, or all without a name.
        failures: folder for replay files.
    """

    names: tuple[str, ...]
    engines: tuple[str, ...]
    is_all: bool
    seeds: range | None
    budget_s: float | None
    is_nightly: bool
    jobs: int | None
    failures: Path


def explore(asked: Asked, reports: Sequence[ReportTo], *, as_json: bool) -> int:
    """Carry it out and print the reports; return the verdict as an exit code.

    Raises:
        ClientError: a scenario is unknown or refused, or a process of ours has ended.
    """
    wanted = [*reports, *([ReportTo("json", None)] if as_json else [])]
    if not any(report.file is None for report in wanted):
        wanted.append(ReportTo("text", None))
    if sum(report.file is None for report in wanted) > 1:
        raise usage_problem("one report goes to standard output; give the others a :FILE")
    campaign = campaign_of(asked)
    progress = _progress(campaign, wanted)
    carrying = CarryingOut(campaign, asked.jobs or cores(), progress, asked.failures)
    try:
        with progress, _for_users():
            carrying.run()
    except KeyboardInterrupt as stopped:
        by = Signals.SIGTERM if isinstance(stopped, Terminated) else Signals.SIGINT
        return _stopped(carrying.report(by), by, wanted)
    except ClientError:
        if (until_then := carrying.report()).tallies:
            _tell_until_then("ended by an error: every process has ended", until_then)
        raise
    report = carrying.report()
    for to in wanted:
        _write(report, to)
    return int(report.verdict)


@contextmanager
def _for_users() -> Iterator[None]:
    """Turn what can go wrong with an exploration into the error of a command."""
    try:
        yield
    except TaskRefused as refused:
        raise usage_problem(str(refused)) from refused
    except ExploringFailed as failed:
        raise ClientError(
            str(failed),
            code=ErrorCode.INTERNAL,
            exit_code=ExitCode.FAILED,
            detail=failed.detail,
        ) from failed
    except BrokenPipeError:
        raise
    except OSError as error:
        raise usage_problem(f"{error.filename or 'a process'}: {error.strerror}") from error


def _stopped(report: Report, by: Signals, wanted: Sequence[ReportTo]) -> int:
    """Tell what there was until a signal came, and write the reports that are not for people."""
    how = "interrupted" if by is Signals.SIGINT else "terminated"
    _tell_until_then(f"{how}: every process has ended", report)
    for to in wanted:
        if (to.format, to.file) != ("text", None):
            _write(report, to)
    return report.exit_code


def _tell_until_then(why: str, report: Report) -> None:
    output.tell(f"\n{why}; until then:")
    output.tell(figures_text(report))
    for failure in report.failures:
        output.tell("\n" + failure_text(failure, width()))


def campaign_of(asked: Asked) -> Campaign:
    """Return what is to be explored.

    Raises:
        ClientError: a scenario is unknown, or none is made for a wanted engine.
    """
    installed = engine_names()
    missing = [engine for engine in asked.engines if engine not in installed]
    if missing and not set(asked.engines) & set(installed):
        raise usage_problem(f"the engine {missing[0]} is not installed")
    if not asked.names:
        figures = NIGHTLY if asked.is_nightly else PER_CHANGE
        engines = [it for it in installed if not asked.engines or it in asked.engines]
        items = shipped_campaign(figures, SCENARIOS.values(), engines)
        promised = figures.promised_by(engines)
        return Campaign(
            items=items, promised=promised, sample=figures.sample, budget_s=asked.budget_s
        )
    try:
        scenarios = [scenario for name in asked.names for scenario in find_all(name)]
    except ScenarioUnknown as unknown:
        raise ClientError(
            str(unknown),
            code=ErrorCode.USAGE,
            exit_code=ExitCode.USAGE,
            detail=unknown.detail,
        ) from unknown
    items = tuple(
        Item(ref=scenario.ref, engine=engine, is_all=asked.is_all, seeds=asked.seeds)
        for scenario in scenarios
        for engine in _engines_for(scenario, asked.engines, installed)
    )
    return Campaign(items=tuple(dict.fromkeys(items)), budget_s=asked.budget_s)


def _engines_for(
    scenario: Scenario[Any], wanted: Sequence[str], installed: Sequence[str]
) -> list[str]:
    """Return the engines that explore a scenario: the wanted ones, or its first."""
    suitable = [engine for engine in scenario.engines if engine in installed]
    chosen = [it for it in suitable if it in wanted] if wanted else suitable[:1]
    if not chosen:
        raise usage_problem(
            f"{scenario.ref} is made for {', '.join(scenario.engines)};"
            f" none of the wanted engines is among them"
        )
    return chosen


def _progress(campaign: Campaign, reports: Sequence[ReportTo]) -> ExplorationProgress:
    if any(report.file is None and report.format != "text" for report in reports):
        return Unshown()
    return LiveFigures(campaign) if sys.stderr.isatty() else ItemLines()


def _write(report: Report, to: ReportTo) -> None:
    match to.format:
        case "json":
            text = output.json_text(report_json(report))
        case "junit":
            text = junit_text(report).rstrip("\n")
        case _:
            text = report_text(report, width())
    if to.file is None:
        output.print_text(text)
        return
    try:
        with contextlib.suppress(FileExistsError):
            to.file.parent.mkdir(parents=True)
        to.file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise usage_problem(f"{to.file} cannot be written: {error.strerror}") from error


def width() -> int:
    """Return how wide a report may be: COLUMNS, else the terminal, or 100 cells without one."""
    return max(_WIDTH_MIN, shutil.get_terminal_size((WIDTH, 24)).columns)
