"""Creating the database: whole or not at all, and never over something that exists."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from store.errors import StateIncompatibleError, StatePathError
from store.files import Files, OsFiles
from store.opening import require_sqlite
from store.rows import translated
from store.schema import (
    APP_VERSION,
    APPLICATION_ID,
    DDL,
    SCHEMA_DIGEST,
    SCHEMA_NAME,
    SCHEMA_VERSION,
    USER_VERSION,
)
from store.state_dir import canonical_state_path

INSERT_SCHEMA_META: Final = """
    INSERT INTO schema_meta (
        id, schema_name, schema_version, schema_digest, app_version, created_at, updated_at
    ) VALUES (
        1, :schema_name, :schema_version, :schema_digest, :app_version, :now, :now
    )
"""

INSERT_HOST_STATE: Final = """
    INSERT INTO workflow_host_state (id, epoch) VALUES (1, 0)
"""

CREATION_POINTS: Final = (
    "create.before_file",
    "create.before_ddl",
    "create.before_commit",
    "create.after_commit",
    "create.before_sync",
    "create.before_link",
    "create.before_directory_sync",
    "create.before_remove",
    "create.done",
)
"""Every place where creation can be stopped, in order."""

_SIDE_FILES: Final = ("-wal", "-journal")  # Both would be replayed into a new database.


def _inert(_point: str) -> None:
    """Stand in for sync points outside a harness."""


def create_database(
    path: Path,
    *,
    now: int,
    older_state: Sequence[Path] = (),
    files: Files | None = None,
    vfs: str | None = None,
    reached: Callable[[str], None] = _inert,
) -> bool:
    """Create the database file unless something is already at `path`.

    The file is built under a temporary name in the same directory and linked into place when it
    is whole and durable, so a kill leaves either nothing or a complete database. What a killed
    creation left under temporary names is removed first, also when `path` exists.

    The caller holds the server's lock: nobody else creates here.

    Args:
        path: the database; its directory exists.
        now: UTC ms, stored as the time of creation.
        older_state: paths whose existence forbids creation (they are only looked at).
        files: file operations; None means the real ones.
        vfs: name of the registered VFS through which the file is filled; None is SQLite's own.
        reached: called with each of `CREATION_POINTS`.

    Returns:
        True if this call created the file, False if something was there (verified on opening).

    Raises:
        StateIncompatibleError: older state exists, or a `-wal` or `-journal` without its
            database lies there and would be applied to the new one.
        StatePathError: the directory refuses a needed operation.
        StorageFault: the disk is full or failing.
    """
    require_sqlite()
    path = canonical_state_path(path)
    files = files or OsFiles()
    try:
        _remove_unfinished(path, files)
        if files.size(path) is not None:
            return False
        _refuse_older_state(path, older_state, files)
        return _create(path, files, partial(_fill, now=now, vfs=vfs, reached=reached), reached)
    except OSError as error:
        raise StatePathError(
            f"{path} cannot be created: {error.strerror}",
            hint="Check the rights of its directory and the free space.",
        ) from error
    except apsw.Error as error:
        known = translated(error)
        if known is None:
            raise
        raise known from error


def _create(
    path: Path, files: Files, fill: Callable[[Path], None], reached: Callable[[str], None]
) -> bool:
    unfinished = path.with_name(f"{path.name}.creating-{os.getpid()}")
    reached("create.before_file")
    files.create(unfinished)
    try:
        fill(unfinished)
        reached("create.before_sync")
        files.sync(unfinished)
        reached("create.before_link")
        try:
            files.link(unfinished, path)
        except FileExistsError:
            return False
        reached("create.before_directory_sync")
        files.sync_directory(path.parent)
        reached("create.before_remove")
    finally:
        files.remove(unfinished)
    reached("create.done")
    return True


def _fill(path: Path, *, now: int, vfs: str | None, reached: Callable[[str], None]) -> None:
    """Write the whole schema and its first rows in one exclusive transaction, then close."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        connection.pragma("synchronous", "FULL")
        connection.pragma("fullfsync", value=True)
        connection.execute("BEGIN EXCLUSIVE")
        reached("create.before_ddl")
        connection.execute(DDL)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", USER_VERSION)
        connection.execute(
            INSERT_SCHEMA_META,
            {
                "schema_name": SCHEMA_NAME,
                "schema_version": SCHEMA_VERSION,
                "schema_digest": SCHEMA_DIGEST,
                "app_version": APP_VERSION,
                "now": now,
            },
        )
        connection.execute(INSERT_HOST_STATE)
        reached("create.before_commit")
        connection.execute("COMMIT")
        reached("create.after_commit")
        # Born in WAL mode: opening the live file later changes no byte of it.
        connection.pragma("journal_mode", "WAL")
    finally:
        connection.close()


def _remove_unfinished(path: Path, files: Files) -> None:
    for leftover in sorted(path.parent.glob(f"{path.name}.creating-*")):
        files.remove(leftover)


def _refuse_older_state(path: Path, older_state: Sequence[Path], files: Files) -> None:
    if any(files.size(older) is not None for older in older_state):
        raise StateIncompatibleError("older state")
    for suffix in _SIDE_FILES:
        if files.size(path.with_name(path.name + suffix)) is not None:
            raise StateIncompatibleError(f"{suffix} without its database")
