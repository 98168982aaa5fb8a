"""The workflows that come with the package: each is one file of `pi_workflows/builtins` (B §3).

They are found, loaded and compiled by their files, as an author's are. But a run records id and
revision instead of a path, so that it goes on when the package has moved, and stops when the
built-in has changed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pi_workflows.protocol.sources import SourceIdentity, SourceKind

FOLDER: Final = Path(__file__).absolute().parent.parent / "builtins"

_REVISION_DIGITS: Final = 32


@dataclass(frozen=True, slots=True)
class Builtin:
    """A workflow of the package.

    Attributes:
        builtin_id: a letter, then letters, digits and `-`, all small; 64 at most.
        summary: what it is for, one line.
        hidden: it is of use inside other workflows only, so no list offers it.
    """

    builtin_id: str
    summary: str
    hidden: bool = False

    @property
    def file(self) -> Path:
        """Its file in this installation."""
        return FOLDER / f"{self.builtin_id.replace('-', '_')}.py"


BUILTINS: Final = {
    builtin.builtin_id: builtin
    for builtin in (
        Builtin("monitor", "runs a command until it succeeds or a deadline has passed"),
        Builtin("wait", "waits without a process", hidden=True),
    )
}


def builtin_of(path: Path) -> Builtin | None:
    """Return the built-in that a file holds; None for an author's file."""
    if path.parent != FOLDER:
        return None
    return next((builtin for builtin in BUILTINS.values() if builtin.file == path), None)


def identity_of(path: Path, sha256: str) -> SourceIdentity:
    """Return what a run records of a source.

    Args:
        path: absolute.
        sha256: of the file's bytes, 64 hex digits. A built-in's revision is made of it, so that
            nobody has to remember to raise a number.
    """
    builtin = builtin_of(path)
    if builtin is None:
        return SourceIdentity(SourceKind.FILE, str(path), sha256)
    revision = f"sha256:{sha256[:_REVISION_DIGITS]}"
    return SourceIdentity(SourceKind.BUILTIN, builtin.builtin_id, revision)
