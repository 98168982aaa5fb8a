"""The whole system while runners, servers and the machine under them die or stand still."""

import trio

from pi_workflows.chaos.core_workflows import all_added_up, core_workflows, no_node_failed
from pi_workflows.chaos.displaced import require_displaced
from pi_workflows.chaos.installation import some_work
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.keeping import watch_to_the_end
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.runner.messages import Call
from runtime.simulation.processes import SimulatedProcess

_RUNS = 3
_LOOK_S = 0.05
_SUCCEEDED_S = 30.0
"""Long after the next server has begun to serve."""

_STRANGERS_MAX = 60
_STRANGER_S = 0.3
"""Most of the time shorter than a start takes to come to the children of the last server."""

_OVER_ITS_GRACE_S = 5.0
_DECIDED_BY_A_PERSON = frozenset({"completed", "ambiguous"})


@simulation(promises=("P8",))
def one_run(s: Stage) -> None:
    """A run of compute and action nodes, and nothing else happens."""
    core_workflows(s)
    s.run("tally")
    s.finally_(all_added_up)


@simulation(promises=("P8",))
def several_runs(s: Stage) -> None:
    """More runs than may be served at a time, over wires that lose, repeat and delay."""
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.faults(drop=3, duplicate=2, delay=4)
    worlds: list[SimulatedWorld] = []

    @s.actor()
    async def doorman(world: SimulatedWorld) -> None:
        worlds.append(world)

    @s.always
    def no_more_than_may_be(_: Seen) -> None:
        for world in worlds:
            there = len(world.runners())
            assert there <= world.capacity, f"P8: {there} runners live, of {world.capacity}"

    s.finally_(all_added_up)


@simulation(promises=("P3", "P4", "P8"))
def runner_dies(s: Stage) -> None:
    """Runners are killed at any instant, and no node has failed by that.

    Case: C54.
    """
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.victims = frozenset({"runner"})
    s.faults(kill=3)
    s.finally_(no_node_failed)
    s.finally_(all_added_up)


@simulation(promises=("P3", "P4", "P8"))
def runner_freezes(s: Stage) -> None:
    """A runner stands still, perhaps for longer than its claim lasts, and then goes on.

    Whoever is replaced meanwhile has lost its claim; no node has failed by that.

    Case: C54.
    """
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.victims = frozenset({"runner"})
    s.faults(pause=2, delay=2)
    s.finally_(no_node_failed)
    s.finally_(all_added_up)


@simulation(promises=("P1", "P2", "P8", "P9"))
def server_dies(s: Stage) -> None:
    """Servers are killed at any instant and at named places, while they start too."""
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.victims = frozenset({"server"})
    s.faults(kill=4)
    s.finally_(all_added_up)


@simulation(promises=("P3", "P4", "P8", "P9"))
def server_freezes(s: Stage) -> None:
    """A server stands still, another is started, and the first goes on if it still lives.

    The other one is refused, or takes over and ends exactly the first: that depends on whether
    the claim of the first has lapsed by then.
    """
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.victims = frozenset({"server"})
    s.faults(pause=3)
    worlds: list[SimulatedWorld] = []

    @s.actor()
    async def starter(world: SimulatedWorld) -> None:
        worlds.append(world)
        for _ in range(2):
            await trio.sleep(world.chance.random() * _SUCCEEDED_S)
            world.start_server()

    @s.finally_
    def ended_exactly_the_first(seen: Seen) -> None:
        require_displaced(worlds[0].machine.trace.entries)
        all_added_up(seen)


@simulation(promises=("P3", "P8"))
def runner_outlives_its_server(s: Stage) -> None:
    """A runner stands still when its server is killed: the next server ends it before all else."""
    core_workflows(s)
    s.run("tally", times=2)

    @s.actor()
    async def fate(world: SimulatedWorld) -> None:
        while not world.runners():  # noqa: ASYNC110 - nobody tells of a new process
            await trio.sleep(_LOOK_S)
        runner = world.runners()[0]
        world.machine.pause(runner)
        for process in list(world.machine.processes.living.values()):
            if process.name.startswith("server-"):
                world.machine.kill(process)
        await trio.sleep(_SUCCEEDED_S)
        if runner.status is None:
            raise InvariantBroken(f"{runner.name} has outlived its server", "P3")

    s.finally_(all_added_up)


async def _come_and_stay(world: SimulatedWorld, strangers: list[SimulatedProcess]) -> None:
    """Start processes that have nothing to do with anything; they take what number is free."""
    while len(strangers) < _STRANGERS_MAX:
        await trio.sleep(world.chance.random() * _STRANGER_S)
        strangers.append(world.machine.start("stranger", _stay))


async def _stay(_: SimulatedProcess) -> int:
    await trio.sleep_forever()
    raise AssertionError


