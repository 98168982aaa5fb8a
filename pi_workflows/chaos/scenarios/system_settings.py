"""The whole system while people count up in the settings of a run that goes round and round."""

from typing import TYPE_CHECKING, Final, cast

import trio

from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_client import SimulatedClient
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.client.errors import Refused
from pi_workflows.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

STEERED: Final = '''"""Rounds of a second until the settings say stop."""

from enum import StrEnum

import trio
from pydantic import BaseModel

from pi_workflows import Ctx, Route, Settings, Workflow, allow


class Lane(StrEnum):
    go = "go"
    stop = "stop"


class Tune(BaseModel):
    lane: Lane = Lane.go
    count: int = 0


tune = Settings(
    Tune,
    initial=Tune(),
    paths=[allow("", read=["human"], replace=["human"])],
)
wf = Workflow("steered", settings=tune, max_steps=10_000)


@wf.settings_route()
def pick(ctx: Ctx[None, Tune]) -> Route[Lane]:
    return Route(route=ctx.settings.lane)


@wf.compute()
async def round_(ctx: Ctx[None, Tune]) -> int:
    await trio.sleep(1)
    return ctx.settings.count


@wf.compute()
def counted(ctx: Ctx[None, Tune]) -> int:
    return ctx.settings.count


wf.route(pick, {Lane.go: round_, Lane.stop: counted})
wf.edge(round_, pick)
workflow = wf.build(start=pick)
'''
_PEOPLE: Final = 2
_EACH: Final = 2
_TOGETHER: Final = _PEOPLE * _EACH
_PAUSE_S: Final = 4.0
_ASK_AGAIN: Final = frozenset(
    {ErrorCode.RUN_NOT_STARTED, ErrorCode.SETTINGS_STALE, ErrorCode.RESOLVER_FAILED}
)


async def count_up(client: SimulatedClient, run_id: str) -> None:
    """Add one to the count of a run, on exactly what was read; whoever is the last says stop."""
    while True:
        shown = (await client.call("settings.show", {}, run_id=run_id)).receipt
        (scope,) = cast("list[JsonObject]", shown["items"])
        count = cast("int", cast("JsonObject", scope["settings"])["count"]) + 1
        patch: list[JsonObject] = [{"op": "replace", "path": "/count", "value": count}]
        if count == _TOGETHER:
            patch.append({"op": "replace", "path": "/lane", "value": "stop"})
        payload: JsonObject = {
            "patch": [*patch],
            "expectedChangeNumber": scope["changeNumber"],
        }
        try:
            await client.call("run.changeSettings", payload, run_id=run_id)
        except Refused as refused:
            if refused.code not in _ASK_AGAIN:
                raise
            await trio.sleep(1)
        else:
            return


@simulation(promises=("P6", "P8"))
def run_is_steered(s: Stage) -> None:
    """Two people count up in the settings of a run, which sees the last of it and stops."""
    s.source("steered", STEERED)
    s.run("steered")
    s.faults(kill=2, drop=1, duplicate=1)

    @s.actor(count=_PEOPLE)
    async def person(world: SimulatedWorld) -> None:
        (run_id,) = await world.await_runs(1)
        client = world.client()
        for _ in range(_EACH):
            await trio.sleep(world.chance.random() * _PAUSE_S)
            await count_up(client, run_id)

    @s.finally_
    def all_was_counted_once(seen: Seen) -> None:
        (run,) = seen.runs
        assert run.status == "completed", f"the run is {run.status}"
        assert run.output == _TOGETHER, f"P6: {_TOGETHER} were counted as {run.output}"
