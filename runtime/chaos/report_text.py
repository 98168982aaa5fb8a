"""A report for people: figures as a table, then what is blind, then each broken promise."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from runtime.chaos.outcome import Tally, Verdict
from runtime.chaos.report import Failure, Report, Total, actors_of
from runtime.chaos.swim_lanes import swim_lanes
from runtime.chaos.wording import in_words

WIDTH: Final = 100

ROWS_MAX: Final = 40
"""More tallies are shown as one row for each engine and unit."""

_FIGURES: Final = ("EXPLORED", "EXAMINED", "COMPLETE", "PLACES", "PAIRS", "WORK", "FAULTS")
_HEADERS: Final = ("ENGINE", "SCENARIO", *_FIGURES)
_HEADERS_IN_ALL: Final = ("ENGINE", *_FIGURES)
_NUMBERS: Final = frozenset({"EXPLORED", "EXAMINED", "PLACES", "PAIRS", "WORK"})
_BLIND_MAX: Final = 20
_WORDS_MAX: Final = 30
_MINUTE_S: Final = 60


def report_text(report: Report, width: int = WIDTH) -> str:
    """Return the report; no line of a swim lane is wider than `width`."""
    parts = [figures_text(report)]
    if report.blind_spots:
        parts.append(_blind_text(report.blind_spots))
    parts += [failure_text(failure, width) for failure in report.failures]
    parts += _unrepeated(report.tallies)
    parts.append(verdict_line(report))
    return "\n\n".join(parts)


def figures_text(report: Report) -> str:
    """Return a line per tally, and below it what there is of each unit that was promised.

    Of very many tallies there is a line per engine and unit: the JSON report has them all.
    """
    if len(report.tallies) > ROWS_MAX:
        kinds = dict.fromkeys((tally.engine, tally.unit) for tally in report.tallies)
        lines = _columns([_HEADERS_IN_ALL, *(_cells_in_all(report, *kind) for kind in kinds)])
    else:
        lines = _columns([_HEADERS, *map(_cells, report.tallies)]) if report.tallies else []
    if promised := [total for total in report.totals if total.promised]:
        lines += ["", *_columns([_total_cells(total) for total in promised])]
    return "\n".join(lines).strip("\n")


def failure_text(failure: Failure, width: int = WIDTH) -> str:
    """Return which promise broke, by which decisions, in which order, and how to see it again."""
    finding = failure.finding
    lines = [f"✗ {finding.scenario} ({finding.engine}) breaks {finding.promise}"]
    lines += [f"  {line}" for line in finding.complaint.splitlines()]
    words = in_words(finding.choices, actors_of(finding))
    seed = "" if finding.seed is None else f", seed {finding.seed}"
    was = ""
    if failure.shrunk_from is not None and failure.shrunk_from > len(words):
        was = f" (of {failure.shrunk_from} before shrinking)"
    lines += ["", f"  unusual decisions: {len(words)}{was}{seed}"]
    if failure.is_cut_short:
        lines.append("  (making it small was cut short: `chaos shrink` of its file goes on)")
    lines += [f"  · {word}" for word in words[:_WORDS_MAX]]
    if len(words) > _WORDS_MAX:
        lines.append(f"  … {len(words) - _WORDS_MAX} more in the replay file")
    if lanes := swim_lanes(finding.timeline, width - 2):
        lines += ["", *(f"  {line}".rstrip() for line in lanes)]
    if failure.replay:
        lines += ["", f"  see it again: {failure.replay}"]
    return "\n".join(lines)


def verdict_line(report: Report) -> str:
    """Return the last line: what it came to and how long it took."""
    took = _took(report.seconds)
    if report.stopped_by is not None:
        took = f"stopped by {report.stopped_by.name} before all was explored, {took}"
    match report.verdict:
        case Verdict.HELD:
            return f"✓ everything held, {took}"
        case Verdict.VIOLATED:
            return f"✗ {_broken(report)}, {took}"
        case Verdict.NOT_DETERMINISTIC:
            return f"✗ the same decisions led elsewhere when they were repeated, {took}"
        case Verdict.BUDGET_ENDED if report.stopped_by is not None:
            return f"… {took}"
        case Verdict.BUDGET_ENDED:
            short = [f"{it.unit} {it.done:,}" for it in report.totals if not it.is_kept]
            short = short or [
                f"{it.scenario} {it.done:,} of {it.owed} {it.unit}"
                for it in report.tallies
                if it.verdict is Verdict.BUDGET_ENDED
            ]
            return f"… the budget ended before what is promised ({', '.join(short)}), {took}"


def _broken(report: Report) -> str:
    """Return `1 promise broken, by 2 explorations`: what breaks the same is shown once."""
    found = {
        (finding.scenario, finding.engine, finding.promise)
        for tally in report.tallies
        for finding in tally.findings
    }
    found |= {
        (failure.finding.scenario, failure.finding.engine, failure.finding.promise)
        for failure in report.failures
    }
    by = number_of(sum(tally.broken for tally in report.tallies), "exploration")
    return f"{number_of(max(1, len(found)), 'promise')} broken, by {by}"


def number_of(count: int, what: str) -> str:
    """Return `1 promise` or `2 promises`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _cells(tally: Tally) -> tuple[str, ...]:
    distinct = "" if tally.distinct is None else f"{tally.distinct:,} distinct of "
    feasible = "" if tally.pairs_feasible is None else f"/{tally.pairs_feasible}"
    return (
        tally.engine,
        tally.scenario,
        f"{distinct}{tally.explored:,} {tally.unit}",
        "" if tally.examined is None else f"{tally.examined:,}",
        "yes" if tally.complete else "no",
        "" if tally.places is None else f"{tally.reached:,}/{tally.places:,}",
        f"{len(tally.pairs)}{feasible}" if tally.pairs or feasible else "",
        _took(tally.seconds),
        _faults(tally.faults),
    )


