"""Scenarios of the product's own core: what must hold whatever dies, sleeps or comes late.

Each is an async function of a `SimulatedWorld` and takes all its chance from there. They double as
examples of how a scenario is written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import trio

from pi_workflows.chaos.core_workflows import OUTPUT, WORKFLOWS
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.simulated_client import SimulatedClient
from pi_workflows.chaos.simulated_world import (
    Installation,
    Scenario,
    Simulated,
    SimulatedServer,
    SimulatedWorld,
    simulate,
)
from pi_workflows.client.errors import Refused
from pi_workflows.protocol.canonical import JsonObject
from runtime.sync_points import SyncPoint

RUNS: Final = 3
DEATHS: Final = 3
SLEEP_S: Final = 600.0
"""How long the machine sleeps, or how far its wall clock is set: ten minutes."""

_BUSY_S: Final = 6.0
"""About as long as the runs of a scenario take when nothing goes wrong."""

_INSTALLATION: Final = Installation(workflows=WORKFLOWS, capacity=2)

_NEVER_DEADLY: Final = frozenset({SyncPoint.SOCKET_MID_FRAME})
"""A frame is cut there by the streams of a simulation anyway."""


async def one_run(world: SimulatedWorld) -> None:
    """A run of compute and action nodes, and nothing else happens."""
    server, client = world.start_server(), world.client()
    await _complete(world, client, [await world.start_run(client, "tally")])
    await _stop(world, server)


async def several_runs(world: SimulatedWorld) -> None:
    """More runs than may be served at a time."""
    server, client = world.start_server(), world.client()
    await _complete(world, client, await _start_runs(world, client))
    await _stop(world, server)


async def runner_dies(world: SimulatedWorld) -> None:
    """Runners are killed at any instant."""
    server, client = world.start_server(), world.client()
    runs = await _start_runs(world, client)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_kill_runners, world)
        await _complete(world, client, runs)
        nursery.cancel_scope.cancel()
    await _stop(world, server)


async def runner_freezes(world: SimulatedWorld) -> None:
    """A runner stands still for a while, perhaps for longer than its claim lasts."""
    server, client = world.start_server(), world.client()
    runs = await _start_runs(world, client)
    await trio.sleep(world.chance.random() * _BUSY_S / 2)
    runners = world.runners()
    if runners:
        frozen = world.chance.choice(runners)
        world.machine.pause(frozen)
        await trio.sleep(world.chance.random() * 100)
        world.machine.resume(frozen)
    await _complete(world, client, runs)
    await _stop(world, server)


async def server_dies(world: SimulatedWorld) -> None:
    """Servers are killed at any instant, while they start too, and started again."""
    keeper = _Keeper(world)
    client = world.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        nursery.start_soon(_kill_servers, world, keeper)
        await _complete(world, client, await _start_runs(world, client))
        nursery.cancel_scope.cancel()
    await _stop(world, keeper.server)


async def server_dies_at_a_point(world: SimulatedWorld) -> None:
    """Servers die at named places: around BEGIN, COMMIT and reply, and in their start."""
    points = [point for point in SyncPoint if point not in _NEVER_DEADLY]

    def arm(server: SimulatedServer, number: int) -> None:
        if number <= DEATHS:
            times = 1 + int(world.chance.random() ** 2 * 12)
            server.sync_points.arm(world.chance.choice(points), times)

    keeper = _Keeper(world, arm)
    client = world.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        await _complete(world, client, await _start_runs(world, client))
        nursery.cancel_scope.cancel()
    await _stop(world, keeper.server)


async def server_freezes(world: SimulatedWorld) -> None:
    """A server stands still, another is started, then the first goes on."""
    keeper = _Keeper(world)
    client = world.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        runs = await _start_runs(world, client)
        frozen = keeper.server
        world.machine.pause(frozen.process)
        await trio.sleep(world.chance.random())
        second = world.start_server()
        await trio.sleep(world.chance.random() * 100)
        world.machine.resume(frozen.process)
        keeper.also(second)
        await _complete(world, client, runs)
        nursery.cancel_scope.cancel()
    for server in (frozen, second, keeper.server):
        if server.is_alive:
            await server.stop()
    _require_quiet(world)


async def machine_sleeps(world: SimulatedWorld) -> None:
    """The machine sleeps for ten minutes, or only its wall clock is set forward."""
    server, client = world.start_server(), world.client()
    runs = await _start_runs(world, client)
    await trio.sleep(world.chance.random() * _BUSY_S / 2)
    if world.chance.random() < 1 / 2:
        world.machine.step_clock(int(SLEEP_S * 1000))
    else:
        await world.machine.sleep(SLEEP_S)
    await _complete(world, client, runs)
    await _stop(world, server)


async def clock_goes_back(world: SimulatedWorld) -> None:
    """The wall clock is set back by an hour: no claim may be shortened by that."""
    server, client = world.start_server(), world.client()
    runs = await _start_runs(world, client)
    await trio.sleep(world.chance.random() * _BUSY_S / 2)
    world.machine.step_clock(-3_600_000)
    await _complete(world, client, runs)
    await _stop(world, server)


async def run_is_cancelled(world: SimulatedWorld) -> None:
    """A run is cancelled at any instant: it ends once, cancelled or completed."""
    server, client = world.start_server(), world.client()
    runs = await _start_runs(world, client)
    await trio.sleep(world.chance.random() * _BUSY_S)
    cancelled = world.chance.choice(runs)
    try:
        await client.call("run.cancel", {}, run_id=cancelled)
    except Refused as lost:
        if lost.outcome != "conflict":
            raise
    view = await world.await_end(client, cancelled)
    if _status(view) not in {"cancelled", "completed"}:
        raise InvariantBroken(f"{cancelled} was cancelled and is {_status(view)}")
    await _complete(world, client, [run for run in runs if run != cancelled])
    await _stop(world, server)


async def charged_once(world: SimulatedWorld) -> None:
    """Runners and servers die while a manual effect may be under way.

    A run completes, or stands still with its effect ambiguous; nobody charges twice.
    """
    keeper = _Keeper(world)
    client = world.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        runs = await _start_runs(world, client, "charge")
        nursery.start_soon(_kill_runners, world)
        nursery.start_soon(_kill_servers, world, keeper)
        for run_id in runs:
            view = await world.await_end(client, run_id)
            if _status(view) not in {"completed", "ambiguous"}:
                raise InvariantBroken(f"{run_id} is {_status(view)}: {view}")
        nursery.cancel_scope.cancel()
    await _stop(world, keeper.server)


async def code_is_late(world: SimulatedWorld) -> None:
    """User code overruns its deadline, and now and then its grace, so that it is abandoned."""
    server, client = world.start_server(), world.client()
    await _complete(world, client, await _start_runs(world, client, "patience"))
    await _stop(world, server)


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
        code_is_late,
    )
}
"""Every scenario by its name."""


class _Keeper:
    """Starts another server whenever the last one has ended, as a client would on demand.

    Attributes:
        server: the newest one.
        started: how many there have been.
    """

    def __init__(
        self,
        world: SimulatedWorld,
        prepare: Callable[[SimulatedServer, int], None] = lambda _, __: None,
    ) -> None:
        """`prepare` is given every server, and its number, before it takes its first step."""
        self._world: Final = world
        self._prepare: Final = prepare
        self.started = 0
        self.server = self._start()

    async def keep(self) -> None:
        """Keep a server running until cancelled."""
        while True:
            await self.server.process.ended.wait()
            await trio.sleep(self._world.chance.random())
            self.server = self._start()

    def also(self, server: SimulatedServer) -> None:
        """Take the end of another server for that of the newest."""
        if server.is_alive:
            self.server = server

    def _start(self) -> SimulatedServer:
        server = self._world.start_server()
        self.started += 1
        self._prepare(server, self.started)
        return server


async def _start_runs(
    world: SimulatedWorld, client: SimulatedClient, workflow: str = "tally"
) -> list[str]:
    return [await world.start_run(client, workflow) for _ in range(RUNS)]


async def _complete(world: SimulatedWorld, client: SimulatedClient, runs: list[str]) -> None:
    """Wait until all runs have ended.

    Raises:
        InvariantBroken: one did not complete with its output.
    """
    for run_id in runs:
        view = await world.await_end(client, run_id)
        if _status(view) != "completed" or view.get("finalOutput") != OUTPUT:
            raise InvariantBroken(f"{run_id} is {_status(view)}, not completed: {view}")


def _status(view: JsonObject) -> object:
    display = view["display"]
    assert isinstance(display, dict)
    return display["status"]


async def _stop(world: SimulatedWorld, server: SimulatedServer) -> None:
    if server.is_alive:
        await server.stop()
    _require_quiet(world)


def _require_quiet(world: SimulatedWorld) -> None:
    """Check that a server that was stopped in order has left no process behind."""
    left = [process.name for process in world.children()]
    if left:
        raise InvariantBroken(f"processes were left behind: {left}")


async def _kill_runners(world: SimulatedWorld) -> None:
    for _ in range(DEATHS):
        await trio.sleep(world.chance.random() * _BUSY_S)
        runners = world.runners()
        if runners:
            world.machine.kill(world.chance.choice(runners))


async def _kill_servers(world: SimulatedWorld, keeper: _Keeper) -> None:
    for _ in range(DEATHS):
        await trio.sleep(world.chance.random() * _BUSY_S)
        keeper.server.kill()
