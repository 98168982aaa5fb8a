"""Waits, and needs no process meanwhile: a run that waits survives restarts of the machine.

    wf.include("pause", "builtin:wait", input=lambda ctx: {"seconds": 3600})

It is left by the exit `waited`.
"""

import time
from datetime import timedelta
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from pi_workflows import Ctx, Retry, RetryLater, Workflow

DAYS_MAX: Final = 30


class WaitIn(BaseModel):
    """How long.

    Attributes:
        seconds: at most 30 days.
    """

    model_config = ConfigDict(extra="forbid")

    seconds: float = Field(ge=0, le=DAYS_MAX * 86_400)


wf = Workflow("wait", input=WaitIn, contract_id="pi-workflows.wait.v1", source=__file__)


@wf.compute()
def set_end(ctx: Ctx[WaitIn]) -> float:
    """Say when it is over, in seconds since 1970; recorded, so that a crash does not extend it."""
    return time.time() + ctx.input.seconds


# It is tried again when it is due, and earlier if a person resumes the run.
@wf.compute(
    retry=Retry(attempts=100, backoff=0, max_backoff=timedelta(days=DAYS_MAX), outcomes=["failed"])
)
def wait(ctx: Ctx[WaitIn]) -> float:
    """Return how many seconds were waited, once they are over."""
    left = ctx.output(set_end) - time.time()
    if left > 0:
        raise RetryLater(left, f"{ctx.input.seconds:.4g} s in all")
    return ctx.input.seconds


wf.edge(set_end, wait)
WAITED = wf.exit("waited", wait)
workflow = wf.build(start=set_end)
