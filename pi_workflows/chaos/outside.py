"""The world outside a simulation, where effects land: nodes reach it, no process owns it.

A workflow file of a scenario applies its effects here and looks for them here:

    from pi_workflows.chaos.outside import outside
    outside().apply(ctx.effect.key)
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, final


@final
class Outside:
    """What effects have done, whoever has died since.

    Attributes:
        applied: the keys of effects, in the order in which they were applied.
    """

    def __init__(self, note: Callable[[str, int], None]) -> None:
        """Begin with nothing done; `note` is told of each key, and how often it was applied."""
        self._note: Final = note
        self.applied: Final[list[str]] = []

    def apply(self, key: str) -> None:
        """Carry out the effect of this key; a second time does it again."""
        self.applied.append(key)
        self._note(key, self.applied.count(key))

    def has(self, key: str) -> bool:
        """Say whether the effect of this key has been carried out."""
        return key in self.applied

    def twice(self) -> list[str]:
        """Return the keys of effects that were carried out more than once."""
        return sorted({key for key in self.applied if self.applied.count(key) > 1})


OUTSIDE: Final[ContextVar[Outside]] = ContextVar("outside of the simulation")
"""Set in every simulated runner."""


def outside() -> Outside:
    """Return the outside of the simulation in which this code runs.

    Raises:
        LookupError: it runs in none.
    """
    return OUTSIDE.get()
