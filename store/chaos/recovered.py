"""What SQLite makes of the files that a power cut left, as fast as it can be had.

SQLite itself recovers the log and moves it into the database, on files in memory: no schema is
read, no statement compiled. What comes out is the database byte for byte; two power cuts that
leave the same bytes leave the same rows, so whatever else is to be checked is checked once.
"""

from collections.abc import Mapping
from typing import Final, final

import apsw
from typing_extensions import override

_SECTOR: Final = 4096

LOG_HEADER: Final = 32
"""Bytes in front of the first frame of a log."""

FRAME: Final = 24 + 4096
"""Bytes of a frame: its header and one page; no database of ours has other pages."""

# The index of the log in memory, and one look at the first page.
_RECOVER: Final = "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; ROLLBACK"


class NotRecoverable(Exception):
    """SQLite finds these files damaged, or no database in them."""


@final
class Recoverer:
    """Recovers one set of files after the other; close it in the end.

    Attributes:
        frames: how many pages of the log the files recovered last owe to committed transactions.
    """

    def __init__(self, name: str) -> None:
        """`name` of a VFS, unique in the process."""
        self._vfs: Final = _MemoryVfs(name)
        self._name: Final = name
        self.frames = 0

    def close(self) -> None:
        """Forget the file system."""
        self._vfs.unregister()

    def recovered(self, database: str, content: Mapping[str, bytes]) -> bytes | bytearray:
        """Return the database that SQLite finds in these files; good until the next call.

        Args:
            database: its name.
            content: of every file, by name; none is changed.

        Raises:
            NotRecoverable: the files are damaged.
        """
        self._vfs.begin(content)
        try:
            connection = apsw.Connection(
                database, flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._name, statementcachesize=0
            )
            try:
                connection.execute(_RECOVER).fetchall()
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                self.frames = max(frames, 0)
            finally:
                connection.close()
        except apsw.Error as error:
            raise NotRecoverable(f"SQLite says {type(error).__name__}: {error}") from error
        return self._vfs.read(database)


@final
class _MemoryVfs(apsw.VFS):
    """Files in memory; those that are handed in are never changed."""

    def __init__(self, name: str) -> None:
        self._given: Mapping[str, bytes] = {}
        self._changed: Final[dict[str, bytearray]] = {}
        super().__init__(name, None, iVersion=2)

    def begin(self, content: Mapping[str, bytes]) -> None:
        """Serve these files from now on."""
        self._given = content
        self._changed.clear()

    def read(self, name: str) -> bytes | bytearray:
        """Return a file to read from."""
        changed = self._changed.get(name)
        return self._given.get(name, b"") if changed is None else changed

    def change(self, name: str) -> bytearray:
        """Return a file to write to."""
        changed = self._changed.get(name)
        if changed is None:
            changed = self._changed[name] = bytearray(self._given.get(name, b""))
        return changed

    @override
    def excepthook(self, etype: object, evalue: object, etraceback: object) -> bool:
        """Say nothing: damage is an answer here."""
        return True

    @override
    def xOpen(self, name: "str | apsw.URIFilename | None", flags: list[int]) -> "_MemoryFile":
        assert name is not None, "nothing spills into temporary files"
        name = name.filename() if isinstance(name, apsw.URIFilename) else name
        if name not in self._given and not flags[0] & apsw.SQLITE_OPEN_CREATE:
            raise apsw.CantOpenError
        flags[1] = flags[0]
        return _MemoryFile(self, name)

    @override
    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._changed[filename] = bytearray()

    @override
    def xAccess(self, pathname: str, flags: int) -> bool:
        return pathname in self._given

    @override
    def xFullPathname(self, name: str) -> str:
        return name

    @override
    def xRandomness(self, numbytes: int) -> bytes:
        return bytes(numbytes)

    @override
    def xCurrentTimeInt64(self) -> int:
        return 0

    @override
    def xCurrentTime(self) -> float:
        return 0.0

    @override
    def xSleep(self, microseconds: int) -> int:
        return microseconds

    @override
    def xGetLastError(self) -> tuple[int, str]:
        return 0, ""


@final
class _MemoryFile(apsw.VFSFile):
    """One of them."""

    def __init__(self, vfs: _MemoryVfs, name: str) -> None:
        self._vfs: Final = vfs
        self._name: Final = name

    @override
    def excepthook(self, etype: object, evalue: object, etraceback: object) -> bool:
        """Say nothing: damage is an answer here."""
        return True

    @override
    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self._vfs.read(self._name)[offset : offset + amount])

    @override
    def xWrite(self, data: bytes, offset: int) -> None:
        content = self._vfs.change(self._name)
        if offset > len(content):
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data

    @override
    def xTruncate(self, newsize: int) -> None:
        del self._vfs.change(self._name)[newsize:]

    @override
    def xSync(self, flags: int) -> None:
        """Do nothing: nothing here outlives the check."""

    @override
    def xFileSize(self) -> int:
        return len(self._vfs.read(self._name))

    @override
    def xLock(self, level: int) -> None:
        """Do nothing: nobody else is here."""

    @override
    def xUnlock(self, level: int) -> None:
        """Do nothing: nobody else is here."""

    @override
    def xCheckReservedLock(self) -> bool:
        return False

    @override
    def xFileControl(self, op: int, ptr: int) -> bool:
        return False

    @override
    def xSectorSize(self) -> int:
        return _SECTOR

    @override
    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    @override
    def xClose(self) -> None:
        """Do nothing: the file is a value."""
