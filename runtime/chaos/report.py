"""What a whole exploration came to, and its JSON form; text and JUnit are made of the same."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from signal import Signals
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from runtime.chaos.outcome import Finding, Moment, Tally, Verdict
from runtime.chaos.wording import in_words

SIGNALLED: Final = 128
"""What a shell adds to the number of a signal that ended a command."""

FORMAT: Final = "pi-workflows.chaos-report.v1"

WORD_OF_VERDICT: Final = {
    Verdict.HELD: "held",
    Verdict.VIOLATED: "violated",
    Verdict.NOT_DETERMINISTIC: "not deterministic",
    Verdict.BUDGET_ENDED: "budget ended",
}


@dataclass(frozen=True, slots=True)
class Total:
    """What was explored of one unit, by all scenarios together.

    Attributes:
        promised: how many there should be at least; 0 promises none.
        complete: every scenario that gives any is complete: there are no more.
    """

    unit: str
    done: int
    promised: int
    complete: bool

    @property
    def is_kept(self) -> bool:
        """Whether there are as many as promised, or all there are."""
        return self.complete or self.done >= self.promised


@dataclass(frozen=True, slots=True)
class Failure:
    """A finding with the command that shows it again.

    Attributes:
        replay: the command line; "" when no file could be written.
        shrunk_from: how many unusual decisions there were before it was made small; None when
            it was not tried.
        is_cut_short: there was no time to see whether it could be made smaller still.
    """

    finding: Finding
    replay: str
    shrunk_from: int | None = None
    is_cut_short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures of one command.

    Attributes:
        tallies: one per scenario, engine and unit.
        promised: by unit, how many there should be in all; a unit without an entry is judged by
            its tallies alone.
        failures: the findings that were kept, the first few of each scenario.
        versions: of what was explored, by name.
        seconds: wall time.
        stopped_by: the signal that ended it before its time; None without one.
    """

    tallies: list[Tally]
    promised: Mapping[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    stopped_by: Signals | None = None

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command: the verdict, or that of the signal."""
        if self.stopped_by is not None:
            return SIGNALLED + self.stopped_by
        return int(self.verdict)

    @property
    def totals(self) -> list[Total]:
        """Return a total per unit, in the order in which units first come up."""
        done: Counter[str] = Counter()
        parts: dict[str, list[bool]] = {unit: [] for unit in self.promised}
        for tally in self.tallies:
            parts.setdefault(tally.unit, []).append(tally.complete)
            done[tally.unit] += tally.done
        return [
            Total(unit, done[unit], self.promised.get(unit, 0), bool(each) and all(each))
            for unit, each in parts.items()
        ]

    @property
    def verdict(self) -> Verdict:
        """Return the worst that happened; what is promised in all outweighs single shares."""
        found = {
            tally.verdict
            for tally in self.tallies
            if tally.verdict is not Verdict.BUDGET_ENDED or self._is_owed(tally)
        }
        if self.stopped_by is not None or not all(total.is_kept for total in self.totals):
            found.add(Verdict.BUDGET_ENDED)
        for worst in (Verdict.NOT_DETERMINISTIC, Verdict.VIOLATED, Verdict.BUDGET_ENDED):
            if worst in found:
                return worst
        return Verdict.HELD

    def _is_owed(self, tally: Tally) -> bool:
        """Whether a tally is judged by itself, and not only as a share of what is promised."""
        return tally.all_promised or tally.unit not in self.promised

    @property
    def blind_spots(self) -> list[str]:
        """Return what could not have failed, with the scenario and the engine."""
        return [
            *dict.fromkeys(
                f"{tally.scenario} ({tally.engine}): {spot}"
                for tally in self.tallies
                for spot in self.blind_spots_of(tally)
            )
        ]

    def blind_spots_of(self, tally: Tally) -> list[str]:
        """Return those of one tally; a fault that another engine has explored is none."""
        elsewhere = [
            other.declared - other.idle
            for other in self.tallies
            if other.scenario == tally.scenario and other.explored
        ]
        idle = tally.idle.difference(*elsewhere)
        return dataclasses.replace(tally, idle=idle).blind_spots


def actors_of(finding: Finding) -> set[str]:
    """Return the lanes of a finding: what an option may name."""
    return {moment.lane for moment in finding.timeline}


def report_json(report: Report) -> JsonObject:
    """Return the report as a JSON document."""
    return {
        "format": FORMAT,
        "verdict": WORD_OF_VERDICT[report.verdict],
        "exitCode": report.exit_code,
        "stoppedBy": None if report.stopped_by is None else report.stopped_by.name,
        "seconds": round(report.seconds, 3),
        "versions": dict(report.versions),
        "totals": [
            {
                "unit": total.unit,
                "done": total.done,
                "promised": total.promised,
                "complete": _yes(complete=total.complete),
            }
            for total in report.totals
        ],
        "scenarios": [
            _tally_json(tally, report.blind_spots_of(tally)) for tally in report.tallies
        ],
        "blindSpots": list[JsonValue](report.blind_spots),
        "failures": [_failure_json(failure) for failure in report.failures],
    }


def _tally_json(tally: Tally, blind_spots: Sequence[str]) -> JsonObject:
    return {
        "scenario": tally.scenario,
        "engine": tally.engine,
        "unit": tally.unit,
        "verdict": WORD_OF_VERDICT[tally.verdict],
        "explored": tally.explored,
        "distinct": tally.distinct,
        "promised": tally.promised,
        "complete": _yes(complete=tally.complete),
        "faults": dict(sorted(tally.faults.items())),
        "faultKinds": list[JsonValue](sorted(tally.fault_kinds)),
        "notCarriedOut": list[JsonValue](sorted(tally.idle)),
        "pairs": {"seen": len(tally.pairs), "feasible": tally.pairs_feasible},
        "places": {"reached": tally.reached, "known": tally.places},
        "examined": tally.examined,
        "checks": dict(sorted(tally.checks.items())),
        "blindSpots": list[JsonValue](blind_spots),
        "broken": tally.broken,
        "notDeterministic": list[JsonValue](tally.not_deterministic),
        "seconds": round(tally.seconds, 3),
    }


def _failure_json(failure: Failure) -> JsonObject:
    finding = failure.finding
    return {
        "scenario": finding.scenario,
        "engine": finding.engine,
        "promise": finding.promise,
        "complaint": finding.complaint,
        "faults": list[JsonValue](in_words(finding.choices, actors_of(finding))),
        "choices": dict(finding.choices),
        "seed": finding.seed,
        "shrunkFrom": failure.shrunk_from,
        "shrinkingCutShort": failure.is_cut_short,
        "timeline": [moment_json(moment) for moment in finding.timeline],
        "traceSha256": finding.digest,
        "replay": failure.replay,
    }


def moment_json(moment: Moment) -> JsonObject:
    """Return one line of a timeline as a JSON object."""
    return {
        "atMs": moment.at_ms,
        "lane": moment.lane,
        "what": moment.what,
        "result": moment.result,
        "generation": moment.generation,
    }


def without_findings(tally: Tally) -> Tally:
    """Return a copy of the figures alone."""
    return dataclasses.replace(tally, findings=[])


def _yes(*, complete: bool) -> str:
    return "yes" if complete else "no"
