"""How long a node may run: seconds for authors, milliseconds in storage."""

import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

from pi_workflows.authoring.context import Ctx
from pi_workflows.protocol.canonical import INTEGER_MAX

I = TypeVar("I")  # noqa: E741 - the letter stands for the workflow's input everywhere here
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class DefaultTimeout:
    """The engine's own budget of 900 seconds, chosen by saying nothing."""


@dataclass(frozen=True, slots=True)
class Unlimited:
    """No deadline; `timeout=None` means the same."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A budget known when the workflow is built.

    Attributes:
        timeout_ms: 1 to 2^53-1 milliseconds.
    """

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Computed:
    """A budget asked for at each visit.

    Attributes:
        fn: takes the node's context; `budget_ms` reads what it returns. It may be async.
        is_async: whether `fn` returns a coroutine.
    """

    fn: Callable[[Ctx[Any]], object]
    is_async: bool


Timeout: TypeAlias = DefaultTimeout | Unlimited | Fixed | Computed
Budget: TypeAlias = float | timedelta | Unlimited | None
"""Seconds, a duration, or no limit."""
TimeoutOption: TypeAlias = (
    Budget | DefaultTimeout | Callable[[Ctx[I, S]], Budget | Coroutine[Any, Any, Budget]]
)

DEFAULT_TIMEOUT = DefaultTimeout()


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
