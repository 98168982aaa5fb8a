"""What is on a disk for certain, and what is only on its way there.

Fed with the operations of a `DiskLog`, in order. A write is certain once its file was flushed
after it, a name once the directory was. What is neither is settled by `survivors`.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Self, final

from runtime.chaos.disk_log import DiskLog, Doing, Operation, Strikes

# Which name goes, and which one is set.
_NAMES: Final[dict[Doing, Callable[[Operation], tuple[str, str]]]] = {
    Doing.CREATE: lambda done: ("", done.name),
    Doing.LINK: lambda done: ("", done.target),
    Doing.RENAME: lambda done: (done.name, done.target),
    Doing.REMOVE: lambda done: (done.name, ""),
}


class Patch(NamedTuple):
    """A change of a file's bytes.

    Attributes:
        offset: where it begins; the new size when there is no data.
        data: None cuts or grows the file.
    """

    offset: int
    data: bytes | None


class NameChange(NamedTuple):
    """A change of the directory, atomic in itself.

    Attributes:
        gone: the name that is removed; "" removes none.
        name: the name that is set; "" sets none.
        file: what `name` stands for.
    """

    gone: str
    name: str
    file: int


@final
class FileState:
    """One file.

    Attributes:
        pending: what was done since it was flushed last, in order.
        cached: what a process reads.
        has_lost: a flush failed: the cache holds what is neither certain nor on its way.
    """

    __slots__ = ("_certain", "_version", "cached", "has_lost", "pending")

    def __init__(self, durable: bytes = b"") -> None:
        """Hold these bytes for certain, and nothing else."""
        self.pending: list[Patch] = []
        self.cached = bytearray(durable)
        self.has_lost = False
        # Changed in place until somebody asks: a long life flushes often and is cut rarely.
        self._certain: bytes | bytearray = durable
        self._version: int | None = None

    @property
    def durable(self) -> bytes:
        """What survives for certain."""
        if isinstance(self._certain, bytearray):
            self._certain = bytes(self._certain)
        return self._certain

    @property
    def version(self) -> int:
        """Stands for exactly these durable bytes, in this process."""
        if self._version is None:
            self._version = hash(self.durable)
        return self._version

    def patch(self, patch: Patch) -> None:
        """Change what is read; whether it survives is open."""
        apply(self.cached, patch)
        self.pending.append(patch)

    def rot(self, patch: Patch) -> None:
        """Change what is there for certain, and what is read of it."""
        rotten = bytearray(self.durable)
        apply(rotten, patch)
        self._certain, self._version = rotten, None
        apply(self.cached, patch)

    def settle(self) -> None:
        """Make certain what was pending."""
        if not self.pending:
            return
        certain = self._certain
        if isinstance(certain, bytes):
            certain = self._certain = bytearray(certain)
        for patch in self.pending:
            apply(certain, patch)
        self._version = None
        self.pending.clear()

    def lose(self) -> None:
        """Forget what was pending: a failed flush lets it count as certain."""
        self.has_lost = self.has_lost or bool(self.pending)
        self.pending.clear()

    def copy(self) -> "FileState":
        """Return one that goes its own way."""
        other = FileState(self.durable)
        other.pending.extend(self.pending)
        other.cached = bytearray(self.cached)
        other.has_lost = self.has_lost
        other._version = self._version
        return other


@final
class DiskModel:
    """The state of a disk after some operations.

    Attributes:
        files: by number.
        names: as processes see them.
        durable_names: as they survive for certain.
        pending_names: changes of names since the directory was flushed, in order.
    """

    def __init__(self, content: Mapping[str, bytes] | None = None) -> None:
        """`content` is on the disk for certain; an empty disk has number 1 for its first file."""
        self.files: Final[dict[int, FileState]] = {}
        self.names: Final[dict[str, int]] = {}
        self.durable_names: Final[dict[str, int]] = {}
        self.pending_names: Final[list[NameChange]] = []
        for number, name in enumerate(sorted(content or {}), 1):
            data = (content or {})[name]
            self.files[number] = FileState(data)
            self.names[name] = self.durable_names[name] = number

    @property
    def is_settled(self) -> bool:
        """Whether a power cut now has one outcome only."""
        return not self.pending_names and not any(
            file.pending or file.has_lost for file in self.files.values()
        )

    def copy(self) -> Self:
        """Return a disk in the same state that goes its own way."""
        other = type(self)()
        other.files.update({number: file.copy() for number, file in self.files.items()})
        other.names.update(self.names)
        other.durable_names.update(self.durable_names)
        other.pending_names.extend(self.pending_names)
        return other

    def log(self, strikes: Strikes | None = None) -> DiskLog:
        """Return a record that goes on from here; apply its operations to this or to a copy."""
        return DiskLog(self.names, strikes, files=max(self.files, default=0))

    def cached(self) -> dict[str, bytes]:
        """Return what a process reads, by name."""
        return {name: bytes(self.files[number].cached) for name, number in self.names.items()}

    def apply(self, operation: Operation) -> None:
        """Carry out what was done."""
        number, doing = operation.file, operation.doing
        if doing is Doing.WRITE:
            self.files[number].patch(Patch(operation.offset, operation.data))
        elif doing is Doing.TRUNCATE:
            self.files[number].patch(Patch(operation.offset, None))
        elif doing is Doing.SYNC:
            self._sync(operation)
        elif doing is Doing.SYNC_DIRECTORY:
            for change in self.pending_names:
                change_name(self.durable_names, change)
            self.pending_names.clear()
        else:
            if doing is Doing.CREATE:
                self.files[number] = FileState()
            change = NameChange(*_NAMES[doing](operation), number)
            change_name(self.names, change)
            self.pending_names.append(change)

    def _sync(self, operation: Operation) -> None:
        file = self.files[operation.file]
        if operation.failed:
            file.lose()
        else:
            file.settle()


def apply(content: bytearray, patch: Patch) -> None:
    """Carry out a change; what lies between the end and a later write is zeros."""
    offset, data = patch
    if data is None:
        if offset < len(content):
            del content[offset:]
        else:
            content.extend(bytes(offset - len(content)))
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def change_name(names: dict[str, int], change: NameChange) -> None:
    """Carry out a change of the directory, whatever others of its kind came to."""
    gone, name, file = change
    if gone and names.get(gone) == file:
        del names[gone]
    if name:
        names[name] = file
