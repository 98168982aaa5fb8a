"""The whole system while people give commands that meet each other."""

import trio

from pi_workflows.chaos.core_workflows import all_added_up, core_workflows
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.keeping import status_of
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_server import SimulatedServer
from pi_workflows.chaos.simulated_state import locked_for_writing
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.client.errors import Refused
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from store.errors import StateBusyError

_RUNS = 3
_BUSY_S = 6.0
_LAUNCH_S = 0.3
"""About as long as it takes from a start to the first word of its runner."""

BUSY_S = 5.0
"""For how long a command waits for the write lock."""

_PATIENCE_S = BUSY_S - 0.1
_HELD_S_MAX = 25.0
"""Less than a claim lasts."""

_LOOK_S = 0.05

_OVER = frozenset({"cancelled", "completed"})
_MOVES = frozenset({"lease.claimed", "run_started", "node_started"})


async def cancel(world: SimulatedWorld, run_id: str) -> None:
    """Cancel a run; it may have ended before.

    Raises:
        InvariantBroken: it is neither cancelled nor completed in the end.
    """
    client = world.client()
    try:
        await client.call("run.cancel", {}, run_id=run_id)
    except Refused as lost:
        if lost.outcome != "conflict":
            raise
    status = status_of(await world.await_end(client, run_id))
    if status not in _OVER:
        raise InvariantBroken(f"{run_id} was cancelled and is {status}", "P2")


def ends_once(seen: Seen) -> None:
    """Each run has one end."""
    ends = [
        event.resource_id
        for event in seen.events()
        if event.event_type in {"run_cancelled", "run_completed", "run_failed"}
    ]
    assert len(ends) == len(set(ends)), f"more than one end: {sorted(ends)}"


@simulation(promises=("P2", "P8"))
def run_is_cancelled(s: Stage) -> None:
    """A run is cancelled at any instant: it ends once, cancelled or completed."""
    core_workflows(s)
    s.run("tally", times=_RUNS, ends=_OVER)
    s.faults(kill=2, drop=1, duplicate=1)

    @s.actor()
    async def owner(world: SimulatedWorld) -> None:
        run_id = world.chance.choice(await world.await_runs(_RUNS))
        await trio.sleep(world.chance.random() * _BUSY_S)
        await cancel(world, run_id)

    s.always(ends_once)
    s.finally_(all_added_up)


def nothing_goes_on_after_a_cancel(seen: Seen) -> None:
    """Nobody claims a run that was cancelled, and no node of it is started."""
    cancelled: set[str] = set()
    for event in seen.events():
        if event.event_type == "run_cancelled":
            cancelled.add(event.resource_id)
        assert event.event_type not in _MOVES or event.resource_id not in cancelled, (
            f"P4: {event.event_type} of {event.resource_id} after its cancel"
        )


@simulation(promises=("P2", "P8"))
def cancel_meets_launch(s: Stage) -> None:
    """A run is cancelled while it is queued or its runner is just being started."""
    core_workflows(s)
    s.run("tally", times=_RUNS, ends=_OVER)
    s.capacity = 1
    s.faults(kill=2, delay=2, duplicate=1)

    @s.actor(count=2)
    async def owner(world: SimulatedWorld) -> None:
        number = 1 + world.chance.randrange(_RUNS)
        run_id = (await world.await_runs(number))[-1]
        await trio.sleep(world.chance.random() * _LAUNCH_S)
        await cancel(world, run_id)

    s.always(ends_once)
    s.finally_(nothing_goes_on_after_a_cancel)
    s.finally_(all_added_up)


@simulation(promises=("P2", "P8"))
def retry_meets_cancel(s: Stage) -> None:
    """A run is cancelled while its node fails and waits for its next try."""
    core_workflows(s)
    s.run("stubborn", times=_RUNS, ends=_OVER)
    s.faults(kill=2, duplicate=1)

    @s.actor(count=2)
    async def owner(world: SimulatedWorld) -> None:
        run_id = world.chance.choice(await world.await_runs(_RUNS))
        await trio.sleep(world.chance.random() * _BUSY_S)
        await cancel(world, run_id)

    s.always(ends_once)
    s.finally_(nothing_goes_on_after_a_cancel)
    s.finally_(all_added_up)


