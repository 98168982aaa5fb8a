"""A private file without a name, for bytes that are on their way."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, final

SCRATCH_PREFIX: Final = ".scratch-"
"""Beginning of a name that such a file has for an instant, where it cannot be born without one."""


class ScratchFile(Protocol):
    """Bytes that end with their holder. Its methods may wait for the disk."""

    def append(self, data: bytes) -> None:
        """Add bytes at the end.

        Raises:
            OSError: The disk is full or failing.
        """
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`; fewer only at the end."""
        ...

    def close(self) -> None:
        """Give the bytes up; a second call does nothing."""
        ...


@final
class SystemScratchFile:
    """A file of mode 0600 that has no name: whatever kills its process frees it."""

    def __init__(self, directory: Path) -> None:
        """Make it on the disk of `directory`, which exists.

        Raises:
            OSError: It cannot be made.
        """
        self._descriptor: int | None = _open_nameless(directory)

    def append(self, data: bytes) -> None:
        """See `ScratchFile.append`."""
        assert self._descriptor is not None, "the file is closed"
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def read(self, offset: int, count: int) -> bytes:
        """See `ScratchFile.read`."""
        assert self._descriptor is not None, "the file is closed"
        return os.pread(self._descriptor, count, offset)

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


def _open_nameless(directory: Path) -> int:
    nameless = getattr(os, "O_TMPFILE", None)
    if nameless is not None:
        with suppress(OSError):  # Not every file system can.
            return os.open(directory, nameless | os.O_RDWR | os.O_CLOEXEC, 0o600)
    descriptor, name = tempfile.mkstemp(prefix=SCRATCH_PREFIX, dir=directory)
    Path(name).unlink()
    return descriptor


def remove_left_scratch(directory: Path) -> None:
    """Remove the names that servers which died in that instant have left."""
    for path in directory.glob(f"{SCRATCH_PREFIX}*"):
        path.unlink(missing_ok=True)
