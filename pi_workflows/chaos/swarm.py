"""Which faults a seed brings, and how often: a mix of all of them would hide what a few reach."""

from collections.abc import Mapping, Sequence
from typing import Final, final

from runtime.simulation.chance import Chance, Draws

RATES: Final[Mapping[str, float]] = {
    "kill": 0.05,
    "pause": 0.03,
    "clock": 0.05,
    "sleep": 0.05,
    "power": 0.03,
    "rot": 0.06,
    "drop": 0.03,
    "delay": 0.02,
    "duplicate": 0.3,
    "disk": 0.003,
    "disk flush": 0.03,
    "disk names": 0.02,
    "disk open": 0.01,
    "people": 0.05,
    "cancel": 0.8,
}
"""Probability of a fault at one place, by the family or its first word."""

_AT_A_PLACE: Final = 0.25
_AT_THE_DISK: Final = 0.02
"""How much rarer a fault is at a named place: there are many, and each is passed often."""

_OTHERWISE: Final = 0.5
_PRESENT: Final = 0.6
"""How often a family takes part at all."""

_SCALES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)


@final
class Swarm:
    """Draws by a seed: some families of faults never, others rarely, others in a crowd."""

    def __init__(self, seed: int) -> None:
        self._chance: Final = Chance(seed)
        self._families: Final[dict[str, tuple[float, Draws]]] = {}

    def pick(self, name: str, options: Sequence[str]) -> int:
        """Draw from the stream of the family; see `runtime.chaos.choices.Source`."""
        family = name.rpartition("#")[0]
        found = self._families.get(family)
        if found is None:
            found = self._families[family] = self._drawn(family)
        rate, draws = found
        if rate == 0.0 or draws.random() >= rate:
            return 0
        return 1 + draws.randrange(len(options) - 1)

    def _drawn(self, family: str) -> tuple[float, Draws]:
        draws = self._chance.stream(family)
        rate = RATES.get(family, RATES.get(family.split(" ", 1)[0], _OTHERWISE))
        if " at " in family:
            rate *= _AT_THE_DISK if " at disk " in family else _AT_A_PLACE
        is_present = draws.random() < _PRESENT
        return (rate * draws.choice(_SCALES) if is_present else 0.0), draws
