"""Plain text of tables, instants, durations and runs."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from pi_workflows.cli.output import json_text, safe_line, safe_text
from pi_workflows.protocol.canonical import JsonObject, JsonValue

GLYPH_OF_OUTCOME: Final = {"ok": "✓", "failed": "✗", "timed_out": "⏱", "cancelled": "■"}
GLYPH_CURRENT: Final = "▸"
GLYPH_EFFECT: Final = "↯"

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_CELL_MAX: Final = 60


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return aligned columns with two spaces between them; long cells are cut with `…`."""
    lines = [list(headers), *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def duration(milliseconds: float) -> str:
    """Return a span as people say it: `850 ms`, `1.4 s`, `3 m 05 s`, `2 h 07 m`."""
    span = max(0, round(milliseconds))
    if span < _SECOND_MS:
        return f"{span} ms"
    if span < _MINUTE_MS:
        return f"{span / _SECOND_MS:.1f} s"
    if span < _HOUR_MS:
        return f"{span // _MINUTE_MS} m {span % _MINUTE_MS // _SECOND_MS:02d} s"
    return f"{span // _HOUR_MS} h {span % _HOUR_MS // _MINUTE_MS:02d} m"


def instant(value: JsonValue) -> datetime | None:
    """Return an RFC 3339 instant of the wire; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def local_time(value: JsonValue) -> str:
    """Return a wire instant as local time to the second; empty for anything else."""
    moment = instant(value)
    return "" if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def span(started_at: JsonValue, finished_at: JsonValue) -> str:
    """Return the duration between two wire instants, up to now while the second is absent."""
    start = instant(started_at)
    if start is None:
        return ""
    end = instant(finished_at) or datetime.now(UTC)
    return duration((end - start).total_seconds() * _SECOND_MS)


def text_of(value: JsonValue) -> str:
    """Return a wire value as one safe line; empty for None."""
    if value is None:
        return ""
    return safe_line(value if isinstance(value, str) else json_text(value))


def step_line(step: JsonObject) -> str:
    """Return one finished step as a line: glyph, node, duration, first line of its error."""
    glyph = GLYPH_OF_OUTCOME.get(text_of(step.get("outcome")), "?")
    took = span(step.get("startedAt"), step.get("finishedAt"))
    line = f"{glyph} {text_of(step.get('nodeId'))}  {took}"
    error = step.get("error")
    return f"{line}  {first_line(error)}" if isinstance(error, str) else line


def first_line(text: str) -> str:
    """Return the first nonempty line of a text, safe; empty for an empty one."""
    lines = safe_text(text).strip().splitlines()
    return safe_line(lines[0]) if lines else ""


def result(value: JsonValue) -> str:
    """Return a final output for a person: a text as it is, all else as indented JSON."""
    return safe_text(value) if isinstance(value, str) else json_text(value, indent=2)


def run_state(state: JsonObject) -> str:
    """Return a `pi-workflows.run-state.v1` as a page for a person."""
    lines = [
        f"run       {text_of(state.get('runId'))}",
        f"workflow  {text_of(state.get('runTitle') or state.get('workflowName'))}",
        f"status    {_shown_status(state)}",
        f"started   {local_time(state.get('startedAt'))}",
        f"took      {span(state.get('startedAt'), state.get('finishedAt'))}",
    ]
    steps = state.get("steps")
    if isinstance(steps, list) and steps:
        lines += ["", *(step_line(step) for step in steps if isinstance(step, dict))]
    if state.get("currentNode") is not None:
        node = text_of(state.get("currentNode"))
        lines.append(f"{GLYPH_CURRENT} {node}  {text_of(state.get('statusDetail'))}".rstrip())
    lines += _open_effects(state)
    if isinstance(display := state.get("display"), dict) and display.get("reason") is not None:
        lines += ["", text_of(display.get("reason"))]
    if isinstance(error := state.get("error"), str):
        lines += ["", safe_text(error)]
    if "finalOutput" in state:
        lines += ["", result(state["finalOutput"])]
    return "\n".join(lines)


def _shown_status(state: JsonObject) -> str:
    """Return the display status, which says more than the durable one: `ambiguous`, `queued`."""
    display = state.get("display")
    shown = display.get("status") if isinstance(display, dict) else None
    return text_of(shown or state.get("status"))


def _open_effects(state: JsonObject) -> list[str]:
    """Return a line per effect that is not settled: what may or may not have happened outside."""
    effects = state.get("effects")
    return [
        f"{GLYPH_EFFECT} {text_of(effect.get('effectType'))}  {text_of(effect.get('status'))}"
        for effect in (effects if isinstance(effects, list) else [])
        if isinstance(effect, dict)
    ]


def _cell(text: str) -> str:
    line = safe_line(text)
    return line if len(line) <= _CELL_MAX else f"{line[: _CELL_MAX - 1]}…"
