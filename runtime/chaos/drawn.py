"""Explorations that were drawn: how many of them differ, and which ones are repeated.

Two seeds may give the same exploration. It is played twice then, and counted once here.
"""

from typing import Final, final

from runtime.chaos.choices import Choices
from runtime.chaos.outcome import Tally

KEYS_MAX: Final = 250_000
"""So many are told apart, in some 20 MiB; of a part that has more, there are at least so many."""

REPEAT_EVERY: Final = 200
"""Of so many that held, one is repeated, beside the first few: that costs about as much as five
drawn ones, or as ten of a walk through all."""


@final
class Drawn:
    """Tells explorations apart by their decisions."""

    def __init__(self) -> None:
        """None is known yet."""
        self._keys: Final[set[int]] = set()

    def note(self, choices: Choices) -> None:
        """Take one into account."""
        if len(self._keys) < KEYS_MAX:
            self._keys.add(choices.key())

    def tell(self, tally: Tally, parts: int) -> None:
        """Enter how many differ, unless every possible one was explored: then each does.

        Args:
            parts: how many parts share the work; what two of them have counts once.
        """
        if tally.complete:
            return
        tally.distinct = len(self._keys)
        if parts > 1:
            tally.keys = set(self._keys)


def is_repeated(count: int) -> bool:
    """Say whether the so manieth exploration is repeated although it held.

    The first ones, ever fewer of them (first, second, fourth, eighth, …), and then one in
    `REPEAT_EVERY`: a short exploration has some, and a long one has enough.
    """
    return count & (count - 1) == 0 or count % REPEAT_EVERY == 0
