"""The whole system while people look at it, by every way there is to look."""

from itertools import cycle
from typing import TYPE_CHECKING

import trio

from pi_workflows.chaos.core_workflows import all_added_up, core_workflows
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.simulated_client import SimulatedClient
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.client.errors import Refused

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

_RUNS = 2
_PAUSE_S_MAX = 0.5
_REST_S = 60.0
"""When the last word of a run that has ended is long said."""

OF_A_RUN = ("view.run.get", "run.status", "effect.list")
OF_ALL = ("run.list", "view.runs.page", "server.status", "state.status", "state.verify")


async def look(
    world: SimulatedWorld, client: SimulatedClient, operation: str, run_id: str
) -> None:
    """Ask once; a read may be refused while the state cannot be read.

    Raises:
        InvariantBroken: it is refused although nothing fails any more.
    """
    was_calm = world.has_calmed.is_set()
    payload: JsonObject = {"runId": run_id} if operation == "effect.list" else {}
    named = run_id if operation in {"view.run.get", "run.status"} else None
    try:
        await client.call(operation, payload, run_id=named)
    except Refused as refused:
        if was_calm:
            raise InvariantBroken(f"{operation} was refused: {refused.code}", "P8") from refused
        if refused.code not in {"INTERNAL", "STATE_BUSY", "STATE_UNREADABLE"}:
            raise


@simulation(promises=("P1", "P2", "P8"))
def everybody_looks(s: Stage) -> None:
    """Every question is asked again and again while runs act and things die; none writes.

    That no read path changes a byte is checked at every operation of the disk; that no event
    comes of it is seen in the end, when only the questions are left.

    Case: A94.
    """
    core_workflows(s)
    s.run("tally")
    s.run("parcel")
    s.faults(kill=2, pause=1, drop=2, power_cut=1)

    @s.actor()
    async def reader(world: SimulatedWorld) -> None:
        client = world.client()
        runs = await world.await_runs(_RUNS)
        for operation, run_id in zip(OF_A_RUN + OF_ALL, cycle(runs), strict=False):
            await look(world, client, operation, run_id)
            await trio.sleep(world.chance.random() * _PAUSE_S_MAX)

    @s.actor()
    async def late_reader(world: SimulatedWorld) -> None:
        client = world.client()
        for run_id in await world.await_runs(_RUNS):
            await world.await_end(client, run_id)
        await world.has_calmed.wait()
        await trio.sleep(_REST_S)
        before = world.timeline.last_event
        for operation in OF_A_RUN + OF_ALL:
            await look(world, client, operation, world.acknowledged_runs()[0])
        if world.timeline.last_event != before:
            raise InvariantBroken(f"looking has added events to the {before} there were")

    s.finally_(all_added_up)
