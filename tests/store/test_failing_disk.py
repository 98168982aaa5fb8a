"""Whatever write or flush fails, once or for good: nothing acknowledged is lost or torn."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from runtime.chaos.disk_faults import Failure, Fault, Faults
from runtime.chaos.disk_log import DiskLog
from store.chaos.recording import recorded
from store.creation import create_database
from store.database import Writer
from store.errors import OutcomeUnknown, StorageFault
from store.opening import open_writer
from store.quick_check import is_sound
from store.rows import execute
from store.transaction import Reading
from store.wal import CheckpointMode, checkpoint
from tests.store.conftest import StateFolder

COMMANDS: Final = 3
BODY: Final = 2_500
"""Bytes of each stored text: a command fills several pages."""
INSERT: Final = (
    "INSERT INTO projects (project_id, canonical_path, created_at) VALUES (:id, :path, 1)"
)


@pytest.fixture
def state() -> Iterator[StateFolder]:
    """A database in memory, if it can be: it is made anew a hundred times."""
    memory = Path("/dev/shm")  # noqa: S108 - a private folder is made inside
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        database = Path(folder) / "state.sqlite"
        assert create_database(database, now=1)
        yield StateFolder(database)


@pytest.fixture
def disk() -> Iterator[tuple[DiskLog, str]]:
    """A disk that fails when it is told to, and the name by which SQLite knows it."""
    log = DiskLog()
    with recorded(log, "failing-disk") as recording:
        yield log, recording.vfs


def command(writer: Writer, number: int) -> None:
    """Write two rows that belong together, and commit."""
    writer.begin_immediate()
    for half in ("a", "b"):
        name = f"{number}{half}"
        execute(writer.connection, INSERT, {"id": name, "path": name + "x" * BODY})
    writer.commit()


def serve(writer: Writer) -> tuple[list[int], int | None]:
    """Run commands until one fails, as the store does: then it is over.

    Returns:
        the commands that were answered, and the one whose outcome nobody knows.
    """
    answered: list[int] = []
    for number in range(COMMANDS):
        try:
            command(writer, number)
        except OutcomeUnknown:
            return answered, number
        answered.append(number)
        if number % 2:
            checkpoint(writer.connection, CheckpointMode.PASSIVE)
    return answered, None


def found_by_the_next_start(state: StateFolder) -> set[int]:
    """Open as after an unclean stop, prove the file sound and whole, and go on working."""
    writer = open_writer(state.path, after_unclean_stop=True)
    assert is_sound(Reading(writer.connection, 1))
    names = [str(row[0]) for row in writer.connection.execute("SELECT project_id FROM projects")]
    numbers = {int(name[:-1]) for name in names}
    assert sorted(names) == sorted(f"{number}{half}" for number in numbers for half in "ab")
    command(writer, COMMANDS)
    writer.close()
    return numbers


@pytest.mark.parametrize(
    ("failure", "lasting"),
    [
        (Failure.DISK_FULL, False),
        (Failure.WRITE_ERROR, True),
        (Failure.TORN_WRITE, False),
        (Failure.SYNC_ERROR, False),
        (Failure.SYNC_ERROR, True),
    ],
)
def test_failure_of_any_write_or_flush_loses_nothing_that_was_answered(
    state: StateFolder, disk: tuple[DiskLog, str], failure: Failure, *, lasting: bool
) -> None:
    """Every call fails in its turn, in commits and in checkpoints.

    What failed is whole or not there; the file stays sound.
    """
    pristine = state.content()["state.sqlite"]
    failed = 0
    for at in itertools.count(1):
        for entry in list(state.path.parent.iterdir()):
            entry.unlink()
        state.path.write_bytes(pristine)
        log, vfs = disk
        writer = open_writer(state.path, vfs=vfs)
        writer.keep_log()
        faults = log.strikes = Faults(Fault(failure, at, None if lasting else 1))
        answered: list[int] = []
        unknown: int | None = None
        try:
            answered, unknown = serve(writer)
        except StorageFault:  # In a checkpoint: everything before it was answered.
            answered = list(range(COMMANDS))[: writer.connection.total_changes() // 2]
        has_failed = bool(faults.fired)
        faults.repair()
        writer.close()
        found = found_by_the_next_start(state)
        assert set(answered) <= found <= {*answered, unknown}
        if not has_failed:
            break
        failed += 1
    assert failed >= 6
