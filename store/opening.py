"""Opening the database: proven to be ours before anything is changed, then configured."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw

from store.database import Reader, Writer
from store.errors import (
    SqliteVersionError,
    StateIncompatibleError,
    StateMissingError,
    StorageFault,
)
from store.files import Files, OsFiles
from store.hardening import harden
from store.rows import translated
from store.schema import verify_schema
from store.state_dir import canonical_state_path, check_side_files, check_state_file
from store.wal import settle_wal, wal_path

SQLITE_NEEDED: Final = 3_051_003
"""Releases before 3.51.3 can corrupt a WAL database when a checkpoint resets the log."""

_SQLITE_WITHDRAWN: Final = range(3_052_000, 3_053_000)  # Published and taken back.

MAINTENANCE_BUSY_MS: Final = 5_000
"""How long a maintenance connection waits for a lock; the live writer and readers never wait."""

_STATEMENT_CACHE: Final = 512  # More than the number of distinct statements of the store.

_WRITER_PRAGMAS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA cache_size = -8192",  # KiB; a whole batch, so that nothing spills before COMMIT.
    "PRAGMA journal_size_limit = 67108864",  # Bytes of the log that outlive a checkpoint.
    # On macOS a plain fsync stops at the drive's cache; elsewhere these do nothing.
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
)


def require_sqlite(version: int = 0) -> None:
    """Refuse a SQLite that can damage the file.

    Args:
        version: as `apsw.SQLITE_VERSION_NUMBER`; 0 means the one in use.

    Raises:
        SqliteVersionError: it is older than 3.51.3, or one that was withdrawn.
    """
    version = version or apsw.SQLITE_VERSION_NUMBER
    if version < SQLITE_NEEDED or version in _SQLITE_WITHDRAWN:
        raise SqliteVersionError(_dotted(version), _dotted(SQLITE_NEEDED))


def sqlite_version() -> str:
    """Return the version of the SQLite in use: `3.54.1`."""
    return apsw.sqlite_lib_version()


def verify_state_file(path: Path, *, vfs: str | None = None) -> None:
    """Prove that a file nobody has open is a database of exactly this schema.

    Changes no byte and leaves no `-wal` or `-shm` behind. With an empty log the file is read as
    immutable. With a filled one the log has to be read too: by an exclusive connection, whose
    index of the log lives in memory and which neither checkpoints nor removes it on closing.

    Args:
        vfs: as for `open_writer`.

    Raises:
        StateMissingError: nothing is there.
        StatePathError: it or its log is a symlink, no regular file, or another user's; or a
            rollback journal lies beside it.
        StateIncompatibleError: it is anything but our database.
        StateBusyError: the log is filled and another process has the file open.
    """
    require_sqlite()
    path = canonical_state_path(path)
    check_side_files(path)
    if check_state_file(path).st_size == 0:
        # Never opened: SQLite would throw the log of an empty file away.
        raise StateIncompatibleError("empty file")
    if OsFiles().size(wal_path(path)):
        connection = _open(path, apsw.SQLITE_OPEN_READWRITE, vfs)
    else:
        connection = _open_immutable(path, vfs)
    with _closed_on_failure(connection):
        harden(connection)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.pragma("locking_mode", "EXCLUSIVE")
        verify_schema(connection)
    _close(connection)


def open_writer(
    path: Path,
    *,
    after_unclean_stop: bool = False,
    busy_timeout_ms: int = 0,
    files: Files | None = None,
    vfs: str | None = None,
) -> Writer:
    """Open the one writing connection, after proving the file's identity and exact shape.

    Args:
        path: the database; it exists.
        after_unclean_stop: settle the log first (`settle_wal`); then no other process may have
            the database open.
        busy_timeout_ms: 0 for the live writer, `MAINTENANCE_BUSY_MS` for maintenance.
        files: file operations of the start rule; None means the real ones.
        vfs: name of the registered VFS through which the file is served; None means SQLite's own.

    Raises:
        StateMissingError, StatePathError, StateIncompatibleError, StateBusyError: as
            `verify_state_file`; nothing was changed.
        StorageFault: the disk is full or failing.
        SqliteVersionError: this SQLite must not write.
    """
    verify_state_file(path, vfs=vfs)
    path = canonical_state_path(path)
    if after_unclean_stop:
        settle_wal(path, files or OsFiles())
    writer = connect_writer(path, busy_timeout_ms=busy_timeout_ms, vfs=vfs)
    with _closed_on_failure(writer.connection):
        verify_schema(writer.connection)
    return writer


def connect_writer(path: Path, *, busy_timeout_ms: int = 0, vfs: str | None = None) -> Writer:
    """Open a writing connection without any proof: others may write to the file meanwhile.

    `open_writer` is what a server uses. A second process cannot prove a file that is in use, and
    has no need to: whoever opened it first has.

    Args:
        path: the canonical path of a database that somebody has opened with `open_writer`.

    Raises:
        StateMissingError, StorageFault: as `open_writer`.
    """
    connection = _open(path, apsw.SQLITE_OPEN_READWRITE, vfs)
    with _closed_on_failure(connection):
        _configure(connection, busy_timeout_ms)
        if connection.pragma("journal_mode", "WAL") != "wal":
            raise StorageFault("this file system has no shared memory for WAL mode")
        for pragma in _WRITER_PRAGMAS:
            connection.execute(pragma)
        return Writer(connection)


def open_reader(path: Path, *, busy_timeout_ms: int = 0, vfs: str | None = None) -> Reader:
    """Open a connection that cannot write, checkpoint, attach or create anything.

    Args:
        path: the live database or a backup.
        busy_timeout_ms: 0 for readers inside the server, `MAINTENANCE_BUSY_MS` in children.
        vfs: as for `open_writer`.

    Raises:
        StateMissingError: nothing is there.
        StatePathError: it or its log is a symlink, no regular file, or another user's; or a
            rollback journal lies beside it.
        StateIncompatibleError: it is anything but our database.
        StorageFault: the disk is failing.
    """
    require_sqlite()
    path = canonical_state_path(path)
    check_side_files(path)
    if check_state_file(path).st_size == 0:
        raise StateIncompatibleError("empty file")
    connection = _open(path, apsw.SQLITE_OPEN_READONLY, vfs)
    with _closed_on_failure(connection):
        _configure(connection, busy_timeout_ms)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.pragma("query_only", value=True)
        verify_schema(connection)
        return Reader(connection)


def _open(path: Path, flags: int, vfs: str | None = None) -> apsw.Connection:
    try:
        return apsw.Connection(
            str(path),
            flags=flags | apsw.SQLITE_OPEN_NOFOLLOW,
            vfs=vfs,
            statementcachesize=_STATEMENT_CACHE,
        )
    except apsw.CantOpenError as error:
        if not path.exists():
            raise StateMissingError(str(path)) from error
        raise StorageFault("the database cannot be opened") from error
    except apsw.Error as error:  # Opening reads the header of the file.
        raise _named(error) from error


def _open_immutable(path: Path, vfs: str | None) -> apsw.Connection:
    uri = f"{path.as_uri()}?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW
    try:
        return apsw.Connection(uri, flags=flags, vfs=vfs)
    except apsw.CantOpenError as error:
        raise StorageFault("the database cannot be opened") from error
    except apsw.Error as error:
        raise _named(error) from error


def _named(error: apsw.Error) -> Exception:
    """Return the store's own error for a failure of the world, itself where it is a bug."""
    return translated(error) or error


@contextmanager
def _closed_on_failure(connection: apsw.Connection) -> Generator[None]:
    """Close the connection if the block fails, and name failures of the world as ours.

    The log stays: the start that comes next has to see that there was an unclean stop.
    """
    try:
        yield
    except BaseException as error:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        _close(connection)
        if isinstance(error, apsw.Error):
            raise _named(error) from error
        raise


def _close(connection: apsw.Connection) -> None:
    """Close a connection that serves nobody; what it was opened for is what counts."""
    with suppress(apsw.Error):
        connection.close()


def _configure(connection: apsw.Connection, busy_timeout_ms: int) -> None:
    """Set what every connection that serves has; none of it touches the file."""
    harden(connection)
    connection.set_busy_timeout(busy_timeout_ms)
    connection.pragma("foreign_keys", value=True)


def _dotted(version: int) -> str:
    return f"{version // 1_000_000}.{version // 1_000 % 1_000}.{version % 1_000}"
