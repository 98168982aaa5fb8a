"""The database of a simulation: real SQLite on a real file, cut loose when its server dies."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, final

from actors.state_files import DiskStateFiles
from pi_workflows.chaos.simulated_disk import SimulatedDisk
from pi_workflows.protocol.paths import StatePaths
from runtime.simulation.processes import SimulatedProcess
from store.chaos.recording import Recording
from store.chaos.watched import WatchedReader, WatchedWriter
from store.database import Reader, Writer
from store.host import HostRow
from store.opening import connect_writer


@dataclass(frozen=True, slots=True)
class Storage:
    """Where the database of a simulation lies.

    Attributes:
        paths: real ones, of this simulation alone.
        disk: what is done there.
        recording: how it is reached.
    """

    paths: StatePaths
    disk: SimulatedDisk
    recording: Recording


@final
class SimulatedStateFiles:
    """The file as one simulated process opens it; see `actors.state_files.StateFiles`.

    A process that dies leaves the log as SIGKILL would: an open transaction is gone, what was
    committed stands in the log, nothing is moved into the database.
    """

    def __init__(
        self,
        storage: Storage,
        process: SimulatedProcess,
        opened: Callable[[Reader], None],
    ) -> None:
        """Describe the file of one process; `opened` is given every reader."""
        recording = storage.recording
        self._storage: Final = storage
        self._disk: Final = DiskStateFiles(storage.paths, recording.files, vfs=recording.vfs)
        self._process: Final = process
        self._opened: Final = opened

    def prepare(self) -> None:
        """Make the directory."""
        self._process.check()
        self._disk.prepare()

    def create(self, now: int) -> bool:
        """Create the file."""
        self._process.check()
        return self._disk.create(now)

    def open_writer(self) -> Writer:
        """Open it for writing."""
        self._process.check()
        writer = WatchedWriter(self._disk.open_writer())
        self._process.hold(lambda: _cut_writer(writer))
        return writer

    def open_reader(self) -> Reader:
        """Open it for reading."""
        self._process.check()
        with self._storage.disk.only_reading():
            reader = WatchedReader(self._disk.open_reader(), self._storage.disk.only_reading)
        self._process.hold(reader.connection.close)
        self._opened(reader)
        return reader

    def host_row(self) -> HostRow | None:
        """Return who claims the file now."""
        self._process.check()
        with self._storage.disk.only_reading():
            return self._disk.host_row()

    def wal_bytes(self) -> int:
        """Return the size of the log."""
        self._process.check()
        return self._disk.wal_bytes()

    def database_bytes(self) -> int:
        """Return the size of the file."""
        self._process.check()
        return self._disk.database_bytes()


@contextmanager
def locked_for_writing(storage: Storage) -> Generator[None]:
    """Hold the write lock over a connection of one's own, and write nothing.

    Raises:
        StateBusyError: somebody else has it.
    """
    writer = connect_writer(storage.paths.database, vfs=storage.recording.vfs)
    writer.keep_log()
    try:
        writer.begin_immediate()
        yield
        writer.rollback()
    finally:
        writer.close()


def _cut_writer(writer: Writer) -> None:
    if not writer.closed:
        writer.keep_log()
        writer.close()
