"""The disk under the database of a simulation: real files, every operation noted.

The power can be cut at any moment: what was flushed is there, and the rest falls as one of six
models says. What reads may not write is checked at every operation.
"""

import itertools
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

from pi_workflows.chaos.disk_faults import MUTATING, DiskFaults
from runtime.chaos.disk_image import lay_out
from runtime.chaos.disk_log import DiskLog, Operation
from runtime.chaos.disk_model import DiskModel, Patch
from runtime.chaos.disk_survivors import Persistence, survivors
from runtime.simulation.chance import Draws
from store.chaos.recording import Recording, recorded

_NUMBERS: Final = itertools.count(1)


@final
class SimulatedDisk:
    """Tells the model what is done, and asks the faults; see `store.chaos.recording.Disk`.

    Attributes:
        faults: who decides what fails.
        operations: how many changes were made.
        written_by_readers: what a read path has changed; must stay empty.
    """

    def __init__(self, faults: DiskFaults, folder: Path) -> None:
        """`folder` holds the database and nothing else; it may not exist yet."""
        self.faults: Final = faults
        self._folder: Final = folder
        self._log = DiskLog()
        self._model = DiskModel()
        self._sound: DiskModel | None = None
        self._readers = 0
        self.operations = 0
        self.written_by_readers: Final[list[str]] = []

    def cut_power(self, persistence: Persistence, draws: Draws) -> None:
        """Leave of the files what the disk has kept; nobody has any of them open."""
        self._lay_out(survivors(self._model, persistence, draws).content())

    @property
    def has_rotted(self) -> bool:
        """Whether bytes have changed by themselves and were not put right since."""
        return self._sound is not None

    def content(self) -> dict[str, bytes]:
        """Return what a process reads, by name."""
        return self._model.cached()

    def size_of(self, name: str) -> int:
        """Return the size of a file in bytes, 0 if there is none."""
        number = self._model.names.get(name)
        return 0 if number is None else len(self._model.files[number].cached)

    def sound_content(self) -> dict[str, bytes]:
        """Return what it would read if nothing had rotted."""
        return (self._sound or self._model).cached()

    def rot(self, name: str, offset: int, data: bytes | None) -> None:
        """Change bytes of a file, which somebody may have open; None cuts it off there."""
        self._sound = self._sound or self._model.copy()
        self._model.files[self._model.names[name]].rot(Patch(offset, data))
        if data is None:
            os.truncate(self._folder / name, offset)
            return
        # Closing it drops the locks of this process, which are between its own connections only:
        # those SQLite keeps in memory.
        with (self._folder / name).open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def restore(self) -> None:
        """Put back what has rotted; nobody has any of the files open."""
        self._lay_out(self.sound_content())
        self.forget_rot()

    def forget_rot(self) -> None:
        """Take what is there for sound: nobody reads what has rotted, or it was written anew."""
        self._sound = None

    def _lay_out(self, content: dict[str, bytes]) -> None:
        if self._folder.exists():
            lay_out(self._folder, content)
        self._model = DiskModel(content)
        self._log = self._model.log()

    @contextmanager
    def only_reading(self) -> Generator[None]:
        """Take everything that is done meanwhile for that of a read path."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    def strike(self, call: str, name: str) -> str | None:
        """Return how a call fails."""
        if self._readers and call in MUTATING:
            self.written_by_readers.append(f"{call} of {name}")
        return self.faults.strike(call, name)

    def file_of(self, name: str) -> int:
        """Return the number of a file."""
        number = self._log.file_of(name)
        self._carry_out()
        return number

    def wrote(self, file: int, name: str, offset: int, data: bytes) -> None:
        """Note a write."""
        self._log.wrote(file, name, offset, data)
        self._carry_out()

    def truncated(self, file: int, name: str, size: int) -> None:
        """Note a new size."""
        self._log.truncated(file, name, size)
        self._carry_out()

    def synced(self, file: int, name: str, *, failed: bool = False) -> None:
        """Note a flush."""
        if not (failed and self.faults.is_dying):
            self._log.synced(file, name, failed=failed)
            self._carry_out()

    def linked(self, name: str, target: str) -> None:
        """Note a second name."""
        self._log.linked(name, target)
        self._carry_out()

    def renamed(self, name: str, target: str) -> None:
        """Note that a name took another's place."""
        self._log.renamed(name, target)
        self._carry_out()

    def removed(self, name: str) -> None:
        """Note that a name is gone."""
        self._log.removed(name)
        self._carry_out()

    def directory_synced(self) -> None:
        """Note a flush of the directory."""
        self._log.directory_synced()
        self._carry_out()

    def _carry_out(self) -> None:
        done: list[Operation] = self._log.operations
        for operation in done:
            self._model.apply(operation)
            if self._sound is not None:
                self._sound.apply(operation)
            self.operations += 1
        done.clear()


@contextmanager
def simulated_disk(
    faults: DiskFaults, folder: Path, randomness: Callable[[int], bytes]
) -> Generator[tuple[SimulatedDisk, Recording]]:
    """Put a disk under every database that is opened meanwhile.

    Args:
        folder: holds the database and nothing else; it may not exist yet.
        randomness: what SQLite draws from.
    """
    disk = SimulatedDisk(faults, folder)
    with recorded(disk, f"simulated-{next(_NUMBERS)}", randomness) as recording:
        yield disk, recording
