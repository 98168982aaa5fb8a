"""The whole system while a run is owned: by a runner that does nothing, over a long sleep."""

from dataclasses import replace
from itertools import cycle

import trio

from pi_workflows.chaos.core_workflows import all_added_up, core_workflows
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.scenarios.system_starts import await_work
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import QueueStatus
from pi_workflows.runner.messages import Call
from pi_workflows.runner.wire import Identity
from store import host, run_queue
from store.authority import holding

_RUNS = 2
_FORGERIES = 4
_WORDS_MAX = 5
"""Fewer messages than a child sends from one run's begin to its end."""

_STILL_S = 100.0
"""Longer than three claims last."""

_ASLEEP_S = 600.0
_BUSY_S = 5.0
_AWAKE_S = 20.0
"""Longer than the pause between two signs of life of a server."""


def long_work(_: Call, drawn: float) -> float:
    """Let each piece of user code take between half a minute and two claims."""
    return 30.0 * (1.0 + drawn)


def generations(seen: Seen) -> dict[str, list[int | None]]:
    """Return the generations under which each run was claimed, in order."""
    found: dict[str, list[int | None]] = {}
    for event in seen.events("lease.claimed"):
        found.setdefault(event.resource_id, []).append(event.lease_generation)
    return found


@simulation(promises=("P3", "P8"))
def blocked_runner(s: Stage) -> None:
    """User code takes minutes, and a runner stands still: the claims of the runs are renewed.

    Case: C53.
    """
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.work_s = long_work

    @s.actor()
    async def freezer(world: SimulatedWorld) -> None:
        await await_work(world)
        runner = world.runners()[0]
        world.machine.pause(runner)
        await trio.sleep(_STILL_S)
        world.machine.resume(runner)

    @s.always
    def owned_all_the_time(seen: Seen) -> None:
        for run in seen.runs:
            if run_queue.require(seen.reading, run.run_id).status is QueueStatus.RUNNING:
                lease = holding(seen.reading, run_resource_id(run.run_id))
                assert lease.live(seen.now_ms), f"P3: nobody has renewed the claim of {run.run_id}"

    @s.finally_
    def claimed_once(seen: Seen) -> None:
        for run_id, claimed in generations(seen).items():
            assert claimed == [1], f"P3: {run_id} was lost to {claimed} while its server lived"
        all_added_up(seen)


def _older(identity: Identity) -> Identity:
    return replace(identity, runner_epoch="runner-before")


def _unborn(identity: Identity) -> Identity:
    return replace(identity, generation=identity.generation + 1)


@simulation(promises=("P4", "P8"))
def child_of_another_epoch(s: Stage) -> None:
    """A child's words name another epoch, or another generation: it is turned away.

    What it says is not looked at, it ends, and the run comes to its end without a failure.

    Case: C33, C54.
    """
    core_workflows(s)
    s.run("tally", times=_RUNS)
    forged: set[str] = set()
    heard: list[str] = []
    left: list[int] = []
    others = cycle((_older, _unborn))

    @s.actor()
    async def forger(world: SimulatedWorld) -> None:
        left[:] = [world.chance.randrange(1, _WORDS_MAX) for _ in range(_FORGERIES)]

    def other(identity: Identity) -> Identity:
        own = identity.runner_epoch
        if own in forged:
            heard.append(own)
        if not left:
            return identity
        left[0] -= 1
        if left[0] > 0:
            return identity
        del left[0]
        forged.add(own)
        return next(others)(identity)

    s.speaks_as = other

    @s.finally_
    def turned_away(seen: Seen) -> None:
        assert len(forged) == _FORGERIES, f"P4: {len(forged)} children spoke for another one"
        assert not heard, f"P4: who spoke for another one was heard and went on: {heard}"
        assert not seen.events("node_failed"), "P4: losing a claim is a failure"
        all_added_up(seen)


@simulation(promises=("P3", "P8"))
def ten_minutes_asleep(s: Stage) -> None:
    """The machine sleeps for ten minutes: the server stays, and its run is claimed anew.

    Its timers count that time, or stand still.

    Case: C5, C55.
    """
    core_workflows(s)
    s.run("tally")
    s.keeps_server = False
    s.work_s = long_work

    @s.actor()
    async def lid(world: SimulatedWorld) -> None:
        server = world.start_server()
        await server.await_served()
        await await_work(world)
        await trio.sleep(world.chance.random() * _BUSY_S)
        if world.chance.random() < 1 / 2:
            await world.machine.sleep(_ASLEEP_S)
        else:
            world.machine.step_clock(round(_ASLEEP_S * 1000))
        await trio.sleep(_AWAKE_S)
        if not server.is_alive:
            raise InvariantBroken("a server has not outlived the sleep of its machine", "P8")

    @s.finally_
    def same_server_and_next_generation(seen: Seen) -> None:
        epoch = host.current(seen.reading).epoch
        assert epoch == 1, f"P3: the server has epoch {epoch} after its sleep"
        for run_id, claimed in generations(seen).items():
            assert claimed == [1, 2], f"P3: {run_id} was claimed under {claimed}"
        all_added_up(seen)
