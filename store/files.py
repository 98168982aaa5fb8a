"""The few file operations the store does itself, behind an interface that a simulator can own."""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final, Protocol

PRIVATE_FILE: Final = 0o600
_COPY_BYTES: Final = 1 << 20
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Files(Protocol):
    """What creation and the start rule need of a file system. No method follows a symlink."""

    def size(self, path: Path) -> int | None:
        """Return the size in bytes, or None if nothing is there. Opens nothing."""

    def create(self, path: Path) -> None:
        """Create an empty file of mode 0600; FileExistsError if something is there."""

    def copy(self, source: Path, target: Path) -> None:
        """Write the bytes of `source` to `target`, mode 0600, replacing what `target` held."""

    def sync(self, path: Path) -> None:
        """Make the bytes of a file durable."""

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; FileExistsError if the name is taken."""

    def rename(self, source: Path, target: Path) -> None:
        """Move a name over another, atomically."""

    def remove(self, path: Path) -> None:
        """Remove a name; nothing happens if it is absent."""


class OsFiles:
    """`Files` on the real file system.

    None of these may touch `state.sqlite` or its `-shm` while SQLite has them open: closing any
    descriptor of theirs drops the process's locks on them.
    """

    def size(self, path: Path) -> int | None:
        """Return the size in bytes, or None if nothing is there."""
        try:
            return path.lstat().st_size
        except FileNotFoundError:
            return None

    def create(self, path: Path) -> None:
        """Create an empty file of mode 0600."""
        os.close(os.open(path, _NEW_FILE | os.O_EXCL, PRIVATE_FILE))

    def copy(self, source: Path, target: Path) -> None:
        """Write the bytes of `source` to `target`, mode 0600."""
        with (
            os.fdopen(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as reader,
            os.fdopen(os.open(target, _NEW_FILE | os.O_TRUNC, PRIVATE_FILE), "wb") as writer,
        ):
            while chunk := reader.read(_COPY_BYTES):
                writer.write(chunk)

    def sync(self, path: Path) -> None:
        """Make the bytes of a file durable."""
        _sync(path, os.O_RDONLY | os.O_NOFOLLOW)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        os.link(source, target, follow_symlinks=False)

    def rename(self, source: Path, target: Path) -> None:
        """Move a name over another, atomically."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a name."""
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        _flush(descriptor)
    finally:
        os.close(descriptor)


def _flush(descriptor: int) -> None:
    """Flush to the medium; on macOS fsync stops at the drive's cache, F_FULLFSYNC does not."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full)
