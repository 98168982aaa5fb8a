"""Named places at which a simulated process can be made to die, or be looked at."""

from collections import Counter
from collections.abc import Callable
from typing import Final, final

from runtime.simulation.processes import SimulatedProcess
from runtime.sync_points import SyncPoint


@final
class SimulatedSyncPoints:
    """Counts every place that is reached, and kills at a chosen one; see `SyncPoints`.

    Attributes:
        reached_count: how often each place was reached.
    """

    def __init__(
        self,
        process: SimulatedProcess,
        die: Callable[[SimulatedProcess], None],
        passing: Callable[[SimulatedProcess, SyncPoint], None] = lambda _, __: None,
    ) -> None:
        """Describe a process.

        Args:
            die: ends it.
            passing: called wherever it comes by; may end it.
        """
        self._process: Final = process
        self._die: Final = die
        self._passing: Final = passing
        self._armed: dict[SyncPoint, int] = {}
        self.reached_count: Final[Counter[SyncPoint]] = Counter()

    def arm(self, point: SyncPoint, times: int = 1) -> None:
        """Let the process die when it reaches `point` for the `times`-th time from now on."""
        assert times >= 1
        self._armed[point] = self.reached_count[point] + times

    def is_armed(self, point: SyncPoint) -> bool:
        """Tell whether the process will die there."""
        return point in self._armed

    def reached(self, point: SyncPoint) -> None:
        """Go on, or die.

        Raises:
            ProcessDied: this was the armed time, or the process is dead already.
        """
        self._process.check()
        self.reached_count[point] += 1
        if self._armed.get(point) == self.reached_count[point]:
            del self._armed[point]
            self._die(self._process)
        else:
            self._passing(self._process, point)
        self._process.check()
