"""The clock of an exploration, as the store and a start want one."""

from typing import Final, final

from runtime.chaos.scenario import SimulatedTime
from runtime.clock import WallMs


@final
class StandingClock:
    """The harness's wall clock as a `World` carries it; within a step no time passes."""

    def __init__(self, clock: SimulatedTime) -> None:
        self._clock: Final = clock

    def wall_ms(self) -> WallMs:
        """Return the harness's instant, UTC epoch ms."""
        return WallMs(self._clock.wall_ms())

    def monotonic(self) -> float:
        """Return always the same."""
        return 0.0
