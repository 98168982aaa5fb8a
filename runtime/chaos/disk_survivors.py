"""What is left after a power cut, under six models of what a disk keeps of unflushed writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from runtime.chaos.disk_model import DiskModel, FileState, NameChange, Patch, apply, change_name
from runtime.simulation.chance import Draws

SECTOR: Final = 512
"""Bytes that a disk writes whole or not at all."""


class Persistence(StrEnum):
    """What a disk keeps of the writes that were not flushed."""

    KEPT = "everything"
    """All of it: the process was killed, not the machine."""
    DROPPED = "nothing"
    """None of it."""
    PREFIX = "the first writes"
    """The first few of each file, the last of them cut at a sector."""
    SUBSET = "some writes"
    """Each write or not, in any order."""
    TORN = "some sectors"
    """Each sector of each write or not."""
    GARBAGE = "some sectors and junk"
    """Like `TORN`, and a lost sector may hold junk."""


@dataclass(slots=True)
class SurvivingFile:
    """One file after a power cut.

    Attributes:
        base: what was certain.
        version: of `base`.
        patches: what else has reached the disk, in order.
    """

    base: bytes
    version: int
    patches: tuple[Patch, ...] = ()
    _content: bytes | None = None

    @property
    def content(self) -> bytes:
        """The bytes."""
        if not self.patches:
            return self.base
        if self._content is None:
            content = bytearray(self.base)
            for patch in self.patches:
                apply(content, patch)
            self._content = bytes(content)
        return self._content

    @property
    def key(self) -> tuple[int, int, int]:
        """What tells it from others with the same base: where it was changed, and to what."""
        if not self.patches:
            return self.version, -1, 0
        first = min(offset for offset, _ in self.patches)
        changed = self.content[first:]
        if self.base[first:] == changed:
            return self.version, -1, 0
        return self.version, first, hash(changed)


@dataclass(slots=True)
class Survivors:
    """A disk after a power cut.

    Attributes:
        files: by name.
    """

    files: dict[str, SurvivingFile] = field(default_factory=dict)

    @property
    def key(self) -> tuple[tuple[str, tuple[int, int, int]], ...]:
        """What tells it from other outcomes of power cuts of the same disk."""
        return tuple([(name, file.key) for name, file in sorted(self.files.items())])

    def content(self) -> dict[str, bytes]:
        """Return the bytes of each file, by name."""
        return {name: file.content for name, file in self.files.items()}


def survivors(disk: DiskModel, persistence: Persistence, draws: Draws) -> Survivors:
    """Cut the power now; what was not certain falls as `persistence` says.

    Args:
        draws: decides where the model leaves it open.
    """
    found = Survivors()
    names = _names(disk, persistence, draws)
    done: dict[int, SurvivingFile] = {}
    for name, number in sorted(names.items()):
        if number not in done:
            done[number] = _file(disk.files[number], persistence, draws)
        found.files[name] = done[number]
    return found


def _names(disk: DiskModel, persistence: Persistence, draws: Draws) -> dict[str, int]:
    if persistence is Persistence.KEPT or not disk.pending_names:
        return disk.names if persistence is Persistence.KEPT else disk.durable_names
    names = dict(disk.durable_names)
    for change in _changes(disk.pending_names, persistence, draws):
        change_name(names, change)
    return names


def _changes(
    pending: list[NameChange], persistence: Persistence, draws: Draws
) -> Sequence[NameChange]:
    if persistence is Persistence.DROPPED:
        return ()
    if persistence is Persistence.PREFIX:
        return pending[: draws.randrange(len(pending) + 1)]
    return [change for change in pending if draws.getrandbits(1)]


def _file(file: FileState, persistence: Persistence, draws: Draws) -> SurvivingFile:
    if persistence is Persistence.KEPT and file.has_lost:
        whole = (Patch(0, None), Patch(0, bytes(file.cached)))
        return SurvivingFile(file.durable, file.version, whole)
    if not file.pending or persistence is Persistence.DROPPED:
        return SurvivingFile(file.durable, file.version)
    match persistence:
        case Persistence.KEPT:
            kept = list(file.pending)
        case Persistence.PREFIX:
            kept = _prefix(file.pending, draws)
        case Persistence.SUBSET:
            kept = [patch for patch in file.pending if draws.getrandbits(1)]
        case _:
            kept = _sectors(file.pending, draws, junk=persistence is Persistence.GARBAGE)
    return SurvivingFile(file.durable, file.version, tuple(kept))


def _prefix(pending: list[Patch], draws: Draws) -> list[Patch]:
    count = draws.randrange(len(pending) + 1)
    kept = pending[:count]
    if count < len(pending):
        offset, data = pending[count]
        if data is not None:
            end = draws.randrange(offset, offset + len(data) + 1) // SECTOR * SECTOR
            if end > offset:
                kept.append(Patch(offset, data[: end - offset]))
    return kept


def _sectors(pending: list[Patch], draws: Draws, *, junk: bool) -> list[Patch]:
    kept: list[Patch] = []
    for patch in pending:
        offset, data = patch
        if data is None:
            if draws.getrandbits(1):
                kept.append(patch)
            continue
        end, start = offset + len(data), offset
        while start < end:
            stop = min(end, (start // SECTOR + 1) * SECTOR)
            if draws.getrandbits(1):
                kept.append(Patch(start, data[start - offset : stop - offset]))
            elif junk and draws.getrandbits(1):
                kept.append(Patch(start, draws.randbytes(stop - start)))
            start = stop
    return kept
