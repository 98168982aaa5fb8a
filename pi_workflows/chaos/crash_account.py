"""The figures of one unit of the engine `crash`, and when it has explored enough."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from runtime.chaos.choices import Benign, Source
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Finding, Tally
from runtime.chaos.walks import source_of
from runtime.simulation.chance import Chance, Draws

Finder = Callable[[dict[str, str], int], Finding | None]
"""Repeats an exploration from its choices and seed; returns what it breaks."""

WORKLOADS: Final = "workloads"
"""The unit of lives of which every call has failed, in every way, once and for good."""

_TELL_EVERY: Final = 256
_CHECKPOINTS: Final = 0.3
"""How often the log is moved after a commit."""

_BARREN_MAX: Final = 8
"""Lives in a row without anything new, after which there is nothing new any more."""

_STEPS: Final = 20
"""About how many steps a life has; only a hint for who draws it."""


@final
class Account:
    """Counts explorations.

    Attributes:
        tally: the figures so far.
    """

    def __init__(
        self,
        tally: Tally,
        wanted: Wanted,
        find: Finder,
        *,
        goal: int,
        ends_s: float | None,
    ) -> None:
        """Begin to count.

        Args:
            find: makes findings of what broke.
            goal: how many are enough, all parts together, where nobody has asked for a number; 0
                is never enough.
            ends_s: when time is up, on the machine's monotonic clock; None is never.
        """
        self.tally: Final = tally
        self._wanted: Final = wanted
        self._find: Final = find
        self._began_s: Final = time.monotonic()
        self._ends_s: Final = ends_s
        self._untold = 0
        goal = wanted.goals.get(tally.unit, goal)
        self.goal: Final = -(-goal // wanted.part[1]) if wanted.seeds is None else 0
        tally.promised = self.goal
        self._is_short = False
        self._is_first = False

    def is_over(self) -> bool:
        """Say whether to stop, however little was explored: no time is left, or much is broken."""
        is_late = self._ends_s is not None and time.monotonic() >= self._ends_s
        if is_late or self.tally.broken >= self._wanted.findings_max:
            self._is_short = True
            return True
        return False

    def is_enough(self) -> bool:
        """Say whether there is nothing left to do, or no time."""
        return self.is_over() or (bool(self.goal) and (self.tally.distinct or 0) >= self.goal)

    def begin_life(self, places: int) -> bool:
        """Say whether a life is the first of all parts; only of that one places are counted.

        Args:
            places: at how many of its places faults can be put.
        """
        self._is_first = self.part[0] == 0 and self.tally.places is None
        if self._is_first:
            self.tally.places = places
        return self._is_first

    def reached_place(self) -> None:
        """Note that every fault was put at one place of this life."""
        self.tally.reached += self._is_first

    def seeds(self) -> Iterator[int]:
        """Return the seeds of this part's lives.

        Where nobody has asked for some there is no end, unless life after life brings nothing new.
        """
        part, parts = self._wanted.part
        if self._wanted.seeds is not None:
            yield from self._wanted.seeds[part::parts]
            return
        barren, known = 0, 0
        for seed in itertools.count(part, parts):
            yield seed
            barren = barren + 1 if known == self.tally.explored else 0
            known = self.tally.explored
            if barren == _BARREN_MAX:
                return

    @property
    def part(self) -> tuple[int, int]:
        """Which part of how many this is."""
        return self._wanted.part

    def count(self, fault: str) -> None:
        """Count one that was explored and differs from all others."""
        tally = self.tally
        tally.explored += 1
        tally.distinct = (tally.distinct or 0) + 1
        tally.faults[fault] += 1
        self._untold += 1
        if self._untold >= _TELL_EVERY:
            self.tell()

    def tell(self) -> None:
        """Say how many more there are."""
        if self._wanted.tell is not None and self._untold:
            self._wanted.tell(self.tally.unit, self._untold)
        self._untold = 0

    def broke(self, choices: dict[str, str], seed: int, complaint: str) -> None:
        """Count a broken one; the first few are repeated from their choices alone."""
        tally = self.tally
        tally.broken += 1
        if len(tally.findings) >= self._wanted.findings_max:
            return
        finding = self._find(choices, seed)
        if finding is None or finding.complaint != complaint:
            found = "holds" if finding is None else finding.complaint
            tally.not_deterministic.append(
                f"seed {seed}, {choices}: {complaint}; repeated: {found}"
            )
        if finding is not None:
            tally.findings.append(finding)

    def close(self) -> Tally:
        """Return the figures; what seeds were wanted and not explored is missing in them."""
        self.tell()
        self.tally.seconds = time.monotonic() - self._began_s
        if self._wanted.seeds is not None and self._is_short:
            self.tally.promised = (self.tally.distinct or 0) + 1
        return self.tally


@final
class Workloads:
    """Lives of which every call is to fail; all parts share each of them.

    Attributes:
        tally: how many are done; a part counts those of which it has done its share.
        goal: how many are enough, for every part; 0: one, or as many as the account needs.
    """

    def __init__(self, account: Account, wanted: Wanted) -> None:
        tally = account.tally
        self._account: Final = account
        self._wanted: Final = wanted
        self.goal: Final = wanted.goals.get(WORKLOADS, 0) if wanted.seeds is None else 0
        self.tally: Final = Tally(tally.scenario, tally.engine, WORKLOADS, is_shared=True)
        self.tally.promised = self.goal if wanted.seeds is None else len(wanted.seeds)

    @property
    def is_asked_for(self) -> bool:
        """Whether somebody has asked for more than the engine's own share."""
        return self._wanted.is_all or bool(self.tally.promised or self._account.goal)

    def seeds(self) -> Iterator[int]:
        """Return their seeds."""
        if self._wanted.seeds is not None:
            return iter(self._wanted.seeds)
        if self.goal:
            return iter(range(self.goal))
        return itertools.count() if self._account.goal else iter((0,))

    def close(self) -> Tally:
        """Return the figures; complete when everything was that was asked for."""
        self.tally.complete = self._account.tally.complete
        return self.tally


def order_of(seed: int) -> Source:
    """Return how the order of this seed is drawn; that of seed 0 is the benign one."""
    return Benign() if seed == 0 else _Drawn(seed)


@final
class _Drawn:
    """A walk, with checkpoints in between."""

    def __init__(self, seed: int) -> None:
        self._order: Final = source_of(seed, _STEPS)
        self._checkpoints: Final[Draws] = Chance(seed).stream("checkpoints")

    def pick(self, name: str, options: Sequence[str]) -> int:
        """Draw one; see `Source`."""
        if not name.startswith("checkpoint"):
            return self._order.pick(name, options)
        if self._checkpoints.random() >= _CHECKPOINTS:
            return 0
        return self._checkpoints.randrange(1, len(options))
