"""Append N lines to a file, one shell step each; a step that runs again finds its line there.

Made for pulling the plug: kill the runner or the server at any moment, and the file still ends
with every line exactly once, in order.

    pi-workflows run examples/resumable_lines.workflow.py \
        --input '{"path": "/tmp/lines.txt", "lines": 20, "pause_seconds": 0.5}'
"""

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from pi_workflows import Command, Ctx, Route, ShellResult, Workflow, idempotent

LINES_MAX = 10_000


class LinesIn(BaseModel):
    """What to write; a relative path is below the run's project folder."""

    model_config = ConfigDict(extra="forbid")

    path: Path
    lines: int = Field(default=10, ge=1, le=LINES_MAX)
    pause_seconds: float = Field(default=0.2, ge=0, le=60)


class Next(StrEnum):
    """Whether a line is still missing; the words are what the script prints."""

    MORE = "more"
    DONE = "done"


wf = Workflow(
    "resumable_lines",
    input=LinesIn,
    title=lambda given: f"write {given.lines} lines",
    max_steps=LINES_MAX + 1,
)

# A short line is one write, so a kill leaves the whole line or none of it. The pause comes after
# the write: a kill in it is the case where the line is there and its step is not.
APPEND_ONCE = """
grep -qxF "line $1" "$3" 2>/dev/null || printf 'line %s\\n' "$1" >>"$3" || exit
sleep "$4"
if [ "$1" -lt "$2" ]; then echo more; else echo done; fi
"""


def printed_word(result: ShellResult) -> Route[Next]:
    """Read the script's last word."""
    return Route(route=Next(result.stdout.strip()))


@wf.shell(effect=idempotent("lines.append"), parse=printed_word, timeout=120)
def append(ctx: Ctx[LinesIn]) -> Command:
    """Write line i if it is absent; i is the visit, which a crash does not count up."""
    given = ctx.input
    values = [str(ctx.visit), str(given.lines), str(given.path), str(given.pause_seconds)]
    return Command(command="sh", args=["-c", APPEND_ONCE, "append", *values])


@wf.compute()
def report(ctx: Ctx[LinesIn]) -> dict[str, int]:
    """Count what is there now."""
    return {"lines": len(ctx.input.path.read_text(encoding="utf-8").splitlines())}


wf.route(append, {Next.MORE: append, Next.DONE: report})
workflow = wf.build(start=append)
