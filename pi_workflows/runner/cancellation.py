"""One flag that asks running user code to stop, and who wants to hear of it."""

import enum
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class CancelReason(enum.Enum):
    """Why user code is asked to stop."""

    DEADLINE = enum.auto()
    STOP = enum.auto()


class Cancellation:
    """Set once, from any thread; read by user code as `ctx.cancelled`.

    The first reason stays. Listeners are called in the thread that cancels and must not block.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: CancelReason | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def reason(self) -> CancelReason | None:
        """Why, or None while nobody has cancelled."""
        return self._reason

    def is_cancelled(self) -> bool:
        """Say whether the code should stop."""
        return self._reason is not None

    def cancel(self, reason: CancelReason) -> None:
        """Ask the code to stop; every later call does nothing."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            for listener in self._listeners:
                listener()

    @contextmanager
    def listener(self, notice: Callable[[], None]) -> Generator[None, None, None]:
        """Call `notice` once when cancelled, at once if that has happened already.

        After the block `notice` is never called again.
        """
        with self._lock:
            self._listeners.append(notice)
            if self._reason is not None:
                notice()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(notice)
