"""Append N lines to a file, one shell step each; a step that runs again finds its line there.

Made for pulling the plug: kill the runner or the server at any moment, and the file still ends
with every line exactly once.

    pi-workflows run examples/resumable_lines.workflow.py \
        --input '{"path": "/tmp/lines.txt", "lines": 20, "pause_seconds": 0.5}'
"""

from pathlib import Path

from pydantic import BaseModel, Field

from pi_workflows import Command, Ctx, Route, ShellResult, Workflow, idempotent
from enum import StrEnum


class LinesIn(BaseModel):
    """What to write."""

    path: Path
    lines: int = Field(default=10, ge=1, le=10_000)
    pause_seconds: float = Field(default=0.2, ge=0, le=60)


class Next(StrEnum):
    """Whether a line is still missing."""

    MORE = "more"
    DONE = "done"


wf = Workflow(
    "resumable_lines",
    input=LinesIn,
    title=lambda given: f"write {given.lines} lines",
    max_steps=20_001,
)

APPEND_ONCE = """
grep --quiet --line-regexp --fixed-strings "$1" "$2" 2>/dev/null || printf '%s\\n' "$1" >> "$2"
sleep "$3"
"""


def line_number(result: ShellResult) -> int:
    """A step's output is how many lines it has seen in the file."""
    return int(result.stdout or 0)


@wf.shell(effect=idempotent("lines.append"), timeout=120)
def append(ctx: Ctx[LinesIn]) -> Command:
    line = f"line {ctx.visit}"
    script = APPEND_ONCE
    return Command(
        command="sh",
        args=["-c", script, "append", line, str(ctx.input.path), str(ctx.input.pause_seconds)],
    )


@wf.compute()
def judge(ctx: Ctx[LinesIn]) -> Route[Next]:
    written = ctx.result(append)
    return Route(route=Next.DONE if written and ctx.visit >= ctx.input.lines else Next.MORE)


@wf.compute()
def report(ctx: Ctx[LinesIn]) -> dict[str, int]:
    return {"lines": len(ctx.input.path.read_text().splitlines())}


wf.edge(append, judge)
wf.route(judge, {Next.MORE: append, Next.DONE: report})
workflow = wf.build(start=append)
