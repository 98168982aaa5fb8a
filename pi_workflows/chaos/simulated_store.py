"""A process of a simulated world that owns the database and is no whole server."""

from collections.abc import Awaitable, Callable
from functools import partial

from pi_workflows.chaos.simulated_state import SimulatedStateFiles
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.protocol.errors import ExitCode
from runtime.process import ChildSpec
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.spawner import ChildProgram, SimulatedSpawner
from runtime.simulation.sync_points import SimulatedSyncPoints
from runtime.sync_points import SyncPoint
from runtime.world import World

StoreProgram = Callable[[World, SimulatedStateFiles], Awaitable[None]]


def start_store(
    world: SimulatedWorld, program: StoreProgram, at_place: Callable[[SyncPoint], None]
) -> SimulatedProcess:
    """Start it at once.

    Args:
        program: opens the database and works on it; starts no children.
        at_place: called wherever its store comes by, after what may befall a server there.
    """
    points: list[SimulatedSyncPoints] = []

    async def run(process: SimulatedProcess) -> int:
        spawner = SimulatedSpawner(world.machine, process, _childless)
        ports = world.machine.world_of(process, spawner, points[0])
        state = SimulatedStateFiles(world.storage, process, partial(world.opened, process))
        await program(ports, state)
        return ExitCode.OK

    def passing(process: SimulatedProcess, point: SyncPoint) -> None:
        world.passing(process, point)
        at_place(point)

    process = world.machine.start("store", run)
    points.append(SimulatedSyncPoints(process, world.machine.kill, passing))
    return process


def _childless(spec: ChildSpec) -> tuple[str, ChildProgram]:
    raise AssertionError(f"a store starts no children: {spec}")
