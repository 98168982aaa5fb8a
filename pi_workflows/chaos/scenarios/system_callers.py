"""Callers of the store who stop waiting, wherever it is with their command."""

from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import Stage, simulation
from pi_workflows.chaos.store_callers import StoreCallers


@simulation(promises=("P1", "P2", "P6", "P7"))
def stops_waiting(s: Stage) -> None:
    """Callers stop waiting: before their command is taken, while it runs, while it commits."""
    s.keeps_server = False
    callers = StoreCallers()

    @s.actor()
    async def process(world: SimulatedWorld) -> None:
        await callers.play(world)

    s.faults(cancel=12, disk_full=3, fsync_failure=1)

    @s.always
    def told_truly(seen: Seen) -> None:
        callers.check(seen)

    @s.finally_
    def everybody_was_told(seen: Seen) -> None:
        callers.check(seen)
        callers.check_all_told()
