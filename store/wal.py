"""The write-ahead log: making it durable before a restart, and moving it into the database."""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

from store.errors import StorageFault
from store.files import Files
from store.rows import translated


class CheckpointMode(enum.IntEnum):
    """How far a checkpoint goes."""

    PASSIVE = apsw.SQLITE_CHECKPOINT_PASSIVE
    """Copies what no reader needs any more; waits for nobody."""
    TRUNCATE = apsw.SQLITE_CHECKPOINT_TRUNCATE
    """Copies everything and empties the log; incomplete while a reader is inside."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint found and did, in frames (pages) of the log."""

    frames: int
    copied: int

    @property
    def complete(self) -> bool:
        """True when nothing is left that only the log holds."""
        return self.copied >= self.frames


_PASSIVE: Final = CheckpointMode.PASSIVE
_NOTHING: Final = Checkpoint(frames=1, copied=0)
"""Somebody else is moving the log; how much is left nobody says."""


def wal_path(database: Path) -> Path:
    """Return the path of the database's log."""
    return database.with_name(database.name + "-wal")


def settle_wal(database: Path, files: Files) -> bool:
    """Make the log durable after an unclean stop, before SQLite opens the database.

    What the operating system still shows of the log may never have reached the disk, and after a
    failed fsync no further fsync will send it there. A fresh copy, synced and renamed over the
    log, is durable to the last byte that recovery is going to see.

    No other process may have the database open: its later commits would go to the old file and
    be lost. Touches nothing but the log.

    Returns:
        True if there was a log to settle.

    Raises:
        StorageFault: the copy failed; the old log is still in place.

    Source: Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020.
    """
    log = wal_path(database)
    if not files.size(log):
        return False
    copy = log.with_name(log.name + ".settling")
    try:
        files.copy(log, copy)
        files.sync(copy)
        files.rename(copy, log)
        files.sync_directory(log.parent)
    except OSError as error:
        raise StorageFault(f"settling the log: {error.strerror}") from error
    return True


def wal_bytes(database: Path, files: Files) -> int:
    """Return the size of the log in bytes, 0 if there is none."""
    return files.size(wal_path(database)) or 0


def checkpoint(connection: apsw.Connection, mode: CheckpointMode) -> Checkpoint:
    """Move the log into the database. Only the writer calls this, outside a transaction.

    While another connection is in the way, what can be moved is moved, and the rest stays.

    Raises:
        StorageFault: the disk is full or failing; nothing committed is lost.
        StateDamaged: the file is damaged.
    """
    try:
        return _checkpoint(connection, mode) or _checkpoint(connection, _PASSIVE) or _NOTHING
    except apsw.Error as error:
        known = translated(error)
        if known is None:
            raise
        raise known from error


def _checkpoint(connection: apsw.Connection, mode: CheckpointMode) -> Checkpoint | None:
    """Try once; None when another connection is in the way."""
    try:
        frames, copied = connection.wal_checkpoint("main", int(mode))
    except apsw.BusyError:
        return None
    return Checkpoint(frames=max(frames, 0), copied=max(copied, 0))
