r"""A workflow for others to include: replace what a pattern matches in a file until none is left.

It has two ways out. `FIXED` carries how many lines it changed, `BLOCKED` says why it gave up.
Another file imports it, so its name is that of a module. It can be run by itself all the same:

    printf 'one\ttwo\n' >/tmp/notes.txt
    pi-workflows run examples/repair_flow.py \
        --input '{"path": "/tmp/notes.txt", "pattern": "\\t", "replacement": "    "}'
"""

import re
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from pi_workflows import Ctx, Route, Workflow, idempotent

TRIES_MAX = 3


class RepairIn(BaseModel):
    """What to replace, and where."""

    model_config = ConfigDict(extra="forbid")

    path: Path
    pattern: str = Field(min_length=1)
    replacement: str = ""


class Next(StrEnum):
    """What follows a look at the file."""

    CLEAN = "clean"
    MEND = "mend"
    GIVE_UP = "give_up"


class Seen(Route[Next]):
    """How many lines need repair."""

    lines: int


wf = Workflow("repair", input=RepairIn, source=__file__, max_steps=2 * TRIES_MAX + 2)


@wf.compute()
def look(ctx: Ctx[RepairIn]) -> Seen:
    """Count the lines that the pattern matches."""
    pattern = re.compile(ctx.input.pattern)
    lines = sum(1 for line in ctx.input.path.read_text().splitlines() if pattern.search(line))
    if lines == 0:
        return Seen(route=Next.CLEAN, lines=0)
    return Seen(route=Next.MEND if ctx.visit <= TRIES_MAX else Next.GIVE_UP, lines=lines)


@wf.action(effect=idempotent("repair.rewrite"))
def mend(ctx: Ctx[RepairIn]) -> int:
    """Rewrite the file; done twice, it is done."""
    given = ctx.input
    lines = given.path.read_text().splitlines()
    mended = [re.sub(given.pattern, given.replacement, line) for line in lines]
    given.path.write_text("".join(f"{line}\n" for line in mended))
    return sum(1 for before, after in zip(lines, mended, strict=True) if before != after)


@wf.compute()
def report(ctx: Ctx[RepairIn]) -> int:
    """Say how many lines the last rewriting has changed; 0 when there was nothing to do."""
    return ctx.get(mend) or 0


@wf.compute()
def explain(ctx: Ctx[RepairIn]) -> str:
    """Say why it is not clean."""
    return f"{ctx.output(look).lines} lines still match {ctx.input.pattern!r}"


wf.control_loop(
    look,
    return_to=look,
    routes={
        Next.MEND: {"to": mend, "returns": [mend]},
        Next.CLEAN: {"to": report, "terminal": True},
        Next.GIVE_UP: {"to": explain, "terminal": True},
    },
)
FIXED = wf.exit("fixed", report)
BLOCKED = wf.exit("blocked", explain)
workflow = wf.build(start=look)
