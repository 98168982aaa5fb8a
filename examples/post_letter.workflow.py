"""Post a letter once: an outside action that must not be repeated, and what a kill makes of it.

The letter box is a file. A letter is in it long before the office has confirmed it; whoever is
killed in between leaves an action of which nobody knows. It is called `ambiguous`, is never tried
again by itself, and you say what became of it after a look into the box.

    pi-workflows run examples/post_letter.workflow.py --detach \
        --input '{"box": "/tmp/letters.txt", "text": "hello", "office_seconds": 60}'
    kill -KILL "$(pi-workflows server status --json | jq .pid)"
    pi-workflows effects
    cat /tmp/letters.txt
    pi-workflows effects resolve EFFECT --applied --reason 'it is in the box' \
        --output '{"posted": "Dear all, hello"}'
    pi-workflows watch RUN
"""

from pathlib import Path

import trio
from pydantic import BaseModel, ConfigDict, Field

from pi_workflows import Ctx, Workflow, manual


class LetterIn(BaseModel):
    """What to post; a relative path is below the run's project folder."""

    model_config = ConfigDict(extra="forbid")

    box: Path
    text: str = Field(min_length=1, max_length=1_000)
    office_seconds: float = Field(default=1, ge=0, le=600)


class Receipt(BaseModel):
    """What the office has confirmed."""

    posted: str


wf = Workflow("post_letter", input=LetterIn, title=lambda given: f"post to {given.box.name}")


@wf.compute()
def write(ctx: Ctx[LetterIn]) -> str:
    """Write the letter; this may be done again at any time."""
    return f"Dear all, {ctx.input.text}"


@wf.action(effect=manual("letter.post"), status_detail="waiting for the office")
async def post(ctx: Ctx[LetterIn]) -> Receipt:
    """Put the letter into the box, then wait until the office has confirmed it."""
    letter = ctx.output(write)
    with ctx.input.box.open("a", encoding="utf-8") as box:
        box.write(f"{letter}\n")
    await trio.sleep(ctx.input.office_seconds)
    return Receipt(posted=letter)


@wf.compute()
def file_away(ctx: Ctx[LetterIn]) -> str:
    """Keep what was confirmed."""
    return f"posted: {ctx.output(post).posted}"


wf.edge(write, post)
wf.edge(post, file_away)
workflow = wf.build(start=write)
