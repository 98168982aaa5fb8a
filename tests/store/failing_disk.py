"""SQLite's own file system, whose n-th call of a kind fails, once or from then on."""

import enum
from typing import Final

import apsw
from typing_extensions import override


class Failure(enum.Enum):
    """What a call does instead of its work."""

    FULL = "full"
    """No room: nothing of the write is done."""
    BROKEN = "broken"
    """An I/O error; nothing is done."""
    TORN = "torn"
    """An I/O error after half of the write."""
    UNSYNCED = "unsynced"
    """The flush fails."""


class FailingDisk(apsw.VFS):
    """A VFS that counts calls and fails one.

    Attributes:
        fails_at: the call that fails, counted from 1 since `arm`; 0 fails none.
        seen: calls of the armed kind since `arm`.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.failure = Failure.FULL
        self.fails_at = 0
        self.is_lasting = False
        self.seen = 0
        super().__init__(name, "")

    def arm(self, failure: Failure, at: int, *, lasting: bool) -> None:
        """Let the n-th write or sync from now on fail, and all later ones if `lasting`."""
        self.failure, self.fails_at, self.is_lasting, self.seen = failure, at, lasting, 0

    def repair(self) -> None:
        """Fail no more."""
        self.fails_at = 0

    def fails(self, *failures: Failure) -> bool:
        """Count a call that these failures are about; say whether it fails."""
        if not self.fails_at or self.failure not in failures:
            return False
        self.seen += 1
        if self.is_lasting:
            return self.seen >= self.fails_at
        return self.seen == self.fails_at

    @override
    def xOpen(self, name: "str | apsw.URIFilename | None", flags: list[int]) -> "FailingFile":
        return FailingFile(self, name, flags)


class FailingFile(apsw.VFSFile):
    """One file on it."""

    def __init__(
        self, disk: FailingDisk, name: "str | apsw.URIFilename | None", flags: list[int]
    ) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    @override
    def xWrite(self, data: bytes, offset: int) -> None:
        if self._disk.fails(Failure.FULL, Failure.BROKEN, Failure.TORN):
            if self._disk.failure is Failure.FULL:
                raise apsw.FullError
            if self._disk.failure is Failure.TORN:
                super().xWrite(data[: len(data) // 2], offset)
            raise apsw.IOError
        super().xWrite(data, offset)

    @override
    def xSync(self, flags: int) -> None:
        if self._disk.fails(Failure.UNSYNCED):
            raise apsw.IOError
        super().xSync(flags)
