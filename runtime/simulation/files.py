"""The small files of simulated processes, on one disk in memory that outlives them."""

import json
from pathlib import Path
from typing import Final, final

from runtime.log import LogSink
from runtime.machine_files import ExclusiveLock
from runtime.scratch_file import ScratchFile
from runtime.simulation.chance import Draws
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.trace import Trace


@final
class Disk:
    """What all processes share.

    Attributes:
        files: content by path.
        locked: who holds a lock, by path.
    """

    def __init__(self) -> None:
        self.files: Final[dict[Path, bytes]] = {}
        self.locked: Final[dict[Path, SimulatedProcess]] = {}

    def lose_power(self, chance: Draws) -> None:
        """Let each file be whole, cut off, empty or gone: nothing here was ever flushed."""
        for path in sorted(self.files):
            left = chance.choice(("whole", "cut off", "empty", "gone"))
            content = self.files.pop(path)
            if left == "whole":
                self.files[path] = content
            elif left != "gone":
                kept = chance.randrange(len(content) + 1) if left == "cut off" else 0
                self.files[path] = content[:kept]


@final
class SimulatedLock:
    """A lock that ends with its process; see `runtime.machine_files.ExclusiveLock`."""

    def __init__(self, path: Path, disk: Disk, process: SimulatedProcess) -> None:
        self._path: Final = path
        self._disk: Final = disk
        self._process: Final = process
        self._is_held = False

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._is_held

    def try_acquire(self) -> bool:
        """Take the lock now; False if another holds it."""
        self._process.check()
        if not self._is_held and self._path not in self._disk.locked:
            self._disk.files.setdefault(self._path, b"")
            self._disk.locked[self._path] = self._process
            self._is_held = True
            self._process.hold(self._let_go)
        return self._is_held

    def release(self) -> None:
        """Give the lock up."""
        self._process.check()
        self._let_go()

    def _let_go(self) -> None:
        if self._is_held:
            self._is_held = False
            del self._disk.locked[self._path]


@final
class SimulatedLog:
    """A log whose records go to the trace."""

    def __init__(self, process: SimulatedProcess, trace: Trace) -> None:
        self._process: Final = process
        self._trace: Final = trace

    def write(self, record: dict[str, object]) -> None:
        """Note a record."""
        self._process.check()
        shown = {key: value for key, value in record.items() if key not in {"at", "level"}}
        self._trace.note(self._process.name, "log", json.dumps(shown, sort_keys=True))

    def close(self) -> None:
        """Do nothing: there is no descriptor."""


@final
class SimulatedScratch:
    """Bytes without a name; see `runtime.scratch_file.ScratchFile`."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process: Final = process
        self._content: Final = bytearray()

    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        self._process.check()
        self._content.extend(data)

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`."""
        self._process.check()
        return bytes(self._content[offset : offset + count])

    def close(self) -> None:
        """Give the bytes up."""
        self._content.clear()


@final
class SimulatedFiles:
    """The disk as one process sees it; see `runtime.machine_files.MachineFiles`.

    There are no directories and no modes: every path is private.
    """

    def __init__(self, disk: Disk, process: SimulatedProcess, trace: Trace) -> None:
        self._disk: Final = disk
        self._process: Final = process
        self._trace: Final = trace

    def prepare_directory(self, path: Path) -> None:  # noqa: ARG002 - the protocol's signature
        """Do nothing."""
        self._process.check()

    def existing_folder(self, path: str) -> str | None:
        """Return the path: every folder exists."""
        self._process.check()
        return path

    def read(self, path: Path) -> bytes:
        """Return what a file holds."""
        self._process.check()
        try:
            return self._disk.files[path]
        except KeyError:
            raise FileNotFoundError(str(path)) from None

    def replace(self, path: Path, data: bytes) -> None:
        """Write a file in one step."""
        self._process.check()
        self._trace.note(self._process.name, "write", path.name.encode() + b" " + data)
        self._disk.files[path] = data

    def rename(self, path: Path, target: Path) -> None:
        """Move a file in one step."""
        self._process.check()
        try:
            self._disk.files[target] = self._disk.files.pop(path)
        except KeyError:
            raise FileNotFoundError(str(path)) from None

    def remove(self, path: Path) -> None:
        """Remove a file if it is there."""
        self._process.check()
        self._disk.files.pop(path, None)

    def lock(self, path: Path) -> ExclusiveLock:
        """Name a lock."""
        return SimulatedLock(path, self._disk, self._process)

    def scratch(self, directory: Path) -> ScratchFile:  # noqa: ARG002 - there is one disk
        """Make a private file without a name."""
        self._process.check()
        return SimulatedScratch(self._process)

    def remove_left_scratch(self, directory: Path) -> None:  # noqa: ARG002 - as above
        """Do nothing: they end with their process."""
        self._process.check()

    def open_log(self, path: Path) -> LogSink:  # noqa: ARG002 - one trace takes all logs
        """Log into the trace."""
        self._process.check()
        return SimulatedLog(self._process, self._trace)
