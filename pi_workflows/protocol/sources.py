"""Where the code of a workflow comes from, as a run records it and is held to it (B §3)."""

import enum
from dataclasses import dataclass
from typing import Final, cast

from pi_workflows.protocol.canonical import JsonObject

BUILTIN_PREFIX: Final = "builtin:"
"""Begins a reference that names a built-in exactly, whatever files have its name."""


class SourceKind(enum.StrEnum):
    """What a workflow is kept in."""

    BUILTIN = "builtin"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """One source in one state.

    Attributes:
        ref: absolute path of a file, id of a built-in.
        revision: SHA-256 of a file's bytes, 64 hex digits; revision of a built-in.
    """

    kind: SourceKind
    ref: str
    revision: str

    def stored(self) -> JsonObject:
        """Return the public form: `{kind, path, hash}` or `{kind, id, revision}`."""
        if self.kind is SourceKind.FILE:
            return {"kind": self.kind.value, "path": self.ref, "hash": self.revision}
        return {"kind": self.kind.value, "id": self.ref, "revision": self.revision}

    @classmethod
    def parse(cls, stored: JsonObject) -> "SourceIdentity":
        """Read the public form; other fields are left alone.

        Raises:
            KeyError: a field is missing.
            ValueError: the kind is unknown.
        """
        kind = SourceKind(cast("str", stored["kind"]))
        names = ("path", "hash") if kind is SourceKind.FILE else ("id", "revision")
        ref, revision = (cast("str", stored[name]) for name in names)
        return cls(kind, ref, revision)


def loading_too_long(bound_s: float) -> str:
    """Return what is said of a file that has not loaded after so many seconds."""
    return f"loading the workflow took longer than {bound_s:g} s; import less at module level."
