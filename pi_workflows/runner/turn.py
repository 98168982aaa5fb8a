"""One call of user code on the main thread, and who may speak for the run when it is late."""

import enum
import threading

from pi_workflows.runner.cancellation import Cancellation, CancelReason
from pi_workflows.runner.messages import Send


class _Holder(enum.Enum):
    CODE = enum.auto()
    MAIN = enum.auto()
    WATCH = enum.auto()


class Turn:
    """The right to send the next message, held by the running code until somebody takes it.

    The main thread takes it when the code returns; the watching thread takes it when the code has
    ignored its deadline for the grace. A lock decides, so exactly one of them sends.

    Instants are monotonic seconds.
    """

    def __init__(
        self, *, started_at: float, timeout_ms: int | None, grace_ms: int, abandon: Send
    ) -> None:
        self.cancellation = Cancellation()
        self.abandon = abandon
        self._lock = threading.Lock()
        self._holder = _Holder.CODE
        self._deadline_at = None if timeout_ms is None else started_at + timeout_ms / 1000
        self._grace_s = grace_ms / 1000
        self._grace_until: float | None = None

    @property
    def wakes_at(self) -> float | None:
        """When the watching thread has to look again; None if never."""
        return self._deadline_at if self._grace_until is None else self._grace_until

    def watch(self, now: float) -> bool:
        """Cancel at the deadline; return True if the code is late beyond its grace."""
        if self._deadline_at is None or now < self._deadline_at:
            return False
        if self._grace_until is None:
            self._grace_until = now + self._grace_s
            self.cancellation.cancel(CancelReason.DEADLINE)
        return now >= self._grace_until

    def take_for_watch(self) -> bool:
        """Return True if the watching thread now holds the turn."""
        return self._take(_Holder.WATCH)

    def take_for_main(self, now: float) -> bool:
        """Return True if the main thread now holds the turn; notes a deadline passed by `now`."""
        if not self._take(_Holder.MAIN):
            return False
        if self._deadline_at is not None and now >= self._deadline_at:
            self.cancellation.cancel(CancelReason.DEADLINE)
        return True

    def _take(self, holder: _Holder) -> bool:
        with self._lock:
            if self._holder is not _Holder.CODE:
                return False
            self._holder = holder
            return True
