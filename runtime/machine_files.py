"""The server's own small files as a port: lock, registry and log, whatever disk lies below.

The database is not among them: `actors.state_files` is its port.
"""

from pathlib import Path
from typing import Final, Protocol, final

from runtime.flock import FileLock
from runtime.log import LogFile, LogSink
from runtime.private_files import ensure_private_directory, replace_file
from runtime.scratch_file import ScratchFile, SystemScratchFile, remove_left_scratch


class ExclusiveLock(Protocol):
    """A lock on a file that ends with its process, however that ends."""

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        ...

    def try_acquire(self) -> bool:
        """Take the lock now; False if another holds it.

        Raises:
            OSError: The file cannot be made or opened.
        """
        ...

    def release(self) -> None:
        """Give the lock up; does nothing if it is not held."""
        ...


class MachineFiles(Protocol):
    """Files of one user, mode 0600, in directories of mode 0700."""

    def prepare_directory(self, path: Path) -> None:
        """Make a directory private, or check one that exists; see `ensure_private_directory`."""
        ...

    def existing_folder(self, path: str) -> str | None:
        """Return the canonical path of anybody's folder.

        Args:
            path: whatever somebody has sent.

        Returns:
            None when it is no absolute path of a folder that can be seen.
        """
        ...

    def read(self, path: Path) -> bytes:
        """Return what a file holds.

        Raises:
            FileNotFoundError: There is none.
            OSError: It cannot be read.
        """
        ...

    def replace(self, path: Path, data: bytes) -> None:
        """Put `data` at `path` in one step: a reader sees the old file or the new one."""
        ...

    def rename(self, path: Path, target: Path) -> None:
        """Move a file over another in one step."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; nothing happens if it is absent."""
        ...

    def scratch(self, directory: Path) -> ScratchFile:
        """Make an empty private file without a name on the disk of `directory`.

        Raises:
            OSError: It cannot be made.
        """
        ...

    def remove_left_scratch(self, directory: Path) -> None:
        """Remove what a server that died in the act has left of such files."""
        ...

    def lock(self, path: Path) -> ExclusiveLock:
        """Name a lock; nothing is locked yet."""
        ...

    def open_log(self, path: Path) -> LogSink:
        """Append to a log, whose directory is made private if missing."""
        ...


@final
class SystemFiles:
    """The files of the operating system."""

    def prepare_directory(self, path: Path) -> None:
        """See `runtime.private_files.ensure_private_directory`."""
        ensure_private_directory(path)

    def existing_folder(self, path: str) -> str | None:
        """Resolve a path and look whether it is a folder."""
        try:
            folder = Path(path).resolve()
            return str(folder) if Path(path).is_absolute() and folder.is_dir() else None
        except (OSError, ValueError, RuntimeError):  # Forbidden, no name at all, a loop of links.
            return None

    def read(self, path: Path) -> bytes:
        """Read a file."""
        return path.read_bytes()

    def replace(self, path: Path, data: bytes) -> None:
        """See `runtime.private_files.replace_file`."""
        replace_file(path, data)

    def rename(self, path: Path, target: Path) -> None:
        """Rename a file."""
        path.replace(target)

    def remove(self, path: Path) -> None:
        """Unlink a file."""
        path.unlink(missing_ok=True)

    def scratch(self, directory: Path) -> ScratchFile:
        """See `runtime.scratch_file.SystemScratchFile`."""
        return SystemScratchFile(directory)

    def remove_left_scratch(self, directory: Path) -> None:
        """See `runtime.scratch_file.remove_left_scratch`."""
        remove_left_scratch(directory)

    def lock(self, path: Path) -> ExclusiveLock:
        """See `runtime.flock.FileLock`."""
        return FileLock(path)

    def open_log(self, path: Path) -> LogSink:
        """See `runtime.log.LogFile`."""
        return LogFile(path)


SYSTEM_FILES: Final = SystemFiles()
