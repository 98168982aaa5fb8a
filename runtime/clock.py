"""Two clocks that must not be mixed: wall time survives processes, monotonic time does not."""

import time
from typing import NewType, Protocol

import trio

WallMs = NewType("WallMs", int)
"""An instant: milliseconds since the Unix epoch, UTC."""


def uptime_s() -> float:
    """Return seconds since the machine was started, the time it slept included (Linux)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def epoch_s() -> float:
    """Return the wall time in seconds since the Unix epoch."""
    return time.time()


class Clock(Protocol):
    """Where every instant and every duration of the server comes from."""

    def wall_ms(self) -> WallMs:
        """Return the wall time; it may jump in both directions between two calls."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back; comparable only within this process."""
        ...


class SystemClock:
    """The machine's wall clock and trio's own clock, so that a mock clock governs timers too."""

    def wall_ms(self) -> WallMs:
        """Return the wall time in milliseconds since the Unix epoch."""
        return WallMs(time.time_ns() // 1_000_000)

    def monotonic(self) -> float:
        """Return `trio.current_time()`; only callable inside a trio run."""
        return trio.current_time()
