"""A report as JUnit XML: a suite per engine, a case per scenario and unit.

Source: the format as consumers of test results read it (testsuites, testsuite, testcase,
failure, error, properties); there is no normative schema.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Final

from runtime.chaos.outcome import Tally, Verdict
from runtime.chaos.report import Failure, Report
from runtime.chaos.report_text import failure_text, number_of

# What XML 1.0 cannot carry, not even escaped.
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def junit_text(report: Report) -> str:
    """Return the XML document; a case fails by its first failure and lists the others in it."""
    root = ET.Element("testsuites", name="pi-workflows chaos", time=f"{report.seconds:.3f}")
    for engine in dict.fromkeys(tally.engine for tally in report.tallies):
        tallies = [tally for tally in report.tallies if tally.engine == engine]
        suite = ET.SubElement(root, "testsuite", name=engine, tests=str(len(tallies)))
        failed = errors = 0
        for tally in tallies:
            verdict = _add_case(suite, report, tally)
            failed += verdict is Verdict.VIOLATED
            errors += verdict in {Verdict.NOT_DETERMINISTIC, Verdict.BUDGET_ENDED}
        suite.set("failures", str(failed))
        suite.set("errors", str(errors))
        suite.set("time", f"{sum(tally.seconds for tally in tallies):.3f}")
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _failures_of(report: Report, tally: Tally) -> list[Failure]:
    return [
        failure
        for failure in report.failures
        if (failure.finding.scenario, failure.finding.engine) == (tally.scenario, tally.engine)
    ]


def _add_case(suite: ET.Element, report: Report, tally: Tally) -> Verdict:
    failures = _failures_of(report, tally)
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"chaos.{tally.engine}",
        name=f"{tally.scenario} [{tally.unit}]",
        time=f"{tally.seconds:.3f}",
    )
    properties = ET.SubElement(case, "properties")
    for name, value in _figures(tally, report.blind_spots_of(tally)).items():
        ET.SubElement(properties, "property", name=name, value=_clean(value))
    verdict = tally.verdict
    if verdict is Verdict.VIOLATED:
        message = f"broken by {number_of(tally.broken, 'exploration')}"
        if failures:
            finding = failures[0].finding
            message = f"{finding.promise}: {finding.complaint}"
        failure = ET.SubElement(case, "failure", message=_clean(message), type="violation")
        failure.text = _clean("\n\n".join(map(failure_text, failures)))
    elif verdict is Verdict.NOT_DETERMINISTIC:
        names = ", ".join(tally.not_deterministic)
        ET.SubElement(case, "error", message=_clean(names), type="not-deterministic")
    elif verdict is Verdict.BUDGET_ENDED:
        message = f"{tally.done:,} of {tally.owed} {tally.unit}"
        ET.SubElement(case, "error", message=message, type="budget-ended")
    return verdict


def _figures(tally: Tally, blind_spots: Sequence[str]) -> dict[str, str]:
    figures = {
        "explored": str(tally.explored),
        "complete": "yes" if tally.complete else "no",
        "pairs": str(len(tally.pairs)),
    }
    if tally.distinct is not None:
        figures["distinct"] = str(tally.distinct)
    figures |= {f"fault.{kind}": str(count) for kind, count in sorted(tally.faults.items())}
    return figures | {f"blind.{number}": spot for number, spot in enumerate(blind_spots, start=1)}


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("", text)
