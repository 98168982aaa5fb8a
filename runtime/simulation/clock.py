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
        set_back_ms: the sum of its steps back.
    """

    def __init__(self) -> None:
        self.stepped_ms = 0
        self.set_back_ms = 0
        self._booted_at = 0.0

    def step(self, by_ms: int) -> None:
        """Set the wall clock forward, or back if negative."""
        self.stepped_ms += by_ms
        self.set_back_ms += max(0, -by_ms)

    def boot(self) -> None:
        """Let the monotonic clock begin at 0, as it does when a machine comes up."""
        self._booted_at = trio.current_time()

    def wall_ms(self) -> WallMs:
        """Return the virtual wall time."""
        return WallMs(START_MS + round(trio.current_time() * 1000) + self.stepped_ms)

    def monotonic(self) -> float:
        """Return the virtual seconds since the machine came up; no step moves them."""
        return trio.current_time() - self._booted_at
