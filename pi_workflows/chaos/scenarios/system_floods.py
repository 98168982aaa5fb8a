"""The whole system while clients ask for more than they take, and more than anybody may."""

from contextlib import suppress
from typing import Final

import trio

from actors.client_session import IN_FLIGHT_MAX
from pi_workflows.chaos.core_workflows import all_added_up, core_workflows
from pi_workflows.chaos.flooding import Flooder, flooder, lock_out
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.client.errors import Refused
from pi_workflows.protocol.frames import FRAME_BYTES_MAX
from runtime.simulation.streams import CAPACITY_BYTES

_UNREAD: Final = 400
"""Requests whose answers nobody reads: more than sockets and shares hold."""

_CONNECTIONS: Final = 6
_AT_ONCE: Final = 30
"""Commands of one connection at once; of all together more than a batch takes."""

_LOCKED_S: Final = 3.0
"""Less than a command waits for the lock before it is refused."""

_PATIENCE_S: Final = 20.0
_READ_S: Final = 100.0
_DUE_FRAMES: Final = 20
_WAITING_FRAMES: Final = 100

_LOG_FRAMES: Final = _WAITING_FRAMES + 150
"""What waits; what the checkpoints before and after it find; what a start writes before its first
one; and the batches in between."""

_FRAME_OF_LOG_BYTES: Final = 4_120

_IN_FLIGHT: Final = IN_FLIGHT_MAX
"""Read once: what is held against it may be changed in a process that is to break it."""

_FRAME_BYTES: Final = FRAME_BYTES_MAX


@simulation(promises=("P8", "P10"))
def clients_flood(s: Stage) -> None:
    """Clients never read, ask for hundreds of things at once, and begin frames without an end.

    Each is held to its share, and the runs of the others come to their end. How many commands
    share a batch is counted at each one of them, in every scenario of the whole system.
    """
    core_workflows(s)
    s.run("tally", times=2)
    s.faults(kill=1)

    @s.actor()
    async def never_reads(world: SimulatedWorld) -> None:
        run_id = (await world.await_runs(1))[0]
        with suppress(trio.BrokenResourceError):  # Its server is killed.
            await _ask_and_never_read(await flooder(world), run_id)

    @s.actor()
    async def hurries(world: SimulatedWorld) -> None:
        await world.await_runs(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lock_out, world, _LOCKED_S)
            with suppress(trio.BrokenResourceError):
                await _ask_at_once([await flooder(world) for _ in range(_CONNECTIONS)])

    @s.actor()
    async def never_ends(world: SimulatedWorld) -> None:
        with suppress(trio.BrokenResourceError):
            await _begin_a_frame(await flooder(world))

    s.finally_(all_added_up)


@simulation(promises=("P8", "P10"))
def log_waits_for_a_reader(s: Stage) -> None:
    """The whole file is looked through for long, and all the time others write.

    The log cannot begin anew before the look is over, so the look is ended when too much waits.
    A checkpoint is due after 20 frames here, and 100 may wait; a log without a bound would come
    to a thousand and more.

    Case: D14.
    """
    core_workflows(s)
    s.run("tally", times=6)
    s.run("stubborn")
    s.log_frames = _DUE_FRAMES, _WAITING_FRAMES
    s.read_s = _READ_S
    s.faults(kill=1)

    @s.actor()
    async def looks(world: SimulatedWorld) -> None:
        await world.await_runs(1)
        with suppress(Refused):  # It was ended, and says so.
            await world.client().call("state.verify")

    @s.actor()
    async def measures(world: SimulatedWorld) -> None:
        client = world.client()
        for run_id in await world.await_runs(7):
            await world.await_end(client, run_id)
        log = f"{world.storage.paths.database.name}-wal"
        frames = world.storage.disk.size_of(log) // _FRAME_OF_LOG_BYTES
        if frames > _LOG_FRAMES:
            raise InvariantBroken(f"the log holds {frames} frames; {_LOG_FRAMES} may", "P10")

    s.finally_(all_added_up)


async def _ask_and_never_read(client: Flooder, run_id: str) -> None:
    """Ask until nothing more is taken.

    Raises:
        InvariantBroken: more is taken than a connection may have in flight.
    """
    frame_bytes = await client.ask("view.run.get", run_id=run_id)
    answer_bytes = answers = 0
    while not answers:
        got, answers = await client.take()
        answer_bytes += got
    on_the_way = 2 * CAPACITY_BYTES // frame_bytes + CAPACITY_BYTES // answer_bytes
    bound = _IN_FLIGHT + on_the_way + 3  # One that waits for room, and torn ones at both ends.
    before = client.asked
    with trio.move_on_after(_PATIENCE_S):
        for _ in range(_UNREAD):
            await client.ask("view.run.get", run_id=run_id)
    if (taken := client.asked - before) > bound:
        raise InvariantBroken(
            f"{taken} requests were taken of a client that reads nothing; {bound} fit", "P10"
        )
    await client.leave()


async def _ask_at_once(clients: list[Flooder]) -> None:
    """Ask for everything at once, and then take what is answered."""
    for number in range(_AT_ONCE):
        for client in clients:
            await client.ask("run.cancel", run_id=f"nobody-{number}")
    for client in clients:
        answered = 0
        while answered < _AT_ONCE:
            answered += (await client.take())[1]
        await client.leave()


async def _begin_a_frame(client: Flooder) -> None:
    """Send more than a frame may have, without an end.

    Raises:
        trio.BrokenResourceError: the connection was closed, as it must be.
        InvariantBroken: it was not.
    """
    with trio.move_on_after(_PATIENCE_S):
        for _ in range(_FRAME_BYTES // CAPACITY_BYTES + 2):
            await client.send(b"x" * CAPACITY_BYTES)
        while True:
            await client.take()
    raise InvariantBroken(f"{_FRAME_BYTES} bytes and more were taken for one frame", "P10")
