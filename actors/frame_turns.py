"""Large frames are parsed one at a time, and the loop is everybody's in between.

A frame of 1 MiB can hold half a million values, which cost a good part of a second. However many
clients send such frames at once, a renewal waits for one of them, and half of the loop's time is
left to the others. Of each process one frame stands in the queue, however many it has sent, so
that nobody waits behind all that another one sends.
"""

from typing import Final

import trio

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import parse_canonical
from runtime.clock import Clock

SMALL_BYTES: Final = 4_096
"""Such a frame is parsed at once: it costs less than a turn in the queue."""


class FrameTurns:
    """The one queue of all connections."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._turn: Final = trio.Lock()

    async def parse(self, line: bytes, sender: trio.Lock) -> JsonObject:
        """Return the object of a line.

        Args:
            sender: the turn of the process that has sent it, among its own frames.

        Raises:
            FrameError: it is no canonical JSON object.
        """
        if len(line) <= SMALL_BYTES:
            return parse_canonical(line)
        async with sender, self._turn:
            began_at = self._clock.monotonic()
            try:
                return parse_canonical(line)
            finally:
                await trio.sleep(self._clock.monotonic() - began_at)
