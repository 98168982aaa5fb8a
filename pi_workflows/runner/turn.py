"""One call of user code on the main thread: its deadline, its grace, and when it is given up."""

from collections.abc import Callable

from pi_workflows.runner.cancellation import Cancellation, CancelReason
from pi_workflows.runner.messages import Send


class Turn:
    """The time of one call. Instants are monotonic seconds.

    Attributes:
        abandon: what is sent in its place when the code ignores its deadline for the grace.
        revision: of the run after what the code itself has sent; None while it has sent nothing.
    """

    def __init__(
        self,
        *,
        started_at: float,
        timeout_ms: int | None,
        grace_ms: Callable[[], int],
        abandon: Send,
    ) -> None:
        """`grace_ms` is asked at the deadline: it depends on what the code is doing then."""
        self.cancellation = Cancellation()
        self.abandon = abandon
        self.revision: int | None = None
        self._deadline_at = None if timeout_ms is None else started_at + timeout_ms / 1000
        self._grace_ms = grace_ms
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
            self._grace_until = now + self._grace_ms() / 1000
            self.cancellation.cancel(CancelReason.DEADLINE)
        return now >= self._grace_until

    def close(self, now: float) -> None:
        """Note a deadline that has passed by `now`, when the code has returned."""
        if self._deadline_at is not None and now >= self._deadline_at:
            self.cancellation.cancel(CancelReason.DEADLINE)
