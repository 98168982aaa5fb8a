"""The whole system while people stop runs, let them go on and start them once more."""

import trio

from pi_workflows.chaos.core_workflows import all_added_up, core_workflows
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.client.errors import Refused
from pi_workflows.protocol.errors import ErrorCode

_RUNS = 3
_BUSY_S = 4.0
_STANDING_S = 120.0
"""Longer than any pause after a death, and than a claim lasts."""

_MOVES = frozenset({"lease.claimed", "node_started", "node_finished", "node_failed"})
_GOES_ON = frozenset({"run.resume_requested", "run_cancelled"})


async def pause_and_resume(world: SimulatedWorld, run_id: str) -> None:
    """Pause a run for a while; it may have ended before.

    Raises:
        InvariantBroken: it is not said to be paused although nobody has resumed it.
    """
    client = world.client()
    try:
        paused = await client.call("run.pause", {}, run_id=run_id)
    except Refused as ended:
        if ended.code != ErrorCode.RUN_ENDED:
            raise
        return
    if paused.receipt["verdict"] not in {"paused", "alreadyPaused"}:
        raise InvariantBroken(f"{run_id} was paused and is {paused.receipt}", "P2")
    await trio.sleep(world.chance.random() * _STANDING_S)
    try:
        await client.call("run.resume", {}, run_id=run_id)
    except Refused as ended:
        if ended.code != ErrorCode.RUN_ENDED:
            raise


def nothing_moves_while_paused(seen: Seen) -> None:
    """Between a pause and what ends it nobody claims the run, and no node of it moves."""
    paused: set[str] = set()
    for event in seen.events():
        if event.event_type == "run.paused":
            paused.add(event.resource_id)
        elif event.event_type in _GOES_ON:
            paused.discard(event.resource_id)
        assert event.event_type not in _MOVES or event.resource_id not in paused, (
            f"{event.event_type} while {event.resource_id} is paused"
        )


@simulation(promises=("P2", "P8"))
def run_is_paused(s: Stage) -> None:
    """Runs are paused and resumed at any instant, by two people: each comes to its end."""
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.run("stubborn")
    s.faults(kill=2, drop=1, duplicate=1)

    @s.actor(count=2)
    async def operator(world: SimulatedWorld) -> None:
        for _ in range(2):
            run_id = world.chance.choice(await world.await_runs(_RUNS))
            await trio.sleep(world.chance.random() * _BUSY_S)
            await pause_and_resume(world, run_id)

    s.always(nothing_moves_while_paused)
    s.finally_(all_added_up)
