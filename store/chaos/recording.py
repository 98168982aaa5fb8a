"""SQLite's own file system on real files, with everything that is done noted and made to fail.

Every call goes on to the real file system, so the store runs as it always does: several
connections, shared memory, locks. A disk is told what was done, and is asked before each call
whether it may succeed. From what it was told, every power cut can be made afterwards.

    disk = DiskLog()
    with recorded(disk, "run-1") as recording:
        state = DiskStateFiles(paths, recording.files, vfs=recording.vfs)
"""

import errno
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, final

import apsw
from typing_extensions import override

from store.files import Files, OsFiles

_INDEX: Final = "-shm"
"""Shared memory: gone with the machine, and made anew from the log."""

# SQLite flushes the directory with the first flush of these, whenever it may create them.
_FLUSHED_WITH_DIRECTORY: Final = (
    apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
)

_ERRORS: Final = {
    "open": apsw.SQLITE_CANTOPEN,
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "remove": apsw.SQLITE_IOERR_DELETE,
}
_FULL: Final = "disk full"
_TORN: Final = "torn write"


class Disk(Protocol):
    """Whom the recording tells, and asks."""

    def strike(self, call: str, name: str) -> str | None:
        """Return how a call is to fail: "disk full", "torn write", else an error; None if not.

        Args:
            call: "open", "read", "write", "truncate", "sync", "create", "link", "rename",
                "remove" or "sync directory".
        """
        ...

    def file_of(self, name: str) -> int:
        """Return the number of the file of this name, a new one if it is new."""
        ...

    def wrote(self, file: int, name: str, offset: int, data: bytes) -> None:
        """Note a write."""
        ...

    def truncated(self, file: int, name: str, size: int) -> None:
        """Note a new size."""
        ...

    def synced(self, file: int, name: str, *, failed: bool = False) -> None:
        """Note a flush."""
        ...

    def linked(self, name: str, target: str) -> None:
        """Note a second name."""
        ...

    def renamed(self, name: str, target: str) -> None:
        """Note that a name took another's place."""
        ...

    def removed(self, name: str) -> None:
        """Note that a name is gone."""
        ...

    def directory_synced(self) -> None:
        """Note a flush of the directory."""
        ...


@dataclass(frozen=True, slots=True)
class Recording:
    """A file system under record.

    Attributes:
        vfs: its name, for whatever opens a connection.
        files: the file operations of the store, on the same record.
    """

    vfs: str
    files: Files


@contextmanager
def recorded(
    disk: Disk,
    name: str,
    randomness: Callable[[int], bytes] | None = None,
    *,
    flushes_folder_of_old: bool = True,
    asks_before_reads: bool = True,
) -> Generator[Recording]:
    """Offer a file system whose every operation `disk` is told.

    One thread at a time may use it.

    Args:
        name: of the VFS, unique in the process.
        randomness: where SQLite takes the salts of its logs from; then the bytes of two equal
            runs are equal. It counts for the whole process while this lasts. None leaves it.
        flushes_folder_of_old: SQLite flushes the directory too when it first flushes a log that
            it may create, also one that was there already. False: that is noted only of a log
            that is new or empty, so nobody can rely on it for what others have put in its place.
        asks_before_reads: False is faster: no read fails, and none is counted.
    """
    vfs = RecordingVfs(
        disk,
        name,
        randomness,
        flushes_folder_of_old=flushes_folder_of_old,
        asks_before_reads=asks_before_reads,
    )
    before = apsw.vfs_names()[0]
    try:
        if randomness is not None:
            apsw.set_default_vfs(name)
            apsw.randomness(0)
        yield Recording(name, RecordingFiles(disk))
    finally:
        if randomness is not None:
            apsw.set_default_vfs(before)
            apsw.randomness(0)
        vfs.unregister()


@final
class RecordingVfs(apsw.VFS):
    """The file system as SQLite sees it."""

    def __init__(
        self,
        disk: Disk,
        name: str,
        randomness: Callable[[int], bytes] | None = None,
        *,
        flushes_folder_of_old: bool = True,
        asks_before_reads: bool = True,
    ) -> None:
        self._flushes_folder_of_old: Final = flushes_folder_of_old
        self._file: Final = _AskingFile if asks_before_reads else RecordingFile
        self._disk: Final = disk
        self._randomness: Final = randomness
        self._base: Final = apsw.vfs_names()[0]
        super().__init__(name, self._base)

    @override
    def excepthook(self, etype: object, evalue: object, etraceback: object) -> bool:
        """Say nothing: what fails here was told to."""
        return True

    @override
    def xOpen(self, name: "str | apsw.URIFilename | None", flags: list[int]) -> "RecordingFile":
        path = _path(name)
        if path is not None and not path.endswith(_INDEX):
            _refuse(self._disk, "open", _own(path))
        flushes_folder = self._flushes_folder_of_old or not _is_filled(path)
        return self._file(self._disk, self._base, name, flags, flushes_folder=flushes_folder)

    @override
    def xDelete(self, filename: str, syncdir: bool) -> None:
        own = _own(filename)
        if own.endswith(_INDEX):
            super().xDelete(filename, syncdir)
            return
        _refuse(self._disk, "remove", own)
        super().xDelete(filename, syncdir)
        self._disk.removed(own)
        if syncdir:
            self._disk.directory_synced()

    @override
    def xRandomness(self, numbytes: int) -> bytes:
        if self._randomness is None:
            return super().xRandomness(numbytes)
        return self._randomness(numbytes)


