"""Go round after round in the lane that the settings name, until they say stop.

A settings route, changed while it runs. In one terminal:

    pi-workflows run examples/steered_rounds.workflow.py --input '{"pause_seconds": 1}'

and in a second one, with the id that the first has printed:

    pi-workflows settings show RUN
    pi-workflows settings change RUN /lane=careful
    pi-workflows settings change RUN /pause_seconds=0.2
    pi-workflows settings change RUN /lane=stop
    pi-workflows settings history RUN
"""

import time
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from pi_workflows import Ctx, Route, Settings, SettingsChange, Workflow, allow

ROUNDS_MAX = 10_000


class Lane(StrEnum):
    """What the next round is to be."""

    QUICK = "quick"
    CAREFUL = "careful"
    STOP = "stop"


class RoundsIn(BaseModel):
    """How long a round rests at first."""

    model_config = ConfigDict(extra="forbid")

    pause_seconds: float = Field(default=1, ge=0, le=60)


class Steering(BaseModel):
    """What may be changed while the rounds go on."""

    lane: Lane = Lane.QUICK
    pause_seconds: float = Field(default=1, ge=0, le=60)


def still_going(change: SettingsChange[Steering]) -> None:
    """Refuse to go back: the last round may be over."""
    if change.before.lane is Lane.STOP:
        raise ValueError("the rounds are stopping; start another run")


steering = Settings(
    Steering,
    initial=lambda given: Steering(pause_seconds=given.pause_seconds),
    paths=[
        allow("/lane", read=["session", "human"], replace=["session", "human"]),
        allow("/pause_seconds", read=["human"], replace=["human"]),
    ],
    description="the lane of the next round, and how long it rests",
    validate_change=still_going,
)
wf = Workflow("steered_rounds", input=RoundsIn, settings=steering, max_steps=2 * ROUNDS_MAX)


@wf.settings_route()
def steer(ctx: Ctx[RoundsIn, Steering]) -> Route[Lane]:
    """Choose by the settings as they stand when the choice is recorded."""
    return Route(route=ctx.settings.lane)


@wf.compute()
def quick(ctx: Ctx[RoundsIn, Steering]) -> int:
    """Go one round; its pause is the one that stood when it began."""
    time.sleep(ctx.settings.pause_seconds)
    return ctx.visit


@wf.compute()
def careful(ctx: Ctx[RoundsIn, Steering]) -> int:
    """Go one round twice as slowly."""
    time.sleep(2 * ctx.settings.pause_seconds)
    return ctx.visit


@wf.compute()
def report(ctx: Ctx[RoundsIn, Steering]) -> dict[str, int]:
    """Count the rounds of both lanes."""
    return {
        "quick": ctx.get(quick) or 0,
        "careful": ctx.get(careful) or 0,
        "changes": ctx.settings_change_number,
    }


wf.route(steer, {Lane.QUICK: quick, Lane.CAREFUL: careful, Lane.STOP: report})
wf.edge(quick, steer)
wf.edge(careful, steer)
workflow = wf.build(start=steer)
