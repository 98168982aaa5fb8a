"""How long a batch may take, and how long it may keep the loop at a time."""

from typing import Final, final

import trio

from runtime.clock import Clock

SLICE_S: Final = 0.003
"""A batch keeps the loop for so long at a time, then gives everybody else a turn (README 9)."""

BATCH_S: Final = 0.012
"""A batch takes no more commands after this time; its COMMIT follows."""


@final
class Pace:
    """Keeps a batch within its time, and the loop responsive while it lasts."""

    def __init__(self, clock: Clock) -> None:
        """Begin now."""
        self._clock = clock
        now = clock.monotonic()
        self._ends_at = now + BATCH_S
        self._turn_at = now + SLICE_S

    @property
    def has_time(self) -> bool:
        """Whether the batch may take more."""
        return self._clock.monotonic() < self._ends_at

    async def give_turn(self) -> None:
        """Let other tasks run, if the batch has kept the loop for its slice.

        They find the transaction open, which is no news: it is open during COMMIT too, and nobody
        else has the writing connection.
        """
        if self._clock.monotonic() >= self._turn_at:
            await trio.lowlevel.checkpoint()
            self._turn_at = self._clock.monotonic() + SLICE_S
