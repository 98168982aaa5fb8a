"""A rate limit: so many per second in the long run, and so many at once after a pause."""

from typing import Final


class TokenBucket:
    """Gives permission or not, never waits. Instants are monotonic seconds of one clock.

    Args:
        rate_per_s: tokens that come back per second.
        burst: tokens that are there at most, and at the beginning.
        now: the instant of the beginning.
    """

    def __init__(self, rate_per_s: float, burst: int, now: float) -> None:
        self._rate_per_s: Final = rate_per_s
        self._burst: Final = burst
        self._tokens: float = burst
        self._counted_at = now

    def take(self, now: float) -> bool:
        """Take a token; False when there is none, and then nothing is taken."""
        passed = max(0.0, now - self._counted_at)
        self._counted_at = max(self._counted_at, now)
        self._tokens = min(self._burst, self._tokens + passed * self._rate_per_s)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
