"""Reads the updates of a run view: how far things have come, how long they will still take."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pi_workflows.cli.render import duration, instant, text_of
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.eta import Basis, Estimate, NoEstimate, Sample, estimate
from pi_workflows.protocol.progress import OVERALL_KEY, Progress, ProgressStatus, progress_of

SAMPLES_KEPT: Final = 64
"""Newest reports of one thing that are kept; an estimate needs nine of one epoch."""

_LINE_PAUSE_MS: Final = 10_000
_TENTHS: Final = 10
_SAID_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Report:
    """What one thing that progresses says, and said before.

    Attributes:
        key: which thing; `overall` is the whole run.
        samples: at least one, oldest first.
    """

    key: str
    samples: Sequence[Sample]

    @property
    def progress(self) -> Progress:
        """The newest."""
        return self.samples[-1].progress

    @property
    def name(self) -> str:
        """What it is called."""
        return text_of(self.progress.label) or text_of(self.key)


def updates_of(facts: JsonObject) -> list[JsonObject]:
    """Return the updates of a run view or a run state, oldest first."""
    updates: JsonValue = facts.get("updates")
    items = updates.get("items") if isinstance(updates, dict) else updates
    return [it for it in items if isinstance(it, dict)] if isinstance(items, list) else []


class Reports:
    """Collects what is reported while somebody watches."""

    def __init__(self) -> None:
        self._samples: dict[str, list[Sample]] = {}
        self._seen: dict[str, int] = {}

    def take(self, facts: JsonObject) -> list[Report]:
        """Note what is new in a view and return what progresses.

        The whole run comes first, then the others in the order in which they were first seen, so
        that no bar moves to another line.
        """
        current: set[str] = set()
        for update in updates_of(facts):
            progress, key = progress_of(update), text_of(update.get("key"))
            seq, moment = update.get("seq"), instant(update.get("at"))
            if progress is None or not isinstance(seq, int) or moment is None:
                continue
            samples = self._samples.setdefault(key, [])
            if seq > self._seen.get(key, 0):
                self._seen[key] = seq
                samples.append(Sample(round(moment.timestamp() * 1000), progress))
                del samples[:-SAMPLES_KEPT]
            current.add(key)
        keys = sorted(self._samples, key=lambda key: key != OVERALL_KEY)
        return [Report(key, tuple(self._samples[key])) for key in keys if key in current]


def counts_text(progress: Progress) -> str:
    """Return `3/40 file` with the percentage, `3 file`, or nothing where nothing is counted."""
    unit = text_of(progress.unit)
    if progress.completed is None:
        return "" if progress.total is None else f"of {progress.total:g} {unit}"
    if progress.total is None:
        return f"{progress.completed:g} {unit}"
    share = int(100 * progress.completed / progress.total)
    return f"{progress.completed:g}/{progress.total:g} {unit}, {share} %"


def state_text(progress: Progress) -> str:
    """Return the phase, and the status unless it simply runs."""
    status = "" if progress.status is ProgressStatus.RUNNING else progress.status.value
    return ", ".join(text for text in (text_of(progress.phase), status) if text)


def eta_text(samples: Sequence[Sample], now: int) -> str:
    """Return how long it will still take, as `about 2 m 10 s left (medium)`.

    Empty if nobody can say, or if all that is counted is done.

    Args:
        samples: at least one, oldest first.
        now: UTC epoch ms.
    """
    found = estimate(samples, now)
    newest = samples[-1].progress
    all_done = newest.total is not None and newest.completed == newest.total
    if isinstance(found, NoEstimate) or all_done:
        return ""
    return _estimate_text(found)


def _estimate_text(found: Estimate) -> str:
    left = f"about {duration(found.remaining_ms)} left"
    if found.basis is Basis.SOURCE:
        return f"{left} (says its source)"
    return f"{left} ({found.confidence})"


def said_text(update: JsonObject) -> str:
    """Return an update that is no progress as one short line."""
    data = "…" if update.get("dataStored") is True else text_of(update.get("data"))
    cut = data if len(data) <= _SAID_CHARS else f"{data[: _SAID_CHARS - 1]}…"
    return f"{text_of(update.get('type'))} {text_of(update.get('key'))}  {cut}"


def report_line(report: Report, now: int | None = None) -> str:
    """Return a progress as one line; with `now` (UTC epoch ms) also how long it will take."""
    progress = report.progress
    eta = "" if now is None else eta_text(report.samples, now)
    parts = (report.name, counts_text(progress), state_text(progress), eta)
    return "  ".join(part for part in parts if part)


def update_lines(facts: JsonObject) -> list[str]:
    """Return one line per current update of a run state or view."""
    progresses = [report_line(report) for report in Reports().take(facts)]
    others = [said_text(update) for update in updates_of(facts) if progress_of(update) is None]
    return [*progresses, *others]


class UpdateNews:
    """Chooses the updates that are worth a line of their own, where nothing can be redrawn.

    A progress is worth one when it is new, changes status or phase, or has come another tenth of
    its way; else, like any other update, every ten seconds.
    """

    def __init__(self) -> None:
        self._reports = Reports()
        self._told: dict[str, tuple[int, JsonValue]] = {}

    def lines(self, view: JsonObject) -> list[str]:
        """Return the lines for a view, given all views before it."""
        lines = []
        for report in self._reports.take(view):
            at = report.samples[-1].at
            if self._is_news(f"progress {report.key}", at, _milestone(report.progress)):
                lines.append(report_line(report, at))
        for update in updates_of(view):
            moment = instant(update.get("at"))
            if progress_of(update) is not None or moment is None:
                continue
            pair = f"{text_of(update.get('type'))} {text_of(update.get('key'))}"
            if self._is_news(pair, round(moment.timestamp() * 1000), None):
                lines.append(said_text(update))
        return lines

    def _is_news(self, pair: str, at: int, milestone: JsonValue) -> bool:
        told = self._told.get(pair)
        if told is not None:
            told_at, told_milestone = told
            if at == told_at or (milestone == told_milestone and at - told_at < _LINE_PAUSE_MS):
                return False
        self._told[pair] = (at, milestone)
        return True


def _milestone(progress: Progress) -> JsonValue:
    """Return what of a progress has to change to be worth a line."""
    tenth = None
    if progress.completed is not None and progress.total is not None:
        tenth = int(_TENTHS * progress.completed / progress.total)
    return [progress.status.value, progress.phase, tenth]
