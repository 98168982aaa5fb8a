"""The log survives an unclean stop and is moved into the database only when the writer says so."""

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from store.errors import StorageFault
from store.files import OsFiles
from store.opening import open_reader, open_writer
from store.wal import CheckpointMode, checkpoint, settle_wal, wal_bytes, wal_path

if TYPE_CHECKING:
    from store.database import Writer
    from tests.store.conftest import StateFolder


class RecordedFiles(OsFiles):
    """Real files, and the order in which they were worked on."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []

    @override
    def copy(self, source: Path, target: Path) -> None:
        self.done.append(("copy", target.name))
        super().copy(source, target)

    @override
    def sync(self, path: Path) -> None:
        self.done.append(("sync", path.name))
        super().sync(path)

    @override
    def rename(self, source: Path, target: Path) -> None:
        self.done.append(("rename", target.name))
        super().rename(source, target)

    @override
    def sync_directory(self, path: Path) -> None:
        self.done.append(("sync_directory", path.name))
        super().sync_directory(path)


class FailingDisk(OsFiles):
    """A disk that cannot flush."""

    @override
    def sync(self, path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))


def test_log_of_a_killed_process_is_replaced_by_a_copy_and_loses_nothing(
    state: "StateFolder",
) -> None:
    state.leave_uncheckpointed()
    log = wal_path(state.path)
    before, inode = log.read_bytes(), log.stat().st_ino
    assert settle_wal(state.path, OsFiles())
    assert log.read_bytes() == before
    assert log.stat().st_ino != inode
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    writer = open_writer(state.path)
    assert state.projects(writer.connection) == 1
    writer.close()


def test_nothing_is_settled_after_a_clean_stop(state: "StateFolder") -> None:
    files = RecordedFiles()
    open_writer(state.path, after_unclean_stop=True, files=files).close()
    assert files.done == []


def test_settling_copies_syncs_renames_and_syncs_the_directory_in_this_order(
    state: "StateFolder",
) -> None:
    """Any other order can lose the log in a power cut."""
    state.leave_uncheckpointed()
    files = RecordedFiles()
    writer = open_writer(state.path, after_unclean_stop=True, files=files)
    assert state.projects(writer.connection) == 1
    assert files.done == [
        ("copy", "state.sqlite-wal.settling"),
        ("sync", "state.sqlite-wal.settling"),
        ("rename", "state.sqlite-wal"),
        ("sync_directory", "workflows"),
    ]
    writer.close()


def test_failed_settling_keeps_the_old_log(state: "StateFolder") -> None:
    state.leave_uncheckpointed()
    log = wal_path(state.path)
    before = log.read_bytes()
    with pytest.raises(StorageFault, match="settling the log: Input/output error"):
        settle_wal(state.path, FailingDisk())
    assert log.read_bytes() == before


def test_checkpoint_is_complete_only_without_readers_inside(
    state: "StateFolder", writer: "Writer"
) -> None:
    reader = open_reader(state.path)
    state.commit(writer, "one")
    with reader.snapshot() as view:
        state.projects(view)
        state.commit(writer, "two")
        partial = checkpoint(writer.connection, CheckpointMode.TRUNCATE)
        assert not partial.complete
        assert partial.copied < partial.frames
    assert checkpoint(writer.connection, CheckpointMode.TRUNCATE).complete
    assert wal_bytes(state.path, OsFiles()) == 0
    reader.close()
    writer.close()


def test_nothing_is_checkpointed_behind_the_writers_back(
    state: "StateFolder", writer: "Writer"
) -> None:
    """The log only grows until it is told otherwise; a clean close removes it."""
    before = state.path.stat().st_mtime_ns
    for number in range(300):
        state.commit(writer, f"project-{number}")
    assert state.path.stat().st_mtime_ns == before
    assert wal_bytes(state.path, OsFiles()) > 1_000_000
    writer.close()
    assert list(state.modes()) == ["state.sqlite"]


def test_reader_that_closes_last_leaves_the_log_to_the_writer(
    state: "StateFolder", writer: "Writer"
) -> None:
    """A reader's own checkpoint would not be synced."""
    reader = open_reader(state.path)
    state.commit(writer, "one")
    size = wal_bytes(state.path, OsFiles())
    reader.close()
    assert wal_bytes(state.path, OsFiles()) == size
    writer.close()
