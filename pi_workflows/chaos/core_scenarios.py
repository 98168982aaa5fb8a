"""Scenarios of the product's own core: what must hold whatever dies, sleeps or comes late.

Each is an async function of a `SimulatedWorld` and takes all its chance from there. They double as
examples of how a scenario is written.
"""

from dataclasses import dataclass
from typing import Final

import trio

from pi_workflows.chaos.core_workflows import WORKFLOWS
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.keeping import (
    Keeper,
    complete,
    require_quiet,
    start_runs,
    status_of,
    stop,
    watch_to_the_end,
)
from pi_workflows.chaos.simulated_world import (
    Installation,
    Scenario,
    Simulated,
    SimulatedServer,
    SimulatedWorld,
    simulate,
)
from pi_workflows.chaos.storm import storm
from pi_workflows.client.errors import Refused
from runtime.sync_points import SyncPoint

DEATHS: Final = 3
SLEEP_S: Final = 600.0
"""How long the machine sleeps, or how far its wall clock is set: ten minutes."""

_BUSY_S: Final = 6.0
"""About as long as the runs of a scenario take when nothing goes wrong."""

_STILL_S_MAX: Final = 60.0
"""Longest standstill before something else happens: twice as long as a claim lasts."""

_INSTALLATION: Final = Installation(workflows=WORKFLOWS, capacity=2)

_NEVER_DEADLY: Final = frozenset({SyncPoint.SOCKET_MID_FRAME})
"""A frame is cut there by the streams of a simulation anyway."""


async def one_run(world: SimulatedWorld) -> None:
    """A run of compute and action nodes, and nothing else happens."""
    server, client = world.start_server(), world.client()
    await complete(world, client, [await world.start_run(client, "tally")])
    await stop(world, server)


async def several_runs(world: SimulatedWorld) -> None:
    """More runs than may be served at a time."""
    server, client = world.start_server(), world.client()
    await complete(world, client, await start_runs(world, client))
    await stop(world, server)


async def runner_dies(world: SimulatedWorld) -> None:
    """Runners are killed at any instant."""
    server, client = world.start_server(), world.client()
    runs = await start_runs(world, client)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_kill_runners, world)
        await complete(world, client, runs)
        nursery.cancel_scope.cancel()
    await stop(world, server)


async def runner_freezes(world: SimulatedWorld) -> None:
    """A runner stands still for a while, perhaps for longer than its claim lasts."""
    server, client = world.start_server(), world.client()
    runs = await start_runs(world, client)
    await trio.sleep(world.chance.random() * _BUSY_S / 2)
    runners = world.runners()
    if runners:
        frozen = world.chance.choice(runners)
        world.machine.pause(frozen)
        await trio.sleep(world.chance.random() * 100)
        world.machine.resume(frozen)
    await complete(world, client, runs)
    await stop(world, server)


async def server_dies(world: SimulatedWorld) -> None:
    """Servers are killed at any instant, while they start too, and started again."""
    keeper = Keeper(world)
    client = world.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        nursery.start_soon(_kill_servers, world, keeper)
        await complete(world, client, await start_runs(world, client))
        nursery.cancel_scope.cancel()
    await stop(world, keeper.server)


async def server_dies_at_a_point(world: SimulatedWorld) -> None:
    """Servers die at named places: around BEGIN, COMMIT and reply, and in their start."""
    points = [point for point in SyncPoint if point not in _NEVER_DEADLY]

    def arm(server: SimulatedServer, number: int) -> None:
        if number <= DEATHS:
            times = 1 + int(world.chance.random() ** 2 * 12)
            server.sync_points.arm(world.chance.choice(points), times)

    keeper = Keeper(world, arm)
    client = world.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        await complete(world, client, await start_runs(world, client))
        nursery.cancel_scope.cancel()
    await stop(world, keeper.server)


async def server_freezes(world: SimulatedWorld) -> None:
    """A server stands still, another is started, and the first goes on if it still lives.

    The other one is refused, or takes over and ends exactly the first: that depends on whether
    the claim of the first has lapsed by then.
    """
    keeper = Keeper(world)
    client = world.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        runs = await start_runs(world, client)
        frozen = keeper.server
        world.machine.pause(frozen.process)
        await trio.sleep(world.chance.random() * _STILL_S_MAX)
        second = world.start_server()
        keeper.also(second)
        await trio.sleep(world.chance.random() * _STILL_S_MAX)
        world.machine.resume(frozen.process)
        await complete(world, client, runs)
        nursery.cancel_scope.cancel()
    for server in (frozen, second, keeper.server):
        if server.is_alive:
            await server.stop()
    require_quiet(world)


