"""Laying out the files of a disk in a real directory."""

import os
from collections.abc import Mapping
from pathlib import Path

_PRIVATE = 0o600


def lay_out(folder: Path, content: Mapping[str, bytes]) -> None:
    """Make the files of `folder` exactly these; nobody may have any of them open."""
    for entry in folder.iterdir():
        entry.unlink()
    for name, data in content.items():
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def laid_out(folder: Path) -> dict[str, bytes]:
    """Return the files of `folder`; shared memory of SQLite's is none."""
    return {
        entry.name: entry.read_bytes()
        for entry in sorted(folder.iterdir())
        if not entry.name.endswith("-shm")
    }
