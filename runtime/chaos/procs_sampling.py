"""Where the choices of process orders come from: every order, a share of them, or samples.

Also a sampler that is sure to kill: left to chance, most kills would come early, for each further
decision is one more chance to have it over.
"""

import zlib
from collections.abc import Sequence
from math import prod
from typing import Final, final

from runtime.chaos.choices import Decision, Systematic
from runtime.simulation.chance import Chance

FAULTS: Final = ("clock ", "kill ", "pause ", "drop ", "duplicate ")
"""How the options begin that are faults."""

SHARE_DEPTH: Final = 5
"""Decisions by which the tree of orders is shared out: a few hundred shares of unequal size."""

_SWITCHING: Final = (0.1, 0.3, 0.5, 0.8)
_FAULT_RATE: Final = 0.12


class Skipped(Exception):
    """The order is somebody else's share."""


@final
class Shared:
    """Every order of one share of N; a source as `Systematic` is."""

    def __init__(self, part: tuple[int, int]) -> None:
        """Take share K of N, from 0."""
        self._part: Final = part
        self._systematic: Final = Systematic()
        self._begun: list[int] = []

    def pick(self, name: str, options: Sequence[str]) -> int:
        """Follow the path.

        Raises:
            Skipped: this path begins in a way that is another's.
        """
        number, count = self._part
        picked = self._systematic.pick(name, options)
        if len(self._begun) < SHARE_DEPTH and count > 1:
            self._begun.append(picked)
            if (
                len(self._begun) == SHARE_DEPTH
                and zlib.crc32(bytes(self._begun)) % count != number
            ):
                raise Skipped
        return picked

    @property
    def is_mine(self) -> bool:
        """Whether the path just taken is of this share; one too short to share is the first's."""
        return len(self._begun) == SHARE_DEPTH or not self._part[0]

    def advance(self) -> bool:
        """Go on to the next path; False when there is none."""
        self._begun = []
        return self._systematic.advance()


def estimated(probed: Sequence[Sequence[Decision]]) -> float:
    """Return about how many orders there are, from the decisions of some that were probed.

    Source: D. E. Knuth, "Estimating the Efficiency of Backtrack Programs", Mathematics of
    Computation 29 (1975): the product of the branchings along a path drawn evenly has the number
    of all paths as its mean.
    """
    return sum(prod(decision.count for decision in made) for made in probed) / len(probed)


@final
class Sampled:
    """One order drawn by a seed; how restless it is, and how faulty, is drawn first."""

    def __init__(self, seed: int, *, kill_within: int | None = None) -> None:
        """Draw.

        Args:
            kill_within: kill once, at one of so many first decisions, each as likely; None leaves
                a kill to chance, as every other fault.
        """
        self._draws: Final = Chance(seed).stream("order")
        self._switching: Final = self._draws.choice(_SWITCHING)
        self._fault_rate: Final = self._draws.choice((0.0, _FAULT_RATE))
        self._is_to_kill: Final = kill_within is not None
        self._until_kill = self._draws.randrange(kill_within or 1)

    def pick(self, name: str, options: Sequence[str]) -> int:  # noqa: ARG002 - the protocol's
        """Draw one of the options."""
        kills = [index for index, option in enumerate(options) if option.startswith("kill ")]
        faults = [index for index, option in enumerate(options) if option.startswith(FAULTS)]
        if self._is_to_kill and kills:
            self._until_kill -= 1
            if self._until_kill < 0:
                return self._draws.choice(kills)
            faults = [index for index in faults if index not in kills]
        if faults and self._draws.random() < self._fault_rate:
            return self._draws.choice(faults)
        ordinary = [
            index for index in range(len(options)) if not options[index].startswith(FAULTS)
        ]
        if len(ordinary) > 1 and self._draws.random() < self._switching:
            return self._draws.choice(ordinary[1:])
        return ordinary[0]