@simulation(promises=("P3", "P8"))
def names_are_used_again(s: Stage) -> None:
    """Every process gets the number of one that is gone, and nobody is taken for another.

    Strangers get such numbers too, and nobody ends one of them.
    """
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.faults(kill=5, pause=1)

    @s.actor()
    async def crowd(world: SimulatedWorld) -> None:
        world.machine.processes.reuse = 1.0
        strangers: list[SimulatedProcess] = []
        async with trio.open_nursery() as coming:
            coming.start_soon(_come_and_stay, world, strangers)
            client = world.client()
            for run_id in await world.await_runs(_RUNS):
                await world.await_end(client, run_id)
            coming.cancel_scope.cancel()
        ended = [one.name for one in strangers if one.status is not None]
        if ended:
            raise InvariantBroken(f"{ended[0]} was ended for the number that it has", "P3")

    s.finally_(all_added_up)


@simulation(promises=("P5", "P8"))
def charged_once(s: Stage) -> None:
    """Everything dies around a manual effect: nobody charges twice.

    A run completes, or stands still with its effect ambiguous.
    """
    core_workflows(s)
    s.run("charge", times=_RUNS, ends=_DECIDED_BY_A_PERSON)
    s.faults(kill=5, pause=1, power_cut=1, drop=1)
    s.finally_(all_added_up)


@simulation(promises=("P5", "P8"))
def sent_once(s: Stage) -> None:
    """Everything dies around an effect that can be looked for: it is sent once."""
    core_workflows(s)
    s.run("parcel", times=_RUNS)
    s.faults(kill=5, pause=1, power_cut=1, drop=1)
    s.finally_(all_added_up)


@simulation(promises=("P8",))
def views_converge(s: Stage) -> None:
    """A live view shows the end of its run, however many servers and connections die."""
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.victims = frozenset({"server"})
    s.faults(kill=3, drop=3, delay=2)

    @s.actor(count=_RUNS)
    async def viewer(world: SimulatedWorld) -> None:
        async with world.live_client() as live:
            run_id = world.chance.choice(await world.await_runs(_RUNS))
            await watch_to_the_end(live, run_id)

    s.finally_(all_added_up)


def _late_at_first(call: Call, drawn: float) -> float:
    """Let the first visit of `hurry` take longer than its grace, and others up to two seconds."""
    is_first = call.node.node_id == "hurry" and call.visit == 1
    return _OVER_ITS_GRACE_S if is_first else some_work(call, drawn)


@simulation(promises=("P8",))
def code_is_late(s: Stage) -> None:
    """User code overruns its deadline, and in the beginning its grace, so that it is abandoned.

    The run goes on in another process, and nothing runs beside what was abandoned.
    """
    core_workflows(s)
    s.run("patience", times=_RUNS)
    s.faults(kill=1)
    s.work_s = _late_at_first

    @s.finally_
    def abandoned(seen: Seen) -> None:
        late: dict[str, int | None] = {}
        for event in seen.events():
            run, generation = event.resource_id, event.lease_generation
            if event.event_type == "node_failed":
                late.setdefault(run, generation)
            beside = event.event_type == "node_started" and late.get(run) == generation
            assert not beside, f"P8: the child of {run} goes on beside code that it has abandoned"
        assert len(late) == _RUNS, f"P8: of {_RUNS} runs {len(late)} had code that was late"
        all_added_up(seen)


@simulation(promises=("P1", "P8", "P9"))
def power_goes(s: Stage) -> None:
    """The power goes, and the disk keeps as little of what was not flushed as it may."""
    core_workflows(s)
    for workflow in ("tally", "parcel", "stubborn"):
        s.run(workflow)
    s.faults(power_cut=2, kill=1)
    s.finally_(all_added_up)


@simulation(promises=("P1", "P2", "P8", "P9"))
def disk_fails(s: Stage) -> None:
    """The disk has no room, fails to read, write or flush, and then loses its power."""
    core_workflows(s)
    s.run("tally")
    s.run("parcel")
    s.victims = frozenset({"server"})
    s.faults(disk_full=2, io_error=3, fsync_failure=2, power_cut=1, kill=1)
    s.finally_(all_added_up)


@simulation(promises=("P9", "P12"))
def database_rots(s: Stage) -> None:
    """Pages of the database turn to junk or go, beside a server and between two lives of one.

    Whoever starts after that says so, writes nothing and acknowledges nothing, unless what has
    rotted stands in the log too, or is free. With a sound copy in its place all goes on.
    """
    core_workflows(s)
    s.run("tally", times=2)
    s.run("parcel")
    s.victims = frozenset({"server"})
    s.faults(rot=2, kill=3)
    s.finally_(all_added_up)
