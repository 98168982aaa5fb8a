"""The whole system while servers start: beside a silent one, after a dead one, and in vain."""

from contextlib import nullcontext
from functools import partial
from signal import SIGKILL

import trio

from pi_workflows.chaos.core_workflows import all_added_up, core_workflows
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_server import SimulatedServer
from pi_workflows.chaos.simulated_state import locked_for_writing
from pi_workflows.chaos.simulated_world import HOME, SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.protocol.errors import ExitCode
from pi_workflows.protocol.paths import StatePaths
from runtime.process import ExitStatus
from runtime.simulation.network import SimulatedNetwork
from runtime.simulation.processes import SimulatedProcess
from runtime.sync_points import SyncPoint
from store import host
from store.host import HOST_CLAIM_MS

_CLAIM_S = HOST_CLAIM_MS / 1000
_PATIENCE_S = 60.0
"""Longer than any start takes that gives way."""

_AT_ONCE_S = 1.5
"""Two looks of half a second each, and what lies between them."""

_RUNS = 2
_STARTS = 6
_LOOK_S = 0.05
_STRANGE = 0.75
"""How often the more interesting of two beginnings is taken."""

_STEPS = tuple(point for point in SyncPoint if point.startswith("start."))
_WITH_EPOCH = _STEPS[_STEPS.index(SyncPoint.START_EPOCH_TAKEN) :]
_FILES = StatePaths(HOME)


async def ended(server: SimulatedServer) -> None:
    """Wait for the end of a server that has to end by itself, or be ended.

    Raises:
        InvariantBroken: it goes on.
    """
    with trio.move_on_after(_PATIENCE_S):
        await server.process.ended.wait()
        return
    raise InvariantBroken(f"{server.process.name} neither serves nor ends", "P9")


async def served_or_ended(server: SimulatedServer) -> None:
    """Wait until a start has succeeded or failed."""
    while server.is_alive and not server.serves:  # noqa: ASYNC110 - nobody tells of it
        await trio.sleep(_LOOK_S)


async def await_work(world: SimulatedWorld) -> None:
    """Wait until user code runs."""
    while not world.journal.executions:  # noqa: ASYNC110 - nobody tells of it
        await trio.sleep(_LOOK_S)


@simulation(promises=("P3", "P4", "P9"))
def silent_server(s: Stage) -> None:
    """A server stands still: its claim protects it, and once that lapses it is replaced at once.

    Case: C2, D14.
    """
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.keeps_server = False

    @s.actor()
    async def starter(world: SimulatedWorld) -> None:
        silent = world.start_server()
        await silent.await_served()
        await trio.sleep(_CLAIM_S + world.chance.random() * _CLAIM_S)
        world.machine.pause(silent.process)
        early = world.start_server()
        await served_or_ended(early)
        status = early.process.status
        if status is None or status.code != ExitCode.ALREADY_RUNNING or not silent.is_alive:
            raise InvariantBroken(f"beside a live claim a start came to {status}", "P3")
        await trio.sleep(_CLAIM_S)
        began_s = trio.current_time()
        successor = world.start_server()
        await ended(silent)
        took_s = trio.current_time() - began_s
        if took_s > _AT_ONCE_S:
            raise InvariantBroken(f"a server of no use was replaced after {took_s:g} s", "P9")
        await successor.await_served()

    s.finally_(all_added_up)


@simulation(promises=("P3", "P9"))
def number_of_the_dead(s: Stage) -> None:
    """A server is killed, and a stranger gets its number: nobody is asked, nobody is ended.

    The stranger listens where the server did, so that whoever asks would find it.

    Case: C3.
    """
    core_workflows(s)
    s.keeps_server = False
    asked: list[str] = []

    async def listen(world: SimulatedWorld, process: SimulatedProcess) -> int:
        network = SimulatedNetwork(world.machine.wires, process)
        await network.listen(_FILES.socket).accept()
        asked.append(process.name)
        await trio.sleep_forever()
        raise AssertionError

    @s.actor()
    async def starter(world: SimulatedWorld) -> None:
        killed = world.start_server()
        await killed.await_served()
        await trio.sleep(world.chance.random())
        killed.kill()
        stranger = world.machine.start("stranger", partial(listen, world))
        if world.chance.random() < _STRANGE:
            world.machine.processes.reuse = 1.0
            while stranger.pid != killed.process.pid:
                stranger = world.machine.start("stranger", partial(listen, world))
        await trio.sleep(_LOOK_S)
        await world.start_server().await_served()
        if stranger.status is not None:
            raise InvariantBroken("a stranger was ended for the number it has", "P3")
        client = world.client()
        await world.await_end(client, await world.start_run(client, "tally"))

    @s.finally_
    def nobody_was_asked(seen: Seen) -> None:
        assert not asked, "P9: a start has asked a stranger whether it is a server"
        all_added_up(seen)


def require_nothing_left(world: SimulatedWorld, server: SimulatedServer) -> None:
    """Check that a server that has ended by itself has left nothing that names it.

    Raises:
        InvariantBroken: it has.
    """
    left = [
        what
        for what, found in (
            ("the name of its process", _FILES.lock in world.machine.disk.files),
            ("its lock", _FILES.flock in world.machine.disk.locked),
            ("its socket", _FILES.socket in world.machine.wires.listening),
        )
        if found
    ]
    if left:
        raise InvariantBroken(f"{server.process.name} has left {' and '.join(left)}", "P9")


@simulation(promises=("P1", "P9"))
def start_in_vain(s: Stage) -> None:
    """The disk fails, or the file is somebody else's, while servers start: nothing is left.

    Case: C13.
    """
    core_workflows(s)
    s.keeps_server = False
    s.victims = frozenset()
    s.faults(disk_full=1, io_error=2, fsync_failure=1)

    @s.actor()
    async def starter(world: SimulatedWorld) -> None:
        for number in range(_STARTS):
            taken = number == 1 and world.storage.paths.database.exists()
            with locked_for_writing(world.storage) if taken else nullcontext():
                server = world.start_server()
                await served_or_ended(server)
            if server.is_alive:
                world.machine.terminate(server.process)
                await ended(server)
            require_nothing_left(world, server)
        world.calm()
        await world.start_server().await_served()
        client = world.client()
        await world.await_end(client, await world.start_run(client, "tally"))

    s.finally_(all_added_up)


@simulation(promises=("P1", "P3", "P9"))
def killed_at_each_step(s: Stage) -> None:
    """Servers are killed at each step of a start, perhaps of the first one there ever was.

    Case: C4.
    """
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.keeps_server = False
    epochs: list[int] = []

    @s.actor()
    async def starter(world: SimulatedWorld) -> None:
        epochs.append(0)
        if world.chance.random() < _STRANGE:
            first = world.start_server()
            await first.await_served()
            await await_work(world)
            first.kill()
            epochs.append(1)
        for step in _STEPS:
            server = world.start_server()
            server.sync_points.arm(step)
            await ended(server)
            if server.process.status != ExitStatus(None, SIGKILL):
                raise InvariantBroken(f"a start did not come to {step}", "P9")
            epochs.append(epochs[-1] + int(step in _WITH_EPOCH))
        await world.start_server().await_served()

    @s.finally_
    def one_epoch_each(seen: Seen) -> None:
        found = host.current(seen.reading).epoch
        assert found == epochs[-1] + 1, f"P3: epoch {found} after {epochs[-1]} starts"
        all_added_up(seen)
