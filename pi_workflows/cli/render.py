"""Plain text of tables, instants, durations and runs."""

import signal
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from pi_workflows.cli.node_names import shown_node
from pi_workflows.cli.output import json_text, safe_line, safe_text
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import DisplayStatus, WorkerStatus

GLYPH_OF_OUTCOME: Final = {"ok": "✓", "failed": "✗", "timed_out": "⏱", "cancelled": "■"}
GLYPH_CURRENT: Final = "▸"
GLYPH_EFFECT: Final = "↯"
GLYPH_UPDATE: Final = "·"
GLYPH_RETRY: Final = "↻"
GLYPH_FOLLOW_UP: Final = "→"

PARKED: Final = "parked"
"""What people are shown of a queued run that waits for somebody."""

_END_OF_RUNNER: Final = {
    WorkerStatus.CRASHED: "crashed",
    WorkerStatus.TIMED_OUT: "gave no sign of life in time",
    WorkerStatus.CLAIM_LOST: "lost its claim",
}
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


def node_name(step: JsonObject) -> str:
    """Return the node of a step or of a current node, with its visit from the second on."""
    visit = step.get("visit")
    again = f" #{visit}" if isinstance(visit, int) and visit > 1 else ""
    return f"{shown_node(str(step.get('nodeId') or ''))}{again}"


def workflow_name(facts: JsonObject, title: str = "title") -> str:
    """Return the workflow's name, and behind it the run's title, which is the member `title`."""
    name = text_of(facts.get("workflowName"))
    return f"{name}: {text_of(facts[title])}" if facts.get(title) is not None else name


def shown_status(facts: JsonObject) -> str:
    """Return the word for people: the display status, else the durable one.

    What scripts see as `queued` with a reason needs somebody and is `parked` here. An ambiguous
    run that was paused too says both.
    """
    display = facts.get("display")
    if not isinstance(display, dict):
        return text_of(facts.get("status"))
    if display.get("status") == DisplayStatus.QUEUED and display.get("reason") is not None:
        return PARKED
    besides = ", paused" if display.get("paused") is True else ""
    return f"{text_of(display.get('status'))}{besides}"


def next_step(display: JsonObject) -> str:
    """Return what a person does next: the command, behind what it needs first; empty if none."""
    command, first = text_of(display.get("next")), text_of(display.get("first"))
    return f"{first}, then {command}" if command and first else command


def step_line(step: JsonObject) -> str:
    """Return one finished step as a line: glyph, node, duration, first line of its error."""
    glyph = GLYPH_OF_OUTCOME.get(text_of(step.get("outcome")), "?")
    took = span(step.get("startedAt"), step.get("finishedAt"))
    line = f"{glyph} {node_name(step)}  {took}"
    if step.get("failedTries") is not None:
        line += f"  {try_text(step['failedTries'])}"
    error = step.get("error")
    return f"{line}  {first_line(error)}" if isinstance(error, str) else line


def try_text(failed_tries: JsonValue) -> str:
    """Return which try of its visit a step was, after so many others."""
    return f"try {failed_tries + 1}" if isinstance(failed_tries, int) else ""


def first_line(text: str) -> str:
    """Return the first nonempty line of a text, safe; empty for an empty one."""
    lines = safe_text(text).strip().splitlines()
    return safe_line(lines[0]) if lines else ""


def result(value: JsonValue) -> str:
    """Return a final output for a person: a text as it is, all else as indented JSON."""
    return safe_text(value) if isinstance(value, str) else json_text(value, indent=2)


def run_state(state: JsonObject, updates: Sequence[str] = ()) -> str:
    """Return a `pi-workflows.run-state.v1` as a page for a person; `updates` as lines."""
    lines = [
        f"run       {text_of(state.get('runId'))}",
        f"workflow  {workflow_name(state, 'runTitle')}",
        f"status    {shown_status(state)}",
        *_parent(state),
        f"started   {local_time(state.get('startedAt'))}",
        f"took      {span(state.get('startedAt'), state.get('finishedAt'))}",
    ]
    recorded = state.get("steps")
    steps = [it for it in recorded if isinstance(it, dict)] if isinstance(recorded, list) else []
    if steps:
        lines += ["", *map(step_line, steps)]
    if state.get("currentNode") is not None:
        node = text_of(state.get("currentNode"))
        lines.append(f"{GLYPH_CURRENT} {node}  {text_of(state.get('statusDetail'))}".rstrip())
    lines += [f"{GLYPH_UPDATE} {update}" for update in updates]
    lines += _open_effects(state)
    lines += _follow_ups(state)
    lines += retrying_lines(state)
    lines += _standstill(state.get("display"), state.get("retrying"))
    lines += _last_runner(state.get("lastRunner"))
    if isinstance(error := state.get("error"), str):
        lines += ["", safe_text(error)]
    if any(map(_has_printed, steps)):
        run_id = text_of(state.get("runId"))
        lines += ["", f"what the failed command printed is in: pi-workflows show {run_id} --json"]
    if "finalOutput" in state:
        lines += ["", result(state["finalOutput"])]
    return "\n".join(lines)


