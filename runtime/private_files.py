"""Directories and files that belong to one user alone, and replacing a file in one step."""

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from runtime.errors import NotPrivate

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def ensure_private_directory(path: Path) -> None:
    """Make `path` (and missing parents) with mode 0700, or check one that exists.

    Raises:
        NotPrivate: It is a symbolic link, belongs to someone else, or others may enter it.
        OSError: It cannot be made.
    """
    # mkdir's mode does not reach parents; each missing one is made here, private from the start.
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for directory in reversed(missing):
        directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotPrivate(f"{path} is not a directory", hint="Move it away and start again.")
    if found.st_uid != os.geteuid():
        raise NotPrivate(f"{path} belongs to another user", hint="Check which user runs this.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise NotPrivate(
            f"{path} can be entered by others (mode {stat.S_IMODE(found.st_mode):04o})",
            hint=f"Run: chmod 700 {path}",
        )


def open_private(path: Path, flags: int) -> int:
    """Open `path` with mode 0600 if created, close-on-exec, never through a symbolic link."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    os.fchmod(descriptor, FILE_MODE)
    return descriptor


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` with mode 0600 by rename: a reader sees the old file or the new one.

    Survives a kill at any moment, not a power cut: what is written this way describes processes,
    and none outlives one.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