class RecordingFile(apsw.VFSFile):
    """One open file; nobody is asked before it is read."""

    def __init__(
        self,
        disk: Disk,
        base: str,
        name: "str | apsw.URIFilename | None",
        flags: list[int],
        *,
        flushes_folder: bool = True,
    ) -> None:
        self._disk: Final = disk
        asked = flags[0]
        path = _path(name)
        super().__init__(base, name, flags)
        self._is_noted: Final = path is not None and not path.endswith(_INDEX)
        self._name: Final = _own(path or "")
        self._file: Final = disk.file_of(self._name) if self._is_noted else 0
        self._owes_directory = flushes_folder and bool(
            asked & apsw.SQLITE_OPEN_CREATE and asked & _FLUSHED_WITH_DIRECTORY
        )

    @override
    def excepthook(self, etype: object, evalue: object, etraceback: object) -> bool:
        """Say nothing: what fails here was told to."""
        return True

    @override
    def xWrite(self, data: bytes, offset: int) -> None:
        if not self._is_noted:
            super().xWrite(data, offset)
            return
        failure = self._disk.strike("write", self._name)
        if failure is not None and failure != _TORN:
            raise _error("write", failure)
        written = bytes(data if failure is None else data[: len(data) // 2])
        super().xWrite(written, offset)
        self._disk.wrote(self._file, self._name, offset, written)
        if failure is not None:
            raise _error("write", failure)

    @override
    def xTruncate(self, newsize: int) -> None:
        if self._is_noted:
            _refuse(self._disk, "truncate", self._name)
        super().xTruncate(newsize)
        if self._is_noted:
            self._disk.truncated(self._file, self._name, newsize)

    @override
    def xSync(self, flags: int) -> None:
        if not self._is_noted:
            super().xSync(flags)
            return
        failure = self._disk.strike("sync", self._name)
        if failure is not None:
            self._disk.synced(self._file, self._name, failed=True)
            raise _error("sync", failure)
        super().xSync(flags)
        self._disk.synced(self._file, self._name)
        if self._owes_directory:
            self._owes_directory = False
            self._disk.directory_synced()


@final
class _AskingFile(RecordingFile):
    """One open file of which a read may fail."""

    @override
    def xRead(self, amount: int, offset: int) -> bytes:
        if self._is_noted and (failure := self._disk.strike("read", self._name)):
            raise _error("read", failure)
        return super().xRead(amount, offset)


@final
class RecordingFiles:
    """The store's own file operations; see `store.files.Files`."""

    def __init__(self, disk: Disk) -> None:
        self._disk: Final = disk
        self._real: Final = OsFiles()

    def size(self, path: Path) -> int | None:
        """Return the size in bytes, or None if nothing is there."""
        return self._real.size(path)

    def create(self, path: Path) -> None:
        """Create an empty file of mode 0600."""
        self._refuse("create", path)
        self._real.create(path)
        self._disk.file_of(_own(path))

    def copy(self, source: Path, target: Path) -> None:
        """Write the bytes of `source` to `target`."""
        self._refuse("open", source)
        existed = self._real.size(target) is not None
        self._refuse("create", target)
        failure = self._disk.strike("write", _own(target))
        if failure is not None and failure != _TORN:
            raise _os_error(failure, target)
        self._real.copy(source, target)
        if failure is not None:
            os.truncate(target, (self._real.size(target) or 0) // 2)
        file = self._disk.file_of(_own(target))
        if existed:
            self._disk.truncated(file, _own(target), 0)
        self._disk.wrote(file, _own(target), 0, target.read_bytes())
        if failure is not None:
            raise _os_error(failure, target)

    def sync(self, path: Path) -> None:
        """Make the bytes of a file durable."""
        failure = self._disk.strike("sync", _own(path))
        self._real.sync(path)
        self._disk.synced(self._disk.file_of(_own(path)), _own(path), failed=failure is not None)
        if failure is not None:
            raise _os_error(failure, path)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        self._refuse("sync directory", path)
        self._real.sync_directory(path)
        self._disk.directory_synced()

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        self._refuse("link", target)
        self._real.link(source, target)
        self._disk.linked(_own(source), _own(target))

    def rename(self, source: Path, target: Path) -> None:
        """Move a name over another, atomically."""
        self._refuse("rename", target)
        self._real.rename(source, target)
        self._disk.renamed(_own(source), _own(target))

    def remove(self, path: Path) -> None:
        """Remove a name."""
        existed = self._real.size(path) is not None
        if existed:
            self._refuse("remove", path)
        self._real.remove(path)
        if existed:
            self._disk.removed(_own(path))

    def _refuse(self, call: str, path: Path) -> None:
        failure = self._disk.strike(call, _own(path))
        if failure is not None:
            raise _os_error(failure, path)


def _path(name: "str | apsw.URIFilename | None") -> str | None:
    return name.filename() if isinstance(name, apsw.URIFilename) else name


def _is_filled(path: str | None) -> bool:
    return path is not None and bool(OsFiles().size(Path(path)))


def _own(path: str | Path) -> str:
    """Return the name inside its directory; the number of a process is nobody's business."""
    name = os.path.basename(path)  # noqa: PTH119 - once for each call of SQLite's
    head, marked, tail = name.partition(".creating-")
    return head + marked + tail.lstrip("0123456789") if marked else name


def _refuse(disk: Disk, call: str, name: str) -> None:
    failure = disk.strike(call, name)
    if failure is not None:
        raise _error(call, failure)


def _error(call: str, failure: str) -> Exception:
    return apsw.exception_for(apsw.SQLITE_FULL if failure == _FULL else _ERRORS[call])


def _os_error(failure: str, path: Path) -> OSError:
    code = errno.ENOSPC if failure == _FULL else errno.EIO
    return OSError(code, os.strerror(code), str(path))
