"""The live page of a run on a terminal, drawn with rich when the server pushes a change."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pi_workflows.cli.drawing import Drawing
from pi_workflows.cli.render import (
    GLYPH_CURRENT,
    GLYPH_OF_OUTCOME,
    GLYPH_UPDATE,
    first_line,
    node_name,
    retrying_lines,
    shown_status,
    span,
    text_of,
    try_text,
)
from pi_workflows.cli.updates import (
    Report,
    Reports,
    counts_text,
    eta_text,
    said_text,
    state_text,
    updates_of,
)
from pi_workflows.cli.views import TERMINAL, member, status_of, steps_of
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.progress import (
    OVERALL_KEY,
    Progress,
    ProgressStatus,
    progress_of,
)

_STYLE_OF_OUTCOME: Final = {"ok": "green", "failed": "red", "timed_out": "yellow"}
_STYLE_OF_STATUS: Final = {
    "completed": "green",
    "failed": "red",
    "timed_out": "red",
    "cancelled": "yellow",
    "ambiguous": "yellow",
    "running": "cyan",
}
_FRAME_LINES: Final = 6
"""Lines around the steps: title, remarks, current node, and room for the end."""

_STEPS_MIN: Final = 3
_BARS_MAX: Final = 8
_BAR_CELLS: Final = 20
_SAID_MAX: Final = 3


class LivePage(Drawing):
    """A `Progress` for terminals: run, status, elapsed time, steps, current node, bars.

    The error of a run is no part of it: whoever follows the run prints that once, at the end.

    Nothing refreshes it but a pushed view and the tick, so an idle run costs one line a second
    and no thread. Server texts enter as plain `Text`, never as markup.
    """

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console, is_kept=True)
        self._view: JsonObject = {}
        self._lost = False
        self._reports = Reports()
        self._progresses: list[Report] = []

    def show(self, view: JsonObject) -> None:
        """Draw a view."""
        self._view = view
        self._lost = False
        self._progresses = self._reports.take(view)
        self._draw()

    def lost(self) -> None:
        """Say of the last view that it is the last one; its times stand still."""
        self._lost = True
        self._draw()

    def tick(self) -> None:
        """Move the elapsed times, unless nobody knows whether the run still moves."""
        if self._view and not self._lost:
            self._draw()

    def _draw(self) -> None:
        room = max(self._console.size.height - _FRAME_LINES, 3)
        self.draw(page(self._view, room, self._progresses, lost=self._lost))


def page(
    view: JsonObject, room: int, progresses: Sequence[Report] = (), *, lost: bool = False
) -> Group:
    """Compose the page of one run view.

    Args:
        view: a `pi-workflows.run-view.v1`.
        room: how many steps fit; older ones are only counted.
        progresses: what says how far it has come; drawn as bars while the run lives.
        lost: say that the server does not answer at present and what is shown is the last view.
    """
    parts: list[RenderableType] = [_title(view, lost=lost)]
    if lost:
        parts.append(
            Text("the server does not answer; this is what was seen last", style="yellow")
        )
    alive = status_of(view) not in TERMINAL
    bars = _newest(progresses) if alive else []
    said = _said(view) if alive else []
    room = max(room - len(bars) - len(said), _STEPS_MIN)
    steps = steps_of(view)[-room:]
    total = member(view, "steps").get("total")
    if isinstance(total, int) and total > len(steps):
        parts.append(Text(f"  … {total - len(steps)} earlier steps", style="dim"))
    table = Table.grid(padding=(0, 2))
    for step in steps:
        table.add_row(*_step_cells(step))
    current = member(view, "current")
    if current:
        table.add_row(
            Text(f"  {GLYPH_CURRENT}", style="cyan"),
            Text(node_name(current)),
            Text(span(current.get("startedAt"), None), style="dim", justify="right"),
            Text(text_of(current.get("statusDetail")), style="dim"),
        )
    if table.row_count:
        parts.append(table)
    parts.extend(Text(f"  {line}", style="yellow") for line in retrying_lines(view, when=True))
    if bars:
        parts.append(_bars(bars, moving=not lost))
    parts.extend(Text(f"  {GLYPH_UPDATE} {line}", style="dim") for line in said)
    return Group(*parts)


def _newest(progresses: Sequence[Report]) -> list[Report]:
    """Return those that said something last, in their order, and the whole run in any case."""
    latest = sorted(report.samples[-1].at for report in progresses)[-_BARS_MAX:]
    chosen = [
        report
        for report in progresses
        if report.key == OVERALL_KEY or report.samples[-1].at >= latest[0]
    ]
    return chosen[:_BARS_MAX]


def _said(view: JsonObject) -> list[str]:
    """Return the newest updates that are no progress, as lines."""
    others = [update for update in updates_of(view) if progress_of(update) is None]
    return [said_text(update) for update in others[-_SAID_MAX:]]


def _bars(reports: Sequence[Report], *, moving: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    now = round(datetime.now(UTC).timestamp() * 1000)
    for report in reports:
        progress = report.progress
        eta = eta_text(report.samples, now) if moving else ""
        remark = ", ".join(text for text in (state_text(progress), eta) if text)
        table.add_row(
            Text(f"  {report.name}", overflow="ellipsis", no_wrap=True),
            _bar(progress, moving=moving),
            Text(counts_text(progress), no_wrap=True),
            Text(remark, style="dim", overflow="ellipsis", no_wrap=True),
        )
    return table


def _bar(progress: Progress, *, moving: bool) -> ProgressBar:
    """Return a bar; it only moves to and fro where nobody knows how far it has to go."""
    if progress.total is None:
        unknown = progress.status is ProgressStatus.RUNNING and moving
        done = progress.status is ProgressStatus.COMPLETED
        return ProgressBar(1, float(done), width=_BAR_CELLS, pulse=unknown)
    return ProgressBar(progress.total, progress.completed or 0, width=_BAR_CELLS)


def _title(view: JsonObject, *, lost: bool) -> Text:
    manifest = member(view, "manifest")
    status = shown_status(view) or "connecting"
    style = _STYLE_OF_STATUS.get(status, "")
    if lost and view:
        status, style = f"last seen {status}", "yellow"
    name = text_of(manifest.get("title") or manifest.get("workflowName"))
    elapsed = span(manifest.get("createdAt"), manifest.get("finishedAt"))
    return Text.assemble(
        (name, "bold"),
        "  ",
        (status, style),
        f"  {elapsed}  ",
        (text_of(manifest.get("runId")), "dim"),
    )


def _step_cells(step: JsonObject) -> tuple[Text, ...]:
    outcome = text_of(step.get("outcome"))
    error = step.get("error")
    tries = step.get("failedTries")
    return (
        Text(f"  {GLYPH_OF_OUTCOME.get(outcome, '?')}", style=_STYLE_OF_OUTCOME.get(outcome, "")),
        Text(node_name(step)),
        Text(span(step.get("startedAt"), step.get("finishedAt")), style="dim", justify="right"),
        Text(try_text(tries), style="dim"),
        Text(first_line(error) if isinstance(error, str) else "", style="red"),
    )