async def machine_sleeps(world: SimulatedWorld) -> None:
    """The machine sleeps for ten minutes, or only its wall clock is set forward."""
    server, client = world.start_server(), world.client()
    runs = await start_runs(world, client)
    await trio.sleep(world.chance.random() * _BUSY_S / 2)
    if world.chance.random() < 1 / 2:
        world.machine.step_clock(int(SLEEP_S * 1000))
    else:
        await world.machine.sleep(SLEEP_S)
    await complete(world, client, runs)
    await stop(world, server)


async def clock_goes_back(world: SimulatedWorld) -> None:
    """The wall clock is set back by an hour: no claim may be shortened by that."""
    server, client = world.start_server(), world.client()
    runs = await start_runs(world, client)
    await trio.sleep(world.chance.random() * _BUSY_S / 2)
    world.machine.step_clock(-3_600_000)
    await complete(world, client, runs)
    await stop(world, server)


async def run_is_cancelled(world: SimulatedWorld) -> None:
    """A run is cancelled at any instant: it ends once, cancelled or completed."""
    server, client = world.start_server(), world.client()
    runs = await start_runs(world, client)
    await trio.sleep(world.chance.random() * _BUSY_S)
    cancelled = world.chance.choice(runs)
    try:
        await client.call("run.cancel", {}, run_id=cancelled)
    except Refused as lost:
        if lost.outcome != "conflict":
            raise
    view = await world.await_end(client, cancelled)
    if status_of(view) not in {"cancelled", "completed"}:
        raise InvariantBroken(f"{cancelled} was cancelled and is {status_of(view)}")
    await complete(world, client, [run for run in runs if run != cancelled])
    await stop(world, server)


async def charged_once(world: SimulatedWorld) -> None:
    """Runners and servers die while a manual effect may be under way.

    A run completes, or stands still with its effect ambiguous; nobody charges twice.
    """
    keeper = Keeper(world)
    client = world.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        runs = await start_runs(world, client, "charge")
        nursery.start_soon(_kill_runners, world)
        nursery.start_soon(_kill_servers, world, keeper)
        for run_id in runs:
            view = await world.await_end(client, run_id)
            if status_of(view) not in {"completed", "ambiguous"}:
                raise InvariantBroken(f"{run_id} is {status_of(view)}: {view}")
        nursery.cancel_scope.cancel()
    await stop(world, keeper.server)


async def sent_once(world: SimulatedWorld) -> None:
    """Runners and servers die around an effect that can be looked for: it is sent once."""
    keeper = Keeper(world)
    client = world.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        runs = await start_runs(world, client, "parcel")
        nursery.start_soon(_kill_runners, world)
        nursery.start_soon(_kill_servers, world, keeper)
        await complete(world, client, runs)
        nursery.cancel_scope.cancel()
    await stop(world, keeper.server)


async def views_converge(world: SimulatedWorld) -> None:
    """A live view shows the end of its run, however many servers die meanwhile."""
    keeper = Keeper(world)
    client = world.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        nursery.start_soon(_kill_servers, world, keeper)
        runs = await start_runs(world, client)
        async with world.live_client() as live, trio.open_nursery() as watching:
            for run_id in runs:
                watching.start_soon(watch_to_the_end, live, run_id)
        await complete(world, client, runs)
        nursery.cancel_scope.cancel()
    await stop(world, keeper.server)


async def code_is_late(world: SimulatedWorld) -> None:
    """User code overruns its deadline, and now and then its grace, so that it is abandoned."""
    server, client = world.start_server(), world.client()
    await complete(world, client, await start_runs(world, client, "patience"))
    await stop(world, server)


@dataclass(frozen=True, slots=True)
class CoreScenario:
    """A scenario with what there is before it begins."""

    run: Scenario
    installation: Installation = _INSTALLATION

    def simulate(self, seed: int) -> Simulated:
        """Run it once; see `simulate`."""
        return simulate(self.run, seed, self.installation)


CORE: Final = {
    scenario.__name__: CoreScenario(scenario)
    for scenario in (
        one_run,
        several_runs,
        runner_dies,
        runner_freezes,
        server_dies,
        server_dies_at_a_point,
        server_freezes,
        machine_sleeps,
        clock_goes_back,
        run_is_cancelled,
        charged_once,
        sent_once,
        views_converge,
        code_is_late,
        storm,
    )
}
"""Every scenario by its name."""


async def _kill_runners(world: SimulatedWorld) -> None:
    for _ in range(DEATHS):
        await trio.sleep(world.chance.random() * _BUSY_S)
        runners = world.runners()
        if runners:
            world.machine.kill(world.chance.choice(runners))


async def _kill_servers(world: SimulatedWorld, keeper: Keeper) -> None:
    for _ in range(DEATHS):
        await trio.sleep(world.chance.random() * _BUSY_S)
        keeper.server.kill()
