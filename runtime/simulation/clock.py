"""A wall clock that goes with the loop's mock clock, and can be set."""

from typing import Final, final

import trio

from runtime.clock import WallMs

START_MS: Final = 1_700_000_000_000
"""Wall time at the beginning of a simulation."""


@final
class SimulatedClock:
    """The clock of a simulated machine; see `runtime.clock.Clock`.

    Attributes:
        stepped_ms: how far the wall clock has been set forward (negative: back) in all.
    """

    def __init__(self) -> None:
        self.stepped_ms = 0

    def wall_ms(self) -> WallMs:
        """Return the virtual wall time."""
        return WallMs(START_MS + round(trio.current_time() * 1000) + self.stepped_ms)

    def monotonic(self) -> float:
        """Return the loop's virtual time, which no step moves."""
        return trio.current_time()
