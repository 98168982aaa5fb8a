"""Try a command that fails or hangs for a while, with a growing pause, then give up clearly.

The command here counts its own tries in a file, so what happens is the same each time: it hangs
`hangs` times, then fails `fails` times, then works. Delete the file to begin again.

    pi-workflows run examples/flaky_retry.workflow.py \
        --input '{"counter": "/tmp/tries", "fails": 2, "hangs": 1}'
"""

from enum import StrEnum
from pathlib import Path

import trio
from pydantic import BaseModel, ConfigDict, Field

from pi_workflows import Command, Ctx, Route, ShellResult, Workflow, idempotent

TRIES_MAX = 50


class FlakyIn(BaseModel):
    """How the command misbehaves, and how patient we are."""

    model_config = ConfigDict(extra="forbid")

    counter: Path
    fails: int = Field(default=2, ge=0)
    hangs: int = Field(default=0, ge=0)
    tries_max: int = Field(default=5, ge=1, le=TRIES_MAX)
    timeout_seconds: float = Field(default=1, gt=0, le=60)
    pause_seconds: float = Field(default=0.1, ge=0, le=60)


class Next(StrEnum):
    """What follows a try that did not work."""

    AGAIN = "again"
    GIVE_UP = "give_up"


class Setback(Route[Next]):
    """One try that did not work."""

    tries: int
    error: str
    pause_seconds: float


class Verdict(BaseModel):
    """What came of it in the end."""

    worked: bool
    tries: int
    text: str


wf = Workflow(
    "flaky_retry",
    input=FlakyIn,
    title=lambda given: f"at most {given.tries_max} tries",
    max_steps=3 * TRIES_MAX,
)

FLAKY = """
tries=$(($(cat "$1" 2>/dev/null || echo 0) + 1))
echo "$tries" >"$1" || exit
if [ "$tries" -le "$2" ]; then exec sleep 3600; fi
if [ "$tries" -le "$(($2 + $3))" ]; then echo "try $tries: not today" >&2; exit 1; fi
echo "try $tries: it works"
"""


def first_line(result: ShellResult) -> str:
    """Take what the command printed."""
    return result.stdout.strip()


@wf.shell(
    effect=idempotent("flaky.call"),
    parse=first_line,
    timeout=lambda ctx: ctx.input.timeout_seconds,
)
def attempt(ctx: Ctx[FlakyIn]) -> Command:
    """Call the flaky command."""
    given = ctx.input
    values = [str(given.counter), str(given.hangs), str(given.fails)]
    return Command(command="sh", args=["-c", FLAKY, "flaky", *values])


@wf.compute()
def judge(ctx: Ctx[FlakyIn]) -> Setback:
    """Count the setback and decide whether to try again."""
    last = ctx.result(attempt)
    assert last is not None, "only a try leads here"
    return Setback(
        route=Next.AGAIN if ctx.visit < ctx.input.tries_max else Next.GIVE_UP,
        tries=ctx.visit,
        error=last.error or last.outcome,
        pause_seconds=min(60, ctx.input.pause_seconds * 2 ** (ctx.visit - 1)),
    )


@wf.compute(status_detail="waiting before the next try")
async def back_off(ctx: Ctx[FlakyIn]) -> None:
    """Wait twice as long each time."""
    await trio.sleep(ctx.output(judge).pause_seconds)


@wf.compute()
def succeed(ctx: Ctx[FlakyIn]) -> Verdict:
    """Say that it worked, and after how many tries."""
    setback = ctx.get(judge)
    return Verdict(
        worked=True, tries=1 + (setback.tries if setback else 0), text=ctx.output(attempt)
    )


@wf.compute()
def give_up(ctx: Ctx[FlakyIn]) -> Verdict:
    """Say that it did not, and why the last try failed."""
    setback = ctx.output(judge)
    return Verdict(worked=False, tries=setback.tries, text=setback.error)


wf.on_outcome(attempt, ok=succeed, failed=judge, timed_out=judge)
wf.route(judge, {Next.AGAIN: back_off, Next.GIVE_UP: give_up})
wf.edge(back_off, attempt)
workflow = wf.build(start=attempt)
