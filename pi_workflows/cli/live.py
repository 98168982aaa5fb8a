"""The live page of a run on a terminal, drawn with rich when the server pushes a change."""

from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pi_workflows.cli.render import (
    GLYPH_CURRENT,
    GLYPH_OF_OUTCOME,
    first_line,
    node_name,
    shown_status,
    span,
    text_of,
)
from pi_workflows.cli.views import member, steps_of
from pi_workflows.protocol.canonical import JsonObject

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


class LivePage:
    """A `Progress` for terminals: run, status, elapsed time, steps, current node.

    The error of a run is no part of it: whoever follows the run prints that once, at the end.

    Nothing refreshes it but a pushed view and the tick, so an idle run costs one line a second
    and no thread. Server texts enter as plain `Text`, never as markup.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False)
        self._view: JsonObject = {}
        self._lost = False

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, view: JsonObject) -> None:
        """Draw a view."""
        self._view = view
        self._lost = False
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
        self._live.update(page(self._view, room, lost=self._lost), refresh=True)


def page(view: JsonObject, room: int, *, lost: bool = False) -> Group:
    """Compose the page of one run view.

    Args:
        view: a `pi-workflows.run-view.v1`.
        room: how many steps fit; older ones are only counted.
        lost: say that the server does not answer at present and what is shown is the last view.
    """
    parts: list[Text | Table] = [_title(view, lost=lost)]
    if lost:
        parts.append(
            Text("the server does not answer; this is what was seen last", style="yellow")
        )
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
    return Group(*parts)


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
    return (
        Text(f"  {GLYPH_OF_OUTCOME.get(outcome, '?')}", style=_STYLE_OF_OUTCOME.get(outcome, "")),
        Text(node_name(step)),
        Text(span(step.get("startedAt"), step.get("finishedAt")), style="dim", justify="right"),
        Text(first_line(error) if isinstance(error, str) else "", style="red"),
    )
