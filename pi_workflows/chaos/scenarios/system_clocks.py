"""The whole system under clocks that step, and a machine that sleeps."""

import trio

from pi_workflows.chaos.core_workflows import all_added_up, core_workflows
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation

_RUNS = 3
_BUSY_S = 6.0
"""About as long as the runs of a scenario take when nothing goes wrong."""


@simulation(promises=("P3", "P8"))
def machine_sleeps(s: Stage) -> None:
    """The machine sleeps for ten minutes and for an hour; its timers count that, or stand."""
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.faults(sleep=(600.0, 3_600.0), kill=1)
    s.finally_(all_added_up)


@simulation(promises=("P3", "P4", "P8"))
def clock_goes_forward_and_back(s: Stage) -> None:
    """The wall clock is set ten minutes forward, and later an hour back: no claim is shortened."""
    core_workflows(s)
    s.run("tally", times=_RUNS)
    s.faults(kill=1, pause=1)

    @s.actor()
    async def operator(world: SimulatedWorld) -> None:
        for step_ms in (600_000, -3_600_000):
            await trio.sleep(world.chance.random() * _BUSY_S)
            world.machine.step_clock(step_ms)

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

    @s.actor()
    async def doubt(world: SimulatedWorld) -> None:
        world.machine.processes.are_provable = False

    s.finally_(all_added_up)
