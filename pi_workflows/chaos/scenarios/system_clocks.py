"""The whole system under clocks that step, and a machine that sleeps."""

from collections.abc import Iterator

import trio

from pi_workflows.chaos.core_workflows import all_added_up, core_workflows, no_node_failed
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.protocol.ids import run_resource_id
from store import host
from store.authority import holding

_RUNS = 3
_BUSY_S = 6.0
"""About as long as the runs of a scenario take when nothing goes wrong."""


def _claims(seen: Seen) -> Iterator[tuple[str, int, int | None]]:
    """Tell of every run's lease and of the server's claim its number, and until when it holds."""
    for run in seen.runs:
        lease = holding(seen.reading, run_resource_id(run.run_id))
        yield run.run_id, lease.generation, lease.expires_at
    server = host.current(seen.reading)
    yield "the server", server.epoch, server.expires_at


@simulation(promises=("P3", "P8"))
def machine_sleeps(s: Stage) -> None:
    """The machine sleeps for ten minutes and for an hour; its timers count that, or stand.

    A claim that is lost over it is no failure of a node.

    Case: C54.
    """
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.faults(sleep=(600.0, 3_600.0), kill=1)
    s.finally_(no_node_failed)
    s.finally_(all_added_up)


@simulation(promises=("P3", "P4", "P8"))
def clock_goes_forward_and_back(s: Stage) -> None:
    """The wall clock is set ten minutes forward, and later an hour back: no claim is shortened."""
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.faults(kill=1, pause=1)
    until: dict[tuple[str, int], int] = {}

    @s.actor()
    async def operator(world: SimulatedWorld) -> None:
        for step_ms in (600_000, -3_600_000):
            await trio.sleep(world.chance.random() * _BUSY_S)
            world.machine.step_clock(step_ms)

    @s.always
    def never_shortened(seen: Seen) -> None:
        for who, number, expires_at in _claims(seen):
            before = until.get((who, number), 0)
            if expires_at is not None:
                until[who, number] = expires_at
                assert expires_at >= before, f"P3: claim {number} of {who} was shortened"

    s.finally_(all_added_up)


@simulation(promises=("P3", "P8"))
def clock_jumps(s: Stage) -> None:
    """The wall clock jumps in any order, and by more than any claim lasts."""
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.faults(clock_jump=(600.0, -3_600.0, 31.0, -31.0), kill=1)
    s.finally_(all_added_up)


@simulation(promises=("P3", "P4", "P8"))
def nobody_can_be_proven(s: Stage) -> None:
    """Servers stand still whose identity cannot be proven: they are not ended, only outwaited."""
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.victims = frozenset({"server"})
    s.faults(pause=2, kill=2)

    worlds: list[SimulatedWorld] = []

    @s.actor()
    async def doubt(world: SimulatedWorld) -> None:
        worlds.append(world)
        world.machine.processes.are_provable = False

    @s.finally_
    def nobody_was_ended(seen: Seen) -> None:
        told = [text for _, _, what, text in worlds[0].machine.trace.entries if what == "log"]
        ended = [text for text in told if "server_displaced" in text]
        assert not ended, f"P3: a server was ended of which nothing was proven: {ended[0]}"
        all_added_up(seen)
