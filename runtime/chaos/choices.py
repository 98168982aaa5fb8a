"""Every decision of an exploration: asked by a stable name, answered by a source, kept if unusual.

The first option of a decision is the benign one: go on, no fault. Only decisions that fell
otherwise are kept, by name and not by position, so one can be left out and the others still mean
the same. What is kept is enough to repeat an exploration exactly.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

from runtime.simulation.chance import Chance, Draws


class Source(Protocol):
    """Who answers."""

    def pick(self, name: str, options: Sequence[str]) -> int:
        """Return the index of one of at least two options; 0 is the benign one.

        Args:
            name: the decision with its number, unique within an exploration.
        """
        ...


@dataclass(slots=True)
class Decision:
    """One decision that was made.

    Attributes:
        name: `FAMILY#N`, N from 1 in each family.
        picked: index of the option taken.
        count: how many options there were.
    """

    name: str
    picked: int
    count: int


@final
class Choices:
    """The decisions of one exploration.

    Attributes:
        unusual: the option taken, by the decision's name, wherever it was not the first.
        made: every decision in order, also the benign ones.
    """

    def __init__(self, source: Source) -> None:
        """`source` is asked from now on, and by nobody else."""
        self._source: Final = source
        self._asked: Final[dict[str, int]] = {}
        self.unusual: Final[dict[str, str]] = {}
        self.made: Final[list[Decision]] = []

    def pick(self, family: str, options: Sequence[str]) -> str:
        """Decide between options; the first is what happens when nothing special does.

        Args:
            family: what is decided, stable however the rest falls: "worker-0 after claim", not
                "step 17". Decisions of a family are numbered.
            options: at least one, all different; one alone is taken without asking anybody.
        """
        number = self._asked[family] = self._asked.get(family, 0) + 1
        if len(options) == 1:
            return options[0]
        name = f"{family}#{number}"
        index = self._source.pick(name, options)
        self.made.append(Decision(name, index, len(options)))
        if index:
            self.unusual[name] = options[index]
        return options[index]

    def key(self) -> int:
        """Return 64 bits of a digest of all decisions, the same in every process.

        Two explorations of the same scenario that decide alike have the same key. That two of a
        million which do not have it too is as likely as one in forty million.
        """
        path = b"".join([decision.picked.to_bytes(2, "big") for decision in self.made])
        return int.from_bytes(hashlib.blake2b(path, digest_size=8).digest(), "big")


@final
class Benign:
    """Nothing unusual ever happens."""

    def pick(self, name: str, options: Sequence[str]) -> int:  # noqa: ARG002 - the protocol's
        """Return 0."""
        return 0


@final
class Replayed:
    """Repeats what was kept; all else is benign.

    Attributes:
        unused: kept decisions that were not asked for, or whose option was not offered.
    """

    def __init__(self, kept: Mapping[str, str]) -> None:
        self._kept: Final = kept
        self.unused: Final = set(kept)

    def pick(self, name: str, options: Sequence[str]) -> int:
        """Return the kept option if it is offered, else 0."""
        option = self._kept.get(name)
        if option is None or option not in options:
            return 0
        self.unused.discard(name)
        return options.index(option)


@final
class Seeded:
    """Draws by a seed: mostly benign, each family from a stream of its own.

    A stream of its own lets a decision of one family come or go without changing what the others
    draw. `rates` gives the probability of an unusual option by the family's first word; families
    without an entry draw with `otherwise`.
    """

    def __init__(
        self, seed: int, rates: Mapping[str, float] | None = None, *, otherwise: float = 0.5
    ) -> None:
        self._chance: Final = Chance(seed)
        self._rates: Final = rates or {}
        self._otherwise: Final = otherwise
        self._streams: Final[dict[str, Draws]] = {}

    def pick(self, name: str, options: Sequence[str]) -> int:
        """Draw from the stream of the family."""
        family = name.rpartition("#")[0]
        stream = self._streams.get(family)
        if stream is None:
            stream = self._streams[family] = self._chance.stream(family)
        if stream.random() >= self._rates.get(family.split(" ", 1)[0], self._otherwise):
            return 0
        return 1 + stream.randrange(len(options) - 1)


@final
class Systematic:
    """Depth first through every combination; one exploration per path.

        source = Systematic()
        while True:
            explore(Choices(source))
            if not source.advance():
                break

    Attributes:
        kept_depth: how many leading decisions of the next path equal those of the last one.
    """

    def __init__(self, prefix: Sequence[int] = ()) -> None:
        """Explore only below the path of option indices `prefix`; () is everything."""
        self._fixed: Final = len(prefix)
        self._path: Final[list[int]] = list(prefix)
        self._counts: Final[list[int]] = [0] * len(prefix)
        self._depth = 0
        self.kept_depth = 0

    def pick(self, name: str, options: Sequence[str]) -> int:  # noqa: ARG002 - the protocol's
        """Follow the path, and beyond its end take the first option."""
        depth = self._depth
        self._depth += 1
        if depth == len(self._path):
            self._path.append(0)
            self._counts.append(len(options))
        else:
            self._counts[depth] = len(options)
        return self._path[depth]

    def again(self) -> None:
        """Follow the same path once more."""
        self._depth = 0
        self.kept_depth = 0

    def advance(self, depth_max: int | None = None) -> bool:
        """Go on to the next path; False when there is none.

        Args:
            depth_max: let it differ within so many leading decisions; None: anywhere.
        """
        depth = self._depth if depth_max is None else min(self._depth, depth_max)
        del self._path[depth:], self._counts[depth:]
        self._depth = 0
        while len(self._path) > self._fixed:
            if self._path[-1] + 1 < self._counts[-1]:
                self._path[-1] += 1
                self.kept_depth = len(self._path) - 1
                return True
            self._path.pop()
            self._counts.pop()
        return False
