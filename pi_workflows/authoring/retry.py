"""How authors declare that a failed try of a node is followed by another one."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from pi_workflows.protocol.retry import ATTEMPTS_MAX, WAIT_MS_MAX, RetryRule
from pi_workflows.protocol.states import StepOutcome

FACTOR_MAX: Final = 100.0


class RetryLater(Exception):
    """Raised by the function of a compute or action node: this try has failed; wait so long.

    It takes the place of the node's own backoff for this once: a service that says when it will
    have room is believed. The wait needs no process and survives restarts. Without a `retry` that
    lets another try follow it is a failure like any other.
    """

    def __init__(self, after: float | timedelta, why: str) -> None:
        """Say when and why.

        Args:
            after: seconds or a duration; 0 tries again at once. Longer than the `max_backoff` of
                the node's `Retry` is taken as that.
            why: text for people who look at the run.

        Raises:
            ValueError: `after` is no time from 0 to 30 days.
        """
        wait_ms = _wait_ms(after)
        if wait_ms is None:
            raise ValueError("RetryLater(after) is seconds or a timedelta from 0 to 30 days")
        super().__init__(why)
        self.after_ms: Final = wait_ms


_RETRIED: Final = frozenset({StepOutcome.FAILED, StepOutcome.TIMED_OUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Try a visit of a node again when it has failed.

    Each try is an attempt of the same visit; only the last one becomes a step, so routing and
    `ctx.result` see that one. An action keeps its effect and its key over all tries. What may have
    happened outside without anybody knowing is never tried again by a retry.

    Attributes:
        attempts: tries at most, the first one included; 1 to 100.
        backoff: seconds or a duration to wait after the first failed try, up to 30 days; 0 tries
            again at once. While it waits, the run is parked and needs no process.
        factor: by which each wait is longer than the one before; 1 to 100.
        max_backoff: the longest wait, not below `backoff`, up to 30 days.
        outcomes: which ends are tried again: `failed`, `timed_out`, or both.
    """

    attempts: int
    backoff: float | timedelta = 1.0
    factor: float = 2.0
    max_backoff: float | timedelta = 300.0
    outcomes: Collection[Literal["failed", "timed_out"]] = ("failed", "timed_out")


def checked_retry(retry: object) -> RetryRule | str | None:
    """Return a declared retry as the rule it states, or what is wrong with it; None for none."""
    if retry is None:
        return None
    if not isinstance(retry, Retry):
        return f"retry takes Retry(attempts=...), not {type(retry).__name__}."
    backoff_ms, max_backoff_ms = _wait_ms(retry.backoff), _wait_ms(retry.max_backoff)
    outcomes = _outcomes(retry.outcomes)
    broken = _number_problem(retry)
    if broken is None and (backoff_ms is None or max_backoff_ms is None):
        name = "backoff" if backoff_ms is None else "max_backoff"
        broken = f"Retry({name}=...) is seconds or a timedelta from 0 to 30 days."
    if backoff_ms is None or max_backoff_ms is None or outcomes is None or broken is not None:
        return broken or 'Retry(outcomes=...) names "failed", "timed_out", or both.'
    if max_backoff_ms < backoff_ms:
        return "Retry(max_backoff=...) is not below backoff."
    return RetryRule(retry.attempts, backoff_ms, float(retry.factor), max_backoff_ms, outcomes)


def _number_problem(retry: Retry) -> str | None:
    attempts: object = retry.attempts
    factor: object = retry.factor
    if type(attempts) is not int or not 1 <= attempts <= ATTEMPTS_MAX:
        return f"Retry(attempts=...) is a whole number from 1 to {ATTEMPTS_MAX}."
    if type(factor) not in {int, float} or not 1 <= retry.factor <= FACTOR_MAX:
        return f"Retry(factor=...) is a number from 1 to {FACTOR_MAX:g}."
    return None


def _wait_ms(wait: object) -> int | None:
    if isinstance(wait, timedelta):
        seconds = wait.total_seconds()
    elif isinstance(wait, int | float) and not isinstance(wait, bool):
        seconds = wait
    else:
        return None
    if not (0 <= seconds <= WAIT_MS_MAX / 1000) or math.isnan(seconds):
        return None
    milliseconds = round(seconds * 1000)
    return milliseconds if milliseconds or not seconds else 1


def _outcomes(outcomes: object) -> frozenset[StepOutcome] | None:
    if isinstance(outcomes, str) or not isinstance(outcomes, Collection) or not outcomes:
        return None
    if not all(isinstance(outcome, str) and outcome in _RETRIED for outcome in outcomes):
        return None
    return frozenset(StepOutcome(str(outcome)) for outcome in outcomes)
