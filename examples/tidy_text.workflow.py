r"""Tidy a text file: one workflow included twice, for spaces at the ends of lines and for tabs.

The child stands in `repair_flow.py` beside this file. It is left by one of two exits, and the
parent decides by which one it came back.

    printf 'one \n\ttwo\n' >/tmp/notes.txt
    pi-workflows run examples/tidy_text.workflow.py --input '{"path": "/tmp/notes.txt"}'
"""

from pathlib import Path

import repair_flow as repair
from pydantic import BaseModel, ConfigDict

from pi_workflows import Ctx, Workflow


class TidyIn(BaseModel):
    """Which file, and what stands in the place of a tab."""

    model_config = ConfigDict(extra="forbid")

    path: Path
    tab: str = "    "


class Tidied(BaseModel):
    """How many lines were changed; None for what could not be tidied."""

    ends: int | None
    tabs: int | None
    problem: str | None = None


wf = Workflow("tidy_text", input=TidyIn, title=lambda given: f"tidy {given.path.name}")


@wf.compute()
def find(ctx: Ctx[TidyIn]) -> int:
    """Count the lines; there is no file to tidy without one."""
    return len(ctx.input.path.read_text().splitlines())


ends = wf.include(
    "ends",
    repair.workflow,
    input=lambda ctx: repair.RepairIn(path=ctx.input.path, pattern=r"[ \t]+$"),
)
tabs = wf.include(
    "tabs",
    repair.workflow,
    input=lambda ctx: repair.RepairIn(
        path=ctx.input.path, pattern=r"\t", replacement=ctx.input.tab
    ),
)


@wf.compute()
def report(ctx: Ctx[TidyIn]) -> Tidied:
    """Say what was done, and what was not."""
    return Tidied(
        ends=ctx.exited(ends, repair.FIXED),
        tabs=ctx.exited(tabs, repair.FIXED),
        problem=ctx.exited(ends, repair.BLOCKED) or ctx.exited(tabs, repair.BLOCKED),
    )


wf.edge(find, ends)
wf.edge(ends[repair.FIXED], tabs)
wf.edge(ends[repair.BLOCKED], report)
wf.edge(tabs[repair.FIXED], report)
wf.edge(tabs[repair.BLOCKED], report)
workflow = wf.build(start=find)
