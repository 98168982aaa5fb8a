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
    span,
    text_of,
)
from pi_workflows.cli.views import error_of, member, status_of, steps_of
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
"""Lines around the steps: title, gaps, current node, error."""


class LivePage:
    """A `Progress` for terminals: run, status, elapsed time, steps, current node, error.

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
        """Mark the last view as possibly out of date."""
        self._lost = True
        self._draw()

    def tick(self) -> None:
        """Move the elapsed times."""
        if self._view:
            self._draw()

    def _draw(self) -> None:
        room = max(self._console.size.height - _FRAME_LINES, 3)
        self._live.update(page(self._view, room, lost=self._lost), refresh=True)


def page(view: JsonObject, room: int, *, lost: bool = False) -> Group:
    """Compose the page of one run view.

    Args:
        view: a `pi-workflows.run-view.v1`.
        room: how many steps fit; older ones are only counted.
        lost: say that the server does not answer at present.
    """
    parts: list[Text | Table] = [_title(view)]
    if lost:
        parts.append(Text("the server does not answer, trying again", style="yellow"))
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
            Text(text_of(current.get("nodeId"))),
            Text(span(current.get("startedAt"), None), style="dim", justify="right"),
            Text(text_of(current.get("statusDetail")), style="dim"),
        )
    if table.row_count:
        parts.append(table)
    if error := error_of(view):
        parts.append(Text(error, style="red"))
    return Group(*parts)


def _title(view: JsonObject) -> Text:
    manifest = member(view, "manifest")
    status = status_of(view) or "connecting"
    name = text_of(manifest.get("title") or manifest.get("workflowName"))
    elapsed = span(manifest.get("createdAt"), manifest.get("finishedAt"))
    return Text.assemble(
        (name, "bold"),
        "  ",
        (status, _STYLE_OF_STATUS.get(status, "")),
        f"  {elapsed}  ",
        (text_of(manifest.get("runId")), "dim"),
    )


def _step_cells(step: JsonObject) -> tuple[Text, ...]:
    outcome = text_of(step.get("outcome"))
    error = step.get("error")
    return (
        Text(f"  {GLYPH_OF_OUTCOME.get(outcome, '?')}", style=_STYLE_OF_OUTCOME.get(outcome, "")),
        Text(text_of(step.get("nodeId"))),
        Text(span(step.get("startedAt"), step.get("finishedAt")), style="dim", justify="right"),
        Text(first_line(error) if isinstance(error, str) else "", style="red"),
    )