def _serving(world: SimulatedWorld) -> list[str]:
    """Return the servers that have said that they are ready, and live."""
    ready: set[str] = set()
    for _, who, what, text in world.machine.trace.entries:
        if what == "started":  # A name may have been another process's before.
            ready.discard(who)
        elif what == "log" and "server_ready" in text:
            ready.add(who)
    return [p.name for p in world.machine.processes.living.values() if p.name in ready]


def require_reason(server: SimulatedServer, world: SimulatedWorld) -> None:
    """Check that a server that has ended by itself names who serves, or was told to stop.

    Raises:
        InvariantBroken: it does not.
    """
    status, words = server.process.status, server.process.output or ""
    if status is None or status.code in {None, ExitCode.OK}:
        return
    started = {who for _, who, what, _ in world.machine.trace.entries if what == "started"}
    named = any(f"(PID {name.rpartition('-')[2]})" in words for name in started)
    if status.code != ExitCode.ALREADY_RUNNING or not named:
        raise InvariantBroken(f"{server.process.name} ended with {status.code}: {words!r}", "P9")


@simulation(promises=("P3", "P8", "P9"))
def two_servers_start(s: Stage) -> None:
    """Several servers are started at one instant: one serves, the others say why not."""
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.faults(kill=2, pause=1)
    worlds: list[SimulatedWorld] = []
    hurried: list[SimulatedServer] = []

    @s.actor()
    async def hurry(world: SimulatedWorld) -> None:
        worlds.append(world)
        for _ in range(_RUNS):
            hurried.extend([world.start_server(), world.start_server()])
            await trio.sleep(world.chance.random() * _BUSY_S)
            if len(serving := _serving(world)) > 1:
                raise InvariantBroken(f"they serve at once: {', '.join(serving)}", "P3")

    @s.always
    def one_serves(_: Seen) -> None:
        serving = [one.process.name for world in worlds for one in world.servers() if one.serves]
        assert len(serving) <= 1, f"P3: they serve at once: {', '.join(serving)}"

    @s.finally_
    def others_say_why_not(seen: Seen) -> None:
        for server in hurried:
            require_reason(server, worlds[0])
        all_added_up(seen)


async def _hold_write_lock(world: SimulatedWorld, for_s: float, held: list[float]) -> None:
    """Hold the lock, as soon as it is free; note since when, and until when at least."""
    while True:
        try:
            with locked_for_writing(world.storage):
                held[:] = [trio.current_time(), trio.current_time() + for_s]
                await trio.sleep(for_s)
        except StateBusyError:
            await trio.sleep(_LOOK_S)
        else:
            return


def require_taken(refused: Refused, held: list[float]) -> None:
    """Check that a command was refused for the lock, and had waited for it as long as it should.

    Args:
        held: since when somebody else has had the lock, and until when.

    Raises:
        InvariantBroken: it had not.
    """
    since_s, until_s = held or (0.0, 0.0)
    is_busy = refused.code == ErrorCode.STATE_BUSY
    if not (is_busy and since_s + _PATIENCE_S <= trio.current_time() <= until_s + _LOOK_S):
        raise InvariantBroken(f"refused while the lock was free: {refused.code}", "P6")


@simulation(promises=("P2", "P6", "P8", "P10"))
def write_lock_is_taken(s: Stage) -> None:
    """Somebody else holds the write lock of the file, for less than five seconds or for more.

    Case: A27.
    """
    core_workflows(s)
    s.run("tally")
    held: list[float] = []
    started: list[str] = []

    @s.actor()
    async def stranger(world: SimulatedWorld) -> None:
        started.extend(await world.await_runs(1))
        for _ in range(_RUNS):
            await trio.sleep(world.chance.random() * _BUSY_S)
            await _hold_write_lock(world, _HELD_S_MAX * world.chance.random(), held)

    @s.actor()
    async def client(world: SimulatedWorld) -> None:
        asking = world.client()
        await world.await_runs(1)
        for _ in range(2 * _RUNS):
            await trio.sleep(world.chance.random() * _BUSY_S / 2)
            began_s = trio.current_time()
            try:
                started.append(await world.start_run(asking, "tally"))
            except Refused as refused:
                require_taken(refused, held)
            if trio.current_time() - began_s > BUSY_S + _LAUNCH_S:
                raise InvariantBroken("a command has waited for the lock without end", "P10")

    @s.finally_
    def only_what_was_answered(seen: Seen) -> None:
        assert len(seen.events("run_created")) == len(started), "P6: refused as busy, and done"
        all_added_up(seen)
