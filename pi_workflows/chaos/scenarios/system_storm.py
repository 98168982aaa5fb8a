"""Everything at once: first anything may fail, then nothing does and all must come to its end."""

import trio

from pi_workflows.chaos.core_workflows import WORKFLOWS, all_added_up, core_workflows
from pi_workflows.chaos.process_faults import TICKS
from pi_workflows.chaos.scenarios.system_commands import ends_once
from pi_workflows.chaos.simulated_client import SimulatedClient
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.client.errors import Refused
from pi_workflows.protocol.states import CommandOutcome

_RUNS_MIN, _RUNS_MAX = 2, 6
_PAUSE_S_MAX = 4.0
_SETTLED = frozenset({"completed", "cancelled", "ambiguous"})
_ALLOWED = frozenset({CommandOutcome.CONFLICT, CommandOutcome.REJECTED})
"""How a cancel may be refused: the run has ended before, or another reason was first."""


@simulation(promises=("P1", "P2", "P3", "P4", "P5", "P6", "P8", "P9"), core=True)
def storm(s: Stage) -> None:
    """Whatever may fail does: which of it, and how often, is drawn anew for each seed.

    Case: A32, D24.
    """
    core_workflows(s)
    s.faults(
        kill=8,
        pause=4,
        power_cut=2,
        sleep=(60.0, 600.0, 3_600.0),
        clock_jump=(600.0, -1_200.0, 45.0, -45.0),
        disk_full=2,
        io_error=2,
        fsync_failure=2,
        drop=5,
        duplicate=3,
        delay=6,
    )

    @s.actor()
    async def author(world: SimulatedWorld) -> None:
        client = world.client()
        for _ in range(world.chance.randint(_RUNS_MIN, _RUNS_MAX)):
            await world.start_run(client, world.chance.choice(sorted(WORKFLOWS)))
            await trio.sleep(world.chance.random() * _PAUSE_S_MAX)

    @s.actor()
    async def operator(world: SimulatedWorld) -> None:
        client = world.client()
        for _ in range(TICKS // 4):
            await trio.sleep(1)
            if world.has_calmed.is_set():
                return
            await act(world, client)

    s.always(ends_once)
    s.finally_(all_added_up)


async def act(world: SimulatedWorld, client: SimulatedClient) -> None:
    """Do what people do now and then."""
    if world.decide("people start another server", "no", "yes") == "yes":
        world.start_server()
    servers = world.servers()
    if world.decide("people stop the server", "no", "yes") == "yes" and servers:
        world.machine.terminate(servers[-1].process)
    runs = world.acknowledged_runs()
    if world.decide("people cancel a run", "no", "yes") == "yes" and runs:
        await cancel_in_passing(client, world.chance.choice(runs))


async def cancel_in_passing(client: SimulatedClient, run_id: str) -> None:
    """Cancel a run; nobody waits for a server that stands still."""
    with trio.move_on_after(_PAUSE_S_MAX):
        try:
            await client.call("run.cancel", {}, run_id=run_id)
        except Refused as refused:
            if refused.outcome not in _ALLOWED:
                raise
        return
    await client.leave()
