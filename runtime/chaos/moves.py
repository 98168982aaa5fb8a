"""What can happen next in an order, by stable names, and which of it is still allowed."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, final

from runtime.chaos.acting import Acting
from runtime.chaos.scenario import Budgets

CLOCK: Final = "clock "
KILL: Final = "kill "
LATE: Final = "late "

CARRIED_OUT: Final = frozenset(
    {"clock_jump", "kill", "pause", "drop", "duplicate", "delay", "shared_batch"}
)
"""The kinds of faults that orders know; a pause is an order in which an actor that could go on
is passed over."""


class Way(StrEnum):
    """How a request is carried out; the first is the ordinary one."""

    AS_ASKED = "as asked"
    ANSWER_LOST = "drop its answer"
    LOST = "drop it"
    TWICE = "duplicate"
    LATE = "delay"

    @property
    def kind(self) -> str | None:
        """The kind of fault this is; None for the ordinary way."""
        return _KINDS.get(self)


_KINDS: Final = {
    Way.ANSWER_LOST: "drop",
    Way.LOST: "drop",
    Way.TWICE: "duplicate",
    Way.LATE: "delay",
}


@final
class Remaining:
    """What the budgets of a scenario still allow in one exploration.

    Attributes:
        spent: how often each kind of fault has happened; a pause also where none was asked for.
    """

    def __init__(self, budgets: Budgets) -> None:
        self._jump_ms: Final = {
            f"{CLOCK}{jump:+g} s": round(jump * 1000) for jump in budgets.clock_jump
        }
        self._jumps: Final = [f"{CLOCK}{jump:+g} s" for jump in budgets.clock_jump]
        self._left: Final = {
            "kill": budgets.kill,
            "drop": budgets.drop,
            "duplicate": budgets.duplicate,
            "delay": budgets.delay,
            "shared_batch": budgets.shared_batch,
        }
        self._ways = self._find_ways()
        self.spent: Final[Counter[str]] = Counter()

    def allows(self, kind: str) -> bool:
        """Say whether a fault that is counted may still happen."""
        return self._left[kind] > 0

    def take(self, kind: str) -> None:
        """Use up a fault that is counted."""
        self._left[kind] -= 1
        self.spent[kind] += 1
        self._ways = self._find_ways()

    def jumps(self) -> list[str]:
        """Return the clock's moves that are left, each text once, in the declared order."""
        return list(dict.fromkeys(self._jumps))

    def take_jump(self, move: str) -> int:
        """Use up a move of the clock; return by how many milliseconds it goes."""
        self._jumps.remove(move)
        self.spent["clock_jump"] += 1
        return self._jump_ms[move]

    def ways(self) -> list[str]:
        """Return how a request may be carried out, the values of `Way`."""
        return self._ways

    def _find_ways(self) -> list[str]:
        unusual = [way.value for way, kind in _KINDS.items() if self._left[kind] > 0]
        return [Way.AS_ASKED.value, *unusual]


def enabled(actors: Sequence[Acting], now_ms: int) -> list[Acting]:
    """Return the actors that can go on at this instant, in their order."""
    return [
        actor
        for actor in actors
        if actor.waiting is not None
        and (actor.waiting.wake_at_ms is None or actor.waiting.wake_at_ms <= now_ms)
    ]


def next_wake_ms(actors: Sequence[Acting]) -> int | None:
    """Return the instant at which the first sleeper wakes; None if nobody sleeps."""
    instants = [
        actor.waiting.wake_at_ms
        for actor in actors
        if actor.waiting is not None and actor.waiting.wake_at_ms is not None
    ]
    return min(instants, default=None)
