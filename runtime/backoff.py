"""Growing delays between attempts, spread by jitter from injected randomness."""

from dataclasses import dataclass
from typing import Protocol


class Randomness(Protocol):
    """A source of chance for jitter, never for secrets; `random.Random` is one."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delay before attempt n: `initial_ms * factor ** (n - 1)`, at most `delay_ms_max`.

    Attributes:
        initial_ms: Delay after the first failure, before jitter.
        factor: Growth per further failure, at least 1.
        delay_ms_max: Bound before jitter.
        jitter: Relative spread in [0, 1]: 0.2 means 20 % shorter to 20 % longer.
    """

    initial_ms: int = 100
    factor: float = 2.0
    delay_ms_max: int = 60_000
    jitter: float = 0.2

    def __post_init__(self) -> None:
        """Refuse a schedule that could shrink or go negative."""
        assert self.initial_ms >= 0
        assert self.factor >= 1
        assert self.delay_ms_max >= self.initial_ms
        assert 0 <= self.jitter <= 1

    def delay_ms(self, failures: int, randomness: Randomness) -> int:
        """Return the delay in milliseconds after `failures` (at least 1) failures in a row."""
        assert failures >= 1
        delay = float(self.initial_ms)
        for _ in range(failures - 1):
            delay *= self.factor
            if delay >= self.delay_ms_max:
                break
        spread = 1 + self.jitter * (2 * randomness.random() - 1)
        return round(min(delay, self.delay_ms_max) * spread)
