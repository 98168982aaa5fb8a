"""What was done to a disk, in order: the record from which every power cut is made afterwards.

All files lie in one directory. A file is a number, as an inode is: names come and go, and a file
that was renamed or removed may still be written to by whoever has it open.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, final

from runtime.chaos.disk_faults import Failure

DIRECTORY: Final = 0
"""The number of the directory itself."""


class Doing(StrEnum):
    """What an operation does."""

    CREATE = "create"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    LINK = "link"
    RENAME = "rename"
    REMOVE = "remove"
    SYNC_DIRECTORY = "sync directory"


class Operation(NamedTuple):
    """One thing that was done.

    Attributes:
        file: its number; `DIRECTORY` for the directory.
        name: by which it was done.
        label: unique and stable: what was going on, and the how manieth of its kind in that.
        offset: where a write begins; the new size of a truncation.
        data: what was written.
        target: the new name, of a link or rename.
        failed: a flush that failed: nothing of it is on the disk, and its pages count as clean.
    """

    doing: Doing
    file: int
    name: str
    label: str
    offset: int = 0
    data: bytes = b""
    target: str = ""
    failed: bool = False

    def as_failed(self) -> "Operation":
        """Return the same flush, failing."""
        return self._replace(failed=True)


class Strikes(Protocol):
    """Who decides which call fails."""

    def strike(self, call: str, name: str) -> Failure | None:
        """Return how this call is to fail; None lets it succeed.

        Args:
            call: a value of `Doing`, or "open" or "read".
            name: of the file.
        """
        ...


@final
class NoFaults:
    """Nothing ever fails."""

    def strike(self, call: str, name: str) -> Failure | None:  # noqa: ARG002 - the protocol's
        """Return None."""
        return None


@final
class DiskLog:
    """Takes down what is done; what does it asks here first whether it may succeed.

    Attributes:
        operations: everything done, in order.
        place: what is going on, for labels: "commit 3".
        strikes: who decides what fails; may be replaced at any time.
        lies: flushes are not carried out although they say so.
        struck_at: how many operations were done when a call first failed; None: none has.
    """

    def __init__(
        self,
        names: Mapping[str, int] | None = None,
        strikes: Strikes | None = None,
        *,
        files: int = 0,
    ) -> None:
        """Begin a record; `DiskModel.log` does so for a disk that is not empty.

        Args:
            names: of the files that are there already, with their numbers.
            files: the highest number that is taken.
        """
        self.operations: Final[list[Operation]] = []
        self.place = ""
        self.strikes: Strikes = strikes or NoFaults()
        self.lies = False
        self.struck_at: int | None = None
        self.names: Final = dict(names or {})
        self._files = max([files, *self.names.values()])
        self._numbers: Final[Counter[str]] = Counter()

    def strike(self, call: str, name: str) -> Failure | None:
        """Return how a call is to fail; None lets it succeed."""
        failure = self.strikes.strike(call, name)
        if failure is not None and self.struck_at is None:
            self.struck_at = len(self.operations)
        return failure

    def file_of(self, name: str) -> int:
        """Return the number of the file that has this name; a new name is a new file."""
        number = self.names.get(name)
        if number is None:
            self._files += 1
            number = self.names[name] = self._files
            self._note(Doing.CREATE, number, name)
        return number

    def wrote(self, file: int, name: str, offset: int, data: bytes) -> None:
        """Note a write."""
        self._note(Doing.WRITE, file, name, offset=offset, data=data)

    def truncated(self, file: int, name: str, size: int) -> None:
        """Note that a file was cut or grown to a size."""
        self._note(Doing.TRUNCATE, file, name, offset=size)

    def synced(self, file: int, name: str, *, failed: bool = False) -> None:
        """Note a flush of a file, and whether it failed."""
        if not self.lies or failed:
            self._note(Doing.SYNC, file, name, failed=failed)

    def linked(self, name: str, target: str) -> None:
        """Note a second name."""
        number = self.names[target] = self.names[name]
        self._note(Doing.LINK, number, name, target=target)

    def renamed(self, name: str, target: str) -> None:
        """Note that a name took the place of another."""
        number = self.names[target] = self.names.pop(name)
        self._note(Doing.RENAME, number, name, target=target)

    def removed(self, name: str) -> None:
        """Note that a name is gone."""
        number = self.names.pop(name)
        self._note(Doing.REMOVE, number, name)

    def directory_synced(self) -> None:
        """Note a flush of the directory."""
        if not self.lies:
            self._note(Doing.SYNC_DIRECTORY, DIRECTORY, "the directory")

    def _note(
        self,
        doing: Doing,
        file: int,
        name: str,
        *,
        offset: int = 0,
        data: bytes = b"",
        target: str = "",
        failed: bool = False,
    ) -> None:
        what = f"{self.place} {doing} {target or name}".lstrip()
        self._numbers[what] += 1
        label = f"{what} {self._numbers[what]}"
        self.operations.append(Operation(doing, file, name, label, offset, data, target, failed))
