"""End a server that nobody needs: no client, no run in hand, none due later."""

from collections.abc import Callable

import trio


class IdleWatch:
    """Wakes on every change of what keeps the server alive, never by polling."""

    def __init__(self, needed: Callable[[], bool]) -> None:
        """`needed` says whether anything keeps the server alive now."""
        self._needed = needed
        self._changed = trio.Event()

    def touch(self) -> None:
        """Note that something may have changed."""
        self._changed.set()

    async def wait_idle(self, idle_s: float) -> None:
        """Return once nothing has needed the server for `idle_s` seconds on end."""
        while True:
            self._changed = trio.Event()
            pause = float("inf") if self._needed() else idle_s
            with trio.move_on_after(pause):
                await self._changed.wait()
                continue
            if not self._needed():
                return
