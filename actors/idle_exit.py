"""End a server that nobody needs: no client, no run in hand, none due later."""

from collections.abc import Callable
from typing import Final

from trio_util import AsyncBool


class IdleWatch:
    """Wakes on every change of what keeps the server alive, never by polling."""

    def __init__(self, needed: Callable[[], bool]) -> None:
        """`needed` says whether anything keeps the server alive now."""
        self._needed: Final = needed
        self._is_needed: Final = AsyncBool(value=True)

    def touch(self) -> None:
        """Look again: something that `needed` depends on may have changed."""
        self._is_needed.value = self._needed()

    async def wait_idle(self, idle_s: float) -> None:
        """Return once nothing has needed the server for `idle_s` seconds on end."""
        self.touch()
        await self._is_needed.wait_value(False, held_for=idle_s)  # noqa: FBT003 - the value itself