def _cells_in_all(report: Report, engine: str, unit: str) -> tuple[str, ...]:
    tallies = [it for it in report.tallies if (it.engine, it.unit) == (engine, unit)]
    explored = sum(tally.explored for tally in tallies)
    differing = sum(_differing(tally) for tally in tallies)
    distinct = "" if differing == explored else f"{differing:,} distinct of "
    pairs = sum(len(tally.pairs) for tally in tallies)
    examined = [tally.examined for tally in tallies if tally.examined is not None]
    places = [tally.places for tally in tallies if tally.places is not None]
    reached = sum(tally.reached for tally in tallies)
    return (
        engine,
        f"{distinct}{explored:,} {unit}",
        f"{sum(examined):,}" if examined else "",
        f"{sum(tally.complete for tally in tallies)} of {len(tallies)} scenarios",
        f"{reached:,}/{sum(places):,}" if places else "",
        f"{pairs:,}" if pairs else "",
        _took(sum(tally.seconds for tally in tallies)),
        _faults(sum((tally.faults for tally in tallies), Counter[str]())),
    )


def _differing(tally: Tally) -> int:
    return tally.explored if tally.distinct is None else tally.distinct


def _faults(faults: Counter[str]) -> str:
    return "; ".join(f"{kind} {count:,}" for kind, count in sorted(faults.items()))


def _total_cells(total: Total) -> tuple[str, ...]:
    glyph = "✓" if total.is_kept else "…"
    if total.complete and total.done < total.promised:
        return (glyph, total.unit, f"{total.done:,}, all there are")
    return (glyph, total.unit, f"{total.done:,} of {total.promised:,} promised")


def _blind_text(spots: Sequence[str]) -> str:
    lines = ["blind spots: a check that cannot fail says nothing"]
    lines += [f"  {spot}" for spot in spots[:_BLIND_MAX]]
    if len(spots) > _BLIND_MAX:
        lines.append(f"  … {len(spots) - _BLIND_MAX} more")
    return "\n".join(lines)


def _unrepeated(tallies: Sequence[Tally]) -> list[str]:
    return [
        f"✗ {tally.scenario} ({tally.engine}) is not deterministic: {', '.join(names[:3])}"
        for tally in tallies
        if (names := tally.not_deterministic)
    ]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns with two spaces between them; columns of numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [header in _NUMBERS for header in rows[0]]
    return [
        "  ".join(
            f"{cell:>{width}}" if to_the_right else f"{cell:<{width}}"
            for cell, width, to_the_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    ]


def _took(seconds: float) -> str:
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    return f"{int(seconds // _MINUTE_S)} m {int(seconds % _MINUTE_S):02d} s"
