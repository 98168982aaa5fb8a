"""Judges what a power cut has left: quickly what is in it, and closely what was not seen before.

What SQLite recovers is compared byte for byte with the contents that may be there. The real start
and all that looks at rows are functions of the recovered bytes and of the files they come from.
Of the files a start can tell apart which there are, which are empty, how many frames of the log
count, what follows them, and whether the database alone is whole already; each combination goes
that way once at each instant.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, final

from pi_workflows.chaos.crash_reopening import Complaint, Reopening, Told, ToldOf
from runtime.chaos.disk_history import History
from runtime.chaos.disk_survivors import Survivors
from store.chaos.recovered import FRAME, LOG_HEADER, NotRecoverable, Recoverer

DATABASE: Final = "state.sqlite"
LOG: Final = f"{DATABASE}-wal"

Memo = dict[object, str | None]


@final
class Judge:
    """Knows what it has looked at.

    Attributes:
        examined: how many states went through the real start since counting began.
    """

    def __init__(self, recoverer: Recoverer, reopening: Reopening) -> None:
        self._recoverer: Final = recoverer
        self._reopening: Final = reopening
        self._judged: Final[Memo] = {}
        self._memo: Final[Memo] = {}
        self.examined = 0

    @property
    def checks(self) -> Counter[str]:
        """How often each invariant of the scenario really ran since counting began."""
        return self._reopening.checks

    def begin_counting(self, names: Iterable[str]) -> None:
        """Count anew how often these invariants run, and forget what was looked at."""
        self._judged.clear()
        self._memo.clear()
        self.examined = 0
        self.checks.clear()
        self.checks.update(dict.fromkeys(names, 0))

    def complaint(
        self, left: Survivors, history: History, position: int, told: ToldOf
    ) -> str | None:
        """Say what does not hold; None if everything does.

        Args:
            history: of the life in which the power was cut, at `position`.
            told: everything that whoever finds one of its versions may have been told before.
        """
        first, last = history.certain(position), history.newest(position)
        may_be = tuple(
            [
                (hash(history.versions[index].content), told(index).fingerprint)
                for index in range(first, last + 1)
            ]
        )
        key = (left.key, may_be, self._reopening.at_ms)
        if key not in self._judged:
            self._judged[key] = self._complaint(left, history, first, last, told)
        return self._judged[key]

    def _complaint(
        self, left: Survivors, history: History, first: int, last: int, told: ToldOf
    ) -> str | None:
        found = self._found(left)
        if isinstance(found, NotRecoverable):
            return f"P1: {found}"
        for index in range(first, last + 1):
            if history.versions[index].content == found:
                return self._examined(left, history.versions[index].content, told(index))
        return _what_is_lost(history, first, last, found)

    def _found(self, left: Survivors) -> bytes | bytearray | NotRecoverable | None:
        """Return the recovered database; None where there is none."""
        if DATABASE not in left.files:
            return None
        try:
            return self._recoverer.recovered(DATABASE, left.content())
        except NotRecoverable as damaged:
            return damaged

    def _examined(self, left: Survivors, found: bytes | None, told: Told) -> str | None:
        """Take the state through the real start, unless one like it went there."""
        key = (hash(found), self._shape(left, found), told.fingerprint, self._reopening.at_ms)
        if key not in self._memo:
            self.examined += 1
            try:
                self._reopening.examine(left.content(), found, told)
                self._memo[key] = None
            except Complaint as complaint:
                self._memo[key] = str(complaint)
        return self._memo[key]

    def _shape(self, left: Survivors, found: bytes | None) -> tuple[object, ...]:
        """Return what a start can tell of these files beside what SQLite recovers from them."""
        files = tuple([(name, bool(file.content)) for name, file in sorted(left.files.items())])
        if found is None:
            return files
        frames = self._recoverer.frames
        rest = b"" if LOG not in left.files else left.files[LOG].content
        beyond = len(rest) - (LOG_HEADER + frames * FRAME if frames else 0)
        return (
            *files,
            frames,
            beyond > 0,
            (len(rest) - LOG_HEADER) % FRAME == 0,
            left.files[DATABASE].content == found,
        )


def _what_is_lost(history: History, first: int, last: int, found: bytes | bytearray | None) -> str:
    names = [version.name for version in history.versions if version.content == found]
    promised = history.versions[first].name
    if not names:
        return (
            "P2: what is found was never committed;"
            f" {promised} to {history.versions[last].name} may be there"
        )
    return f"P1: somebody was told of {promised}, and the disk holds {names[-1]}"
