"""Orders drawn by a seed: a plain random walk, and PCT.

PCT is the probabilistic concurrency testing of Burckhardt, Kothari, Musuvathi and Nagarakatte,
"A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010: every actor
has a priority and the highest one goes on; at d-1 steps, drawn beforehand, the one that would go
on falls below all others. A bug that needs d ordering constraints among n actors in k steps is
found with a probability of at least 1 / (n * k**(d-1)) per order, however rare it is in a plain
walk.
"""

from collections.abc import Sequence
from typing import Final, final

from runtime.chaos.choices import Source
from runtime.simulation.chance import Chance, Draws

FAULT_RATES: Final = (0.0, 0.05, 0.2, 0.5)
"""How often a fault is taken where one is offered; which of these holds is drawn per order."""

DEPTHS: Final = (1, 2, 3, 4)


def source_of(seed: int, steps: int) -> Source:
    """Return how the order of this seed is drawn: a walk if it is even, PCT if it is odd.

    Args:
        steps: about how many steps an order has, at least 1.
    """
    if seed % 2 == 0:
        return Walk(seed)
    return Priorities(seed, DEPTHS[seed // 2 % len(DEPTHS)], steps)


def is_actor(option: str) -> bool:
    """Say whether a move lets an actor go on: its name is one word; all other moves have more."""
    return " " not in option


def is_scheduling(name: str) -> bool:
    """Say whether a decision is about who goes on."""
    return name.startswith("start#") or " after " in name


@final
class Uniform:
    """Every option of every decision is equally likely, faults included."""

    def __init__(self, seed: int) -> None:
        self._draws: Final[Draws] = Chance(seed).stream("uniform")

    def pick(self, name: str, options: Sequence[str]) -> int:  # noqa: ARG002 - the protocol's
        """Draw one; see `Source`."""
        return self._draws.randrange(len(options))


@final
class Walk:
    """Every actor that can go on is equally likely; so is every option of other decisions."""

    def __init__(self, seed: int) -> None:
        self._draws: Final[Draws] = Chance(seed).stream("walk")
        self._fault_rate: Final = self._draws.choice(FAULT_RATES)

    def pick(self, name: str, options: Sequence[str]) -> int:
        """Draw one; see `Source`."""
        return _drawn(self._draws, self._fault_rate, name, options)


@final
class Priorities:
    """PCT; faults are drawn as in a walk."""

    def __init__(self, seed: int, depth: int, steps: int) -> None:
        """Draw everything beforehand.

        Args:
            depth: how many ordering constraints the sought bug has, at least 1.
            steps: about how many steps an order has, at least 1.
        """
        self._draws: Final[Draws] = Chance(seed).stream("priorities")
        self._fault_rate: Final = self._draws.choice(FAULT_RATES)
        self._priorities: Final[dict[str, float]] = {}
        self._changes: Final = {self._draws.randrange(max(1, steps)) for _ in range(depth - 1)}
        self._step = 0
        self._lowest = 0.0

    def pick(self, name: str, options: Sequence[str]) -> int:
        """Let the actor of the highest priority go on; see `Source`."""
        if not is_scheduling(name):
            return _drawn(self._draws, self._fault_rate, name, options)
        faults = [index for index, option in enumerate(options) if not is_actor(option)]
        actors = [index for index, option in enumerate(options) if is_actor(option)]
        if not actors or (faults and self._draws.random() < self._fault_rate):
            return self._draws.choice(faults)
        step, self._step = self._step, self._step + 1
        first = self._highest(options, actors)
        if step in self._changes:
            self._lowest -= 1
            self._priorities[options[first]] = self._lowest
            first = self._highest(options, actors)
        return first

    def _highest(self, options: Sequence[str], actors: list[int]) -> int:
        for index in sorted(actors, key=lambda index: options[index]):
            if options[index] not in self._priorities:
                self._priorities[options[index]] = self._draws.random()
        return max(actors, key=lambda index: self._priorities[options[index]])


def _drawn(draws: Draws, fault_rate: float, name: str, options: Sequence[str]) -> int:
    if not is_scheduling(name):
        if " at " in name or name.startswith("beside "):
            return draws.randrange(len(options)) if draws.random() < fault_rate else 0
        return draws.randrange(len(options))
    actors = [index for index, option in enumerate(options) if is_actor(option)]
    faults = [index for index, option in enumerate(options) if not is_actor(option)]
    if not actors or (faults and draws.random() < fault_rate):
        return draws.choice(faults)
    return draws.choice(actors)