def _parent(state: JsonObject) -> list[str]:
    parent = state.get("parentRunId")
    return [] if parent is None else [f"restarts  {text_of(parent)}"]


def retrying_lines(run: JsonObject, *, when: bool = False) -> list[str]:
    """Return which node waits for its next try, and why; [] without one.

    A wait that the node's own code asked for is told as one, any other by the try that failed.
    """
    between = run.get("retrying")
    if not isinstance(between, dict):
        return []
    line = f"{GLYPH_RETRY} {node_name(between)}  "
    at = local_time(between.get("nextTryAt"))
    if between.get("asked") is True:
        line += f"waits until {at}" if when else "waits"
    else:
        line += f"{text_of(between.get('failedTries'))} failed"
        line += f", next try {at}" if when else ""
    error = between.get("error")
    return [f"{line}: {first_line(error)}" if isinstance(error, str) else line]


def _standstill(display: JsonValue, retrying: JsonValue) -> list[str]:
    """Return why a run does not move, and the next command or when it is started again."""
    if not isinstance(display, dict):
        return []
    lines = []
    if display.get("reason") is not None:
        code = text_of(display.get("code"))
        lines = [
            "",
            f"{code}: {text_of(display['reason'])}" if code else text_of(display["reason"]),
        ]
    if display.get("next") is not None:
        lines.append(f"next: {next_step(display)}")
    if display.get("retryAt") is not None:
        is_asked = isinstance(retrying, dict) and retrying.get("asked") is True
        cause = "failed try" if retrying is not None else "death"
        held = "it waits" if is_asked else f"it is held back after a {cause}"
        lines += ["", f"{held} and goes on {local_time(display['retryAt'])}"]
    return lines


def _last_runner(end: JsonValue) -> list[str]:
    """Return how the runner of a live run ended badly, and the end of what it printed."""
    if not isinstance(end, dict):
        return []
    how = {str(status): text for status, text in _END_OF_RUNNER.items()}
    status = text_of(end.get("status"))
    causes = []
    if end.get("exitCode") is not None:
        causes.append(f"exit code {text_of(end.get('exitCode'))}")
    if end.get("signal") is not None:
        causes.append(_signal_name(text_of(end.get("signal"))))
    cause = f" ({', '.join(causes)})" if causes else ""
    at = local_time(end.get("endedAt"))
    lines = ["", f"its last runner {how.get(status, status)}{cause}, {at}"]
    if isinstance(output := end.get("outputTail"), str):
        printed = safe_text(output).strip().splitlines()
        lines += ["the end of what it printed:", *(f"  {line}" for line in printed)]
    return lines


def _signal_name(number: str) -> str:
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return f"signal {number}"


def _has_printed(step: JsonObject) -> bool:
    receipt = step.get("action")
    return isinstance(receipt, dict) and not {"stdoutTail", "stderrTail"}.isdisjoint(receipt)


def _open_effects(state: JsonObject) -> list[str]:
    """Return a line per effect that is not settled: what may or may not have happened outside."""
    effects = state.get("effects")
    lines = []
    for effect in effects if isinstance(effects, list) else []:
        if isinstance(effect, dict):
            known = f"{text_of(effect.get('effectType'))}  {text_of(effect.get('status'))}"
            error = effect.get("error")
            why = f"  {first_line(error)}" if isinstance(error, str) else ""
            lines.append(f"{GLYPH_EFFECT} {known}{why}")
    return lines


def _follow_ups(state: JsonObject) -> list[str]:
    """Return a line per follow-up that is not over."""
    queue = state.get("followUpQueue")
    items = queue.get("items") if isinstance(queue, dict) else None
    return [
        f"{GLYPH_FOLLOW_UP} {text_of(item.get('state')).replace('_', ' ')}  "
        f"{_cell(first_line(text_of(item.get('prompt'))))}"
        for item in (items if isinstance(items, list) else [])
        if isinstance(item, dict) and item.get("state") not in {"sent", "removed", "cancelled"}
    ]


def _cell(text: str) -> str:
    line = safe_line(text)
    return line if len(line) <= _CELL_MAX else f"{line[: _CELL_MAX - 1]}…"
