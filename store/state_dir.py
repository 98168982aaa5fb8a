"""The directory of the state: private, ours, and really a directory."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from store.errors import StateMissingError, StatePathError

PRIVATE_DIRECTORY: Final = 0o700
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def prepare_state_dir(path: Path) -> None:
    """Make `path` a directory of mode 0700 that belongs to this user, creating what is missing.

    A directory that is open to others is closed to them; its content is left alone.

    Raises:
        StatePathError: it is a symlink, no directory, another user's, or cannot be made.
    """
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        descriptor = os.open(path, _OPEN_DIRECTORY)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        _make_private(path, descriptor)
    finally:
        os.close(descriptor)


def canonical_state_path(path: Path) -> Path:
    """Resolve symlinks in the directory part, but never in the file's own name.

    A home may lie behind a symlink; the database itself may not, and SQLite's NOFOLLOW looks at
    every part of the path.
    """
    return path.parent.resolve() / path.name


def check_side_files(path: Path) -> None:
    """Prove that what lies beside a database is its own: SQLite would follow a link there.

    Raises:
        StatePathError: the log or its index is a symlink, no regular file, or another user's; or
            there is a rollback journal, which a database in WAL mode never has and which SQLite
            would play back into it.
    """
    for suffix in ("-wal", "-shm"):
        with suppress(StateMissingError):
            check_state_file(path.with_name(path.name + suffix))
    journal = path.with_name(f"{path.name}-journal")
    if os.path.lexists(journal):
        raise StatePathError(
            f"{journal} is not part of this database", hint="Move it away, then start again."
        )


def check_state_file(path: Path) -> os.stat_result:
    """Return the status of a database file after proving that it is ours. Opens nothing.

    Raises:
        StateMissingError: nothing is there.
        StatePathError: it is a symlink, no regular file, or another user's.
    """
    try:
        status = path.lstat()
    except FileNotFoundError as error:
        raise StateMissingError(str(path)) from error
    except OSError as error:
        raise _unusable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
        raise StatePathError(f"{path} is {kind}", hint="Put the real file there, or remove it.")
    if status.st_uid != os.geteuid():
        raise _foreign(path)
    return status


def _make_private(path: Path, descriptor: int) -> None:
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid():
        raise _foreign(path)
    if stat.S_IMODE(status.st_mode) != PRIVATE_DIRECTORY:
        try:
            os.fchmod(descriptor, PRIVATE_DIRECTORY)
        except OSError as error:
            raise _unusable(path, error) from error


def _foreign(path: Path) -> StatePathError:
    return StatePathError(
        f"{path} belongs to another user", hint="Run as its owner, or give it to this user."
    )


def _unusable(path: Path, error: OSError) -> StatePathError:
    if path.is_symlink():
        return StatePathError(f"{path} is a symbolic link", hint="Make it a real directory.")
    return StatePathError(
        f"{path} cannot be used: {error.strerror}",
        hint="Check that the home directory exists and is writable.",
    )
