"""How many commands a server commits at a time, seen at its sync points (P10)."""

from collections import Counter
from collections.abc import Callable
from typing import Final, final

from actors.store_actor import BATCH_MAX
from pi_workflows.chaos.invariants import InvariantBroken
from runtime.simulation.processes import SimulatedProcess
from runtime.sync_points import SyncPoint

_BOUND: Final = BATCH_MAX
"""Read once: what is held against it may be changed in a process that is to break it."""


@final
class Batches:
    """Counts the commands between BEGIN and COMMIT.

    Attributes:
        largest: how many there were at most.
    """

    def __init__(self, complain: Callable[[InvariantBroken], None]) -> None:
        """`complain` is given the promise that is broken."""
        self._complain: Final = complain
        self._commands: Final[Counter[SimulatedProcess]] = Counter()
        self.largest = 0

    def passes(self, process: SimulatedProcess, point: SyncPoint) -> None:
        """A server comes by a place."""
        if point is SyncPoint.COMMAND_AFTER_BEGIN:
            self._commands[process] = 0
        elif point is SyncPoint.COMMAND_AFTER_COMMAND:
            self._commands[process] += 1
            self.largest = max(self.largest, self._commands[process])
            if self._commands[process] > _BOUND:
                self._complain(
                    InvariantBroken(f"{process.name} has more than {_BOUND} in a batch", "P10")
                )
