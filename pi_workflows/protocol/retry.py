"""A declared retry: how often a visit of a node is tried, and how long to wait in between.

The runner proposes with it and the server checks the proposal with it, so both read the same rule
the same way.
"""

from dataclasses import dataclass
from typing import Final, cast

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.states import StepOutcome

ATTEMPTS_MAX: Final = 100
WAIT_MS_MAX: Final = 30 * 24 * 3_600_000
"""Longest wait between two tries: 30 days."""

RETRY_AFTER: Final = "retryAfterMs"
"""In what closes a failed try, and in its receipt: how long its code asks to wait."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """When a failed try of a visit is followed by another one.

    Attributes:
        attempts: tries of one visit at most, the first one included; 1 to 100.
        backoff_ms: wait after the first failed try; 0 tries again at once.
        factor: by which each wait is longer than the one before; at least 1.
        max_backoff_ms: longest wait; at least `backoff_ms`, at most 30 days.
        outcomes: of `failed` and `timed_out`, those that are tried again.
    """

    attempts: int
    backoff_ms: int
    factor: float
    max_backoff_ms: int
    outcomes: frozenset[StepOutcome]

    def allows(self, outcome: StepOutcome, failed_tries: int) -> bool:
        """Say whether a try that ended so is followed by another one of its visit.

        Args:
            failed_tries: of this visit, the one that has just ended included.
        """
        return outcome in self.outcomes and failed_tries < self.attempts

    def wait_ms(self, failed_tries: int) -> int:
        """Return how long to wait after so many failed tries of a visit, at least 1."""
        try:
            wait = self.backoff_ms * self.factor ** (failed_tries - 1)
        except OverflowError:
            return self.max_backoff_ms
        return int(min(self.max_backoff_ms, wait))

    def stored(self) -> JsonObject:
        """Return the form in a definition's snapshot; whole numbers are integers there."""
        whole = float(self.factor).is_integer()
        outcomes: list[JsonValue] = [*sorted(outcome.value for outcome in self.outcomes)]
        return {
            "attempts": self.attempts,
            "backoffMs": self.backoff_ms,
            "factor": int(self.factor) if whole else self.factor,
            "maxBackoffMs": self.max_backoff_ms,
            "outcomes": outcomes,
        }

    @classmethod
    def parse(cls, stored: JsonObject) -> "RetryRule":
        """Read the form in a snapshot.

        Raises:
            KeyError, TypeError, ValueError: a field is missing or of another kind.
        """
        outcomes = cast("list[str]", stored["outcomes"])
        return cls(
            cast("int", stored["attempts"]),
            cast("int", stored["backoffMs"]),
            cast("float", stored["factor"]),
            cast("int", stored["maxBackoffMs"]),
            frozenset(map(StepOutcome, outcomes)),
        )
