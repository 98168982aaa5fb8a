"""The database file as a port: who creates it, opens it, and measures it.

Beside the world, because the runtime knows no store: a simulation hands in a faulty disk here.
"""

from typing import Final, Protocol, final

from pi_workflows.protocol.paths import StatePaths
from store import host
from store.creation import create_database
from store.database import Reader, Writer
from store.errors import StoreError
from store.files import Files, OsFiles
from store.host import HostRow
from store.opening import open_reader, open_writer
from store.state_dir import prepare_state_dir
from store.transaction import Reading
from store.wal import wal_bytes


class StateFiles(Protocol):
    """One user's database file."""

    def prepare(self) -> None:
        """Make the directory of the file private, creating what is missing."""
        ...

    def create(self, now: int) -> bool:
        """Create the file unless something is there; True if this call did (README 18)."""
        ...

    def open_writer(self) -> Writer:
        """Open it for writing after making its log durable; the lock is held (README 13)."""
        ...

    def open_reader(self) -> Reader:
        """Open it for reading only."""
        ...

    def host_row(self) -> HostRow | None:
        """Return who claims the file now; None if that cannot be read. Changes nothing.

        Opened for reading only, and closed again: the claim may be another server's.
        """
        ...

    def wal_bytes(self) -> int:
        """Return the size of the log, 0 if there is none."""
        ...

    def database_bytes(self) -> int:
        """Return the size of the file without its log."""
        ...


@final
class DiskStateFiles:
    """The file on disk, below the user's home."""

    def __init__(
        self, paths: StatePaths, files: Files | None = None, *, vfs: str | None = None
    ) -> None:
        """Serve the file of `paths`.

        Args:
            files: replaces the file operations; None means the operating system's.
            vfs: name of the registered VFS of SQLite's; None means its own.
        """
        self._directory: Final = paths.state_dir
        self._database: Final = paths.database
        self._older_state: Final = paths.older_state
        self._vfs: Final = vfs
        self._files: Final = files or OsFiles()

    def prepare(self) -> None:
        """Prepare the directory; see `prepare_state_dir` for what it raises."""
        prepare_state_dir(self._directory)

    def create(self, now: int) -> bool:
        """Create the file; see `create_database` for what it raises."""
        return create_database(
            self._database,
            now=now,
            older_state=self._older_state,
            files=self._files,
            vfs=self._vfs,
        )

    def open_writer(self) -> Writer:
        """Open it for writing; see `open_writer` for what it raises."""
        return open_writer(
            self._database, after_unclean_stop=True, files=self._files, vfs=self._vfs
        )

    def open_reader(self) -> Reader:
        """Open it for reading; see `open_reader` for what it raises."""
        return open_reader(self._database, vfs=self._vfs)

    def host_row(self) -> HostRow | None:
        """Read the claim through a reader of its own."""
        try:
            reader = open_reader(self._database, vfs=self._vfs)
            try:
                return host.current(Reading(reader.connection, 0))
            finally:
                reader.close()
        except StoreError:
            return None

    def wal_bytes(self) -> int:
        """Return the size of the log."""
        return wal_bytes(self._database, self._files)

    def database_bytes(self) -> int:
        """Return the size of the file."""
        return self._database.stat().st_size
