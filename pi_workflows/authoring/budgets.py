"""How much time something may take: seconds for authors, milliseconds in storage."""

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from pi_workflows.protocol.canonical import INTEGER_MAX


@dataclass(frozen=True, slots=True)
class Unlimited:
    """No deadline; `timeout=None` means the same."""


Budget: TypeAlias = float | timedelta | Unlimited | None
"""Seconds, a duration, or no limit."""


def budget_ms(value: object) -> int | None:
    """Return a budget in milliseconds, at least 1; None is unlimited.

    Raises:
        TypeError: neither a number, a duration nor None.
        ValueError: not above 0 or not finite.
    """
    if value is None or isinstance(value, Unlimited):
        return None
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = _finite(value)
    else:
        kind = type(value).__name__
        raise TypeError(f"a timeout is seconds, a timedelta or None, not a {kind}.")
    if not 0 < seconds <= INTEGER_MAX / 1000:
        raise ValueError("a timeout is a finite number of seconds above 0.")
    return max(1, round(seconds * 1000))


def _finite(value: float) -> float:
    try:
        seconds = float(value)
    except OverflowError:
        return math.inf
    return -1.0 if math.isnan(seconds) else seconds
