"""What the orders of an exploration have met, all together."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.chaos.acting import Acting


@dataclass(slots=True)
class Seen:
    """What the orders of one exploration have met, all together.

    Attributes:
        pairs: "A at p | B at q", places where two actors stood at once.
        points: the places of each actor.
        checks: how often each invariant ran.
    """

    pairs: set[str] = field(default_factory=set)
    points: dict[str, set[str]] = field(default_factory=dict)
    checks: Counter[str] = field(default_factory=Counter)
    _known: set[tuple[str, str, str, str]] = field(default_factory=set)

    def note_standing(self, actors: Sequence[Acting]) -> None:
        """Note where the actors stand."""
        standing = [(each.name, each.waiting.point) for each in actors if each.waiting is not None]
        for (one, here), (other, there) in itertools.combinations(standing, 2):
            key = (one, here, other, there)
            if key not in self._known:
                self._known.add(key)
                self.pairs.add(f"{one} at {here} | {other} at {there}")
                self.points.setdefault(one, set()).add(here)
                self.points.setdefault(other, set()).add(there)
