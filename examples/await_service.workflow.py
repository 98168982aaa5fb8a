"""Waits for a service to become ready, and says so: the built-in monitor inside a workflow.

It checks by a command of yours, waits without a process in between, and gives up at a deadline.

    pi-workflows run examples/await_service.workflow.py \
        --input '{"name": "db", "check": "test -e /tmp/ready", "every": 2, "within": 60}'

and in a second terminal, to make it ready:

    touch /tmp/ready
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from pi_workflows import Ctx, Workflow, idempotent
from pi_workflows.builtins import monitor


class AwaitIn(BaseModel):
    """What to wait for.

    Attributes:
        name: of the service, for the report.
        check: a command that succeeds when it is ready.
        every: seconds between two checks.
        within: seconds until it gives up.
        report: where the report goes; a relative path is below the run's project folder.
    """

    model_config = ConfigDict(extra="forbid")

    name: str = "service"
    check: str = "test -e service.ready"
    every: float = Field(default=5, gt=0)
    within: float = Field(default=600, gt=0)
    report: Path = Path(".pi/reports/service-report.txt")


class Outcome(BaseModel):
    """What it came to."""

    ready: bool
    checks: int
    report: Path


wf = Workflow("await_service", input=AwaitIn, max_steps=10_000)


@wf.compute()
def prepare(ctx: Ctx[AwaitIn]) -> str:
    """Make the line of the report that is known from the beginning."""
    return f"{ctx.input.name}: checked with `{ctx.input.check}`"


# The contract gives the mapper and the exits of the built-in their types.
watch = wf.include(
    "watch",
    "builtin:monitor",
    contract=monitor.workflow,
    input=lambda ctx: monitor.MonitorIn(
        command=ctx.input.check, every=ctx.input.every, within=ctx.input.within
    ),
)


@wf.action(effect=idempotent("report.write"))
def report(ctx: Ctx[AwaitIn]) -> Outcome:
    """Write down whether it is ready, and what the last check saw."""
    ready, late = ctx.exited(watch, monitor.MET), ctx.exited(watch, monitor.TIMED_OUT)
    seen = ready or late
    assert seen is not None, "it is left by one of the two"
    said = "is ready" if ready else f"is not ready ({seen.last})"
    text = f"{ctx.output(prepare)}\n{ctx.input.name} {said}, after {seen.checks} checks\n"
    ctx.input.report.parent.mkdir(parents=True, exist_ok=True)
    ctx.input.report.write_text(text)
    return Outcome(ready=ready is not None, checks=seen.checks, report=ctx.input.report)


wf.edge(prepare, watch)
wf.edge(watch[monitor.MET], report)
wf.edge(watch[monitor.TIMED_OUT], report)
workflow = wf.build(start=prepare)
