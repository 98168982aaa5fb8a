"""Runs a command again and again, until it succeeds or a deadline has passed.

    pi-workflows run builtin:monitor --input '{"command": "curl -fsS localhost:8080/ready"}'

Between two checks the run needs no process. Included, it is left by the exit `met` or `timed_out`.
"""

import time
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pi_workflows import Command, Ctx, Route, ShellResult, Workflow, idempotent

CHECKS_MAX: Final = 20_000
OUTPUT_CHARS: Final = 4_000
DAYS_MAX: Final = 30
MOMENT_S: Final = 0.001
LAST_CHECK_S: Final = 1.0


class MonitorIn(BaseModel):
    """What to check, how often, and for how long; times are seconds.

    Attributes:
        command: a command line for `/bin/sh`; the condition is met when it exits with code 0.
        expect: text that the end of its output must hold as well; null is content with code 0.
        cwd: where it runs, a folder that is there; null is the project folder.
        every: pause between two checks.
        within: from the first check on. A check that is under way when this is over is cut off;
            if there is none, the last one is made then, and has one second.
        check_timeout: bound of one check.
    """

    model_config = ConfigDict(extra="forbid")

    command: str = Field(min_length=1)
    expect: str | None = Field(default=None, min_length=1)
    cwd: Path | None = None
    every: float = Field(default=30, gt=0, le=DAYS_MAX * 86_400)
    within: float = Field(default=3600, gt=0, le=DAYS_MAX * 86_400)
    check_timeout: float = Field(default=60, gt=0, le=3600)

    @model_validator(mode="after")
    def _bounded(self) -> "MonitorIn":
        if self.within / self.every > CHECKS_MAX:
            raise ValueError(f"within / every is at most {CHECKS_MAX} checks")
        return self


class Look(BaseModel):
    """What a check has seen; `exit_code` is None when a signal ended the command."""

    exit_code: int | None
    output: str


class Next(StrEnum):
    """What a check leads to."""

    MET = "met"
    AGAIN = "again"
    TIMED_OUT = "timed_out"


class Verdict(Route[Next]):
    """What follows a check.

    Attributes:
        told: the check in a few words.
        checks: how many there were.
        waited: seconds since the first.
        pause: seconds until the next, if there is one.
    """

    told: str
    checks: int
    waited: float
    pause: float


class Watched(BaseModel):
    """What it came to.

    Attributes:
        last: the last check in a few words.
        output: the end of what the last check printed.
    """

    met: bool
    checks: int
    waited: float
    last: str
    output: str


wf = Workflow(
    "monitor",
    input=MonitorIn,
    title=lambda given: given.command[:200].splitlines()[0],
    max_steps=4 * CHECKS_MAX + 10,
    contract_id="pi-workflows.monitor.v1",
    source=__file__,
)


def end_of(result: ShellResult) -> Look:
    """Keep the end of what a check printed."""
    return Look(exit_code=result.exit_code, output=result.stdout[-OUTPUT_CHARS:])


@wf.compute()
def begin(ctx: Ctx[MonitorIn]) -> float:
    """Say when it began, in seconds since 1970.

    Raises:
        NotADirectoryError: no check could ever be made where they are to be made.
    """
    folder = Path.cwd() / (ctx.input.cwd or "")
    if not folder.is_dir():
        raise NotADirectoryError(f"cwd: there is no folder {folder}")
    return time.time()


def bound_of(ctx: Ctx[MonitorIn]) -> float:
    """Return how many seconds a check has: to the deadline at most, and at it a moment."""
    left = ctx.output(begin) + ctx.input.within - time.time()
    return min(ctx.input.check_timeout, max(left, LAST_CHECK_S))


@wf.shell(
    effect=idempotent("monitor.check"),
    parse=end_of,
    timeout=bound_of,
    status_detail="checks",
    allow_nonzero_exit=True,
)
def check(ctx: Ctx[MonitorIn]) -> Command:
    """Run the command once."""
    return Command(ctx.input.command, cwd=ctx.input.cwd, shell=True)  # noqa: S604 - its purpose


@wf.action(effect=idempotent("monitor.report"))
def report(ctx: Ctx[MonitorIn]) -> Verdict:
    """Say how it stands, and what is next."""
    given, look, checked = ctx.input, ctx.get(check), ctx.result(check)
    waited = max(0.0, time.time() - ctx.output(begin))
    is_met = look is not None and look.exit_code == 0 and (given.expect or "") in look.output
    left = given.within - waited
    route = Next.MET if is_met else Next.TIMED_OUT if left < MOMENT_S else Next.AGAIN
    if look is None:
        told = (checked and checked.error) or "the check failed"
    elif is_met or look.exit_code != 0:
        told = "ended by a signal" if look.exit_code is None else f"exit code {look.exit_code}"
    else:
        told = "the text that is expected is not there"
    goes_on = route is Next.AGAIN
    in_vain = "not met in time, " if route is Next.TIMED_OUT else ""
    ctx.progress(
        completed=round(min(waited, given.within), 1) if goes_on else None,
        total=given.within if goes_on else None,
        unit="s" if goes_on else None,
        label=f"{in_vain}check {ctx.visit}: {told}"[:200],
        status="waiting" if goes_on else "completed",
    )
    pause = min(given.every, max(0.0, left))
    return Verdict(route=route, told=told, checks=ctx.visit, waited=waited, pause=pause)


pause = wf.include(
    "pause", "builtin:wait", input=lambda ctx: {"seconds": ctx.output(report).pause}
)


def result_of(ctx: Ctx[MonitorIn]) -> Watched:
    """Sum up."""
    verdict, look = ctx.output(report), ctx.get(check)
    return Watched(
        met=verdict.route is Next.MET,
        checks=verdict.checks,
        waited=verdict.waited,
        last=verdict.told,
        output="" if look is None else look.output,
    )


@wf.compute()
def met(ctx: Ctx[MonitorIn]) -> Watched:
    """Return what was seen."""
    return result_of(ctx)


@wf.compute()
def timed_out(ctx: Ctx[MonitorIn]) -> Watched:
    """Return what was seen last."""
    return result_of(ctx)


wf.edge(begin, check)
wf.on_outcome(check, ok=report, failed=report, timed_out=report)
wf.route(report, {Next.MET: met, Next.AGAIN: pause, Next.TIMED_OUT: timed_out})
wf.edge(pause["waited"], check)
MET = wf.exit("met", met)
TIMED_OUT = wf.exit("timed_out", timed_out)
workflow = wf.build(start=begin)
