"""A recorded file system behaves like the real one, and its record tells all that was done."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from actors.state_files import DiskStateFiles
from pi_workflows.protocol.paths import StatePaths
from runtime.chaos.disk_faults import Failure, Fault, Faults
from runtime.chaos.disk_image import laid_out, lay_out
from runtime.chaos.disk_log import DiskLog, Doing
from runtime.chaos.disk_model import DiskModel
from runtime.chaos.disk_survivors import Persistence, survivors
from runtime.simulation.chance import Chance, Draws
from store.chaos.recording import recorded
from store.database import Writer
from store.errors import OutcomeUnknown, StatePathError, StorageFault
from store.rows import execute, scalar
from store.wal import CheckpointMode, checkpoint

INSERT: Final = (
    "INSERT INTO projects (project_id, canonical_path, created_at) VALUES (:id, :id, 1)"
)


def draws(seed: int) -> Draws:
    return Chance(seed).stream("disk")


@dataclass(slots=True)
class Recorded:
    """A state directory under record.

    Attributes:
        log: of everything since the directory was empty.
    """

    log: DiskLog
    folder: Path
    state: DiskStateFiles

    def model(self) -> DiskModel:
        model = DiskModel()
        for operation in self.log.operations:
            model.apply(operation)
        return model


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Recorded]:
    """Each test has its own directory, and salts from a fixed seed."""
    paths = StatePaths(tmp_path / "home")
    log = DiskLog()
    with recorded(log, "recorded", draws(7).randbytes) as recording:
        state = DiskStateFiles(paths, recording.files, vfs=recording.vfs)
        state.prepare()
        yield Recorded(log, paths.database.parent, state)


def commit(writer: Writer, name: str) -> None:
    writer.begin_immediate()
    execute(writer.connection, INSERT, {"id": name})
    writer.commit()


def projects(state: DiskStateFiles) -> int:
    reader = state.open_reader()
    found = scalar(reader.connection, "SELECT count(*) FROM projects", {})
    reader.close()
    assert isinstance(found, int)
    return found


def test_record_of_creation_commits_and_checkpoint_equals_the_files(disk: Recorded) -> None:
    assert disk.state.create(1)
    writer = disk.state.open_writer()
    for name in "abc":
        commit(writer, name)
    assert disk.model().cached() == laid_out(disk.folder)
    checkpoint(writer.connection, CheckpointMode.TRUNCATE)
    commit(writer, "d")
    assert disk.model().cached() == laid_out(disk.folder)
    writer.keep_log()
    writer.close()
    writer = disk.state.open_writer()
    assert disk.model().cached() == laid_out(disk.folder)
    writer.close()
    assert disk.model().cached() == laid_out(disk.folder)


def test_creation_links_a_flushed_file_and_flushes_the_directory(disk: Recorded) -> None:
    disk.state.create(1)
    done = [operation.doing for operation in disk.log.operations]
    link = done.index(Doing.LINK)
    assert done[link - 1 : link + 3] == [
        Doing.SYNC,
        Doing.LINK,
        Doing.SYNC_DIRECTORY,
        Doing.REMOVE,
    ]


def test_start_copies_the_log_aside_on_the_record(disk: Recorded) -> None:
    disk.state.create(1)
    writer = disk.state.open_writer()
    commit(writer, "a")
    writer.keep_log()
    writer.close()
    disk.log.operations.clear()
    disk.state.open_writer().close()
    done = [(operation.doing, operation.name) for operation in disk.log.operations[:5]]
    assert done == [
        (Doing.CREATE, "state.sqlite-wal.settling"),
        (Doing.WRITE, "state.sqlite-wal.settling"),
        (Doing.SYNC, "state.sqlite-wal.settling"),
        (Doing.RENAME, "state.sqlite-wal.settling"),
        (Doing.SYNC_DIRECTORY, "the directory"),
    ]


def test_readers_see_commits_while_the_writer_goes_on(disk: Recorded) -> None:
    disk.state.create(1)
    writer = disk.state.open_writer()
    commit(writer, "a")
    reader = disk.state.open_reader()
    with reader.snapshot() as view:
        assert scalar(view, "SELECT count(*) FROM projects", {}) == 1
        commit(writer, "b")
        assert scalar(view, "SELECT count(*) FROM projects", {}) == 1
    assert projects(disk.state) == 2
    reader.close()
    writer.close()


@pytest.mark.parametrize("persistence", Persistence)
def test_power_cut_after_a_commit_loses_nothing(disk: Recorded, persistence: Persistence) -> None:
    disk.state.create(1)
    writer = disk.state.open_writer()
    for name in "abc":
        commit(writer, name)
    left = survivors(disk.model(), persistence, draws(1)).content()
    writer.keep_log()
    writer.close()
    lay_out(disk.folder, left)
    disk.state.open_writer().close()
    assert projects(disk.state) == 3


def test_power_cut_before_the_flush_of_a_commit_loses_it_whole(disk: Recorded) -> None:
    disk.state.create(1)
    writer = disk.state.open_writer()
    commit(writer, "a")
    commit(writer, "b")
    while disk.log.operations.pop().doing is not Doing.SYNC:
        pass
    left = survivors(disk.model(), Persistence.DROPPED, draws(1)).content()
    writer.keep_log()
    writer.close()
    lay_out(disk.folder, left)
    disk.state.open_writer().close()
    assert projects(disk.state) == 1


@pytest.mark.parametrize(
    "failure", [Failure.WRITE_ERROR, Failure.DISK_FULL, Failure.TORN_WRITE, Failure.SYNC_ERROR]
)
def test_fault_in_a_commit_leaves_its_outcome_unknown_and_the_record_true(
    disk: Recorded, failure: Failure
) -> None:
    disk.state.create(1)
    writer = disk.state.open_writer()
    commit(writer, "a")
    disk.log.strikes = Faults(Fault(failure, 1))
    with pytest.raises(OutcomeUnknown):
        commit(writer, "b")
    writer.close()
    assert disk.model().cached() == laid_out(disk.folder)
    assert any(operation.failed for operation in disk.log.operations) == (
        failure is Failure.SYNC_ERROR
    )


def test_faults_of_opening_and_reading_are_named_as_faults_of_storage(disk: Recorded) -> None:
    disk.state.create(1)
    for failure in (Failure.OPEN_ERROR, Failure.READ_ERROR):
        disk.log.strikes = Faults(Fault(failure, 1))
        with pytest.raises(StorageFault):
            disk.state.open_writer()


@pytest.mark.parametrize("notes_old", [False, True])
def test_folder_that_sqlite_flushes_with_an_old_log_can_be_left_out_of_the_record(
    tmp_path: Path, *, notes_old: bool
) -> None:
    log, paths = DiskLog(), StatePaths(tmp_path)
    with recorded(log, "old-logs", flushes_folder_of_old=notes_old) as recording:
        state = DiskStateFiles(paths, recording.files, vfs=recording.vfs)
        state.prepare()
        state.create(1)
        flushed = []
        for name in "abc":
            if name == "c":
                os.truncate(f"{paths.database}-wal", 0)
            writer = state.open_writer()
            begun = len(log.operations)
            commit(writer, name)
            done = [operation.doing for operation in log.operations[begun:]]
            flushed.append(Doing.SYNC_DIRECTORY in done)
            writer.keep_log()
            writer.close()
    assert flushed == [True, notes_old, True], "a new log, one that was there, an empty one"


def test_nobody_is_asked_before_a_read_that_cannot_fail(tmp_path: Path) -> None:
    log, paths = DiskLog(), StatePaths(tmp_path)
    faults = log.strikes = Faults(Fault(Failure.READ_ERROR, 1, None))
    with recorded(log, "no-reads", asks_before_reads=False) as recording:
        state = DiskStateFiles(paths, recording.files, vfs=recording.vfs)
        state.prepare()
        state.create(1)
        writer = state.open_writer()
        commit(writer, "a")
        assert projects(state) == 1
        writer.close()
    assert faults.seen == 0
    assert any(operation.doing is Doing.WRITE for operation in log.operations)


def test_faults_of_the_start_rule_leave_the_log_in_place(disk: Recorded) -> None:
    disk.state.create(1)
    writer = disk.state.open_writer()
    commit(writer, "a")
    writer.keep_log()
    writer.close()
    before = laid_out(disk.folder)["state.sqlite-wal"]
    for failure in (Failure.TORN_WRITE, Failure.SYNC_ERROR, Failure.NAME_ERROR):
        disk.log.strikes = Faults(Fault(failure, 1))
        with pytest.raises(StorageFault):
            disk.state.open_writer()
        assert laid_out(disk.folder)["state.sqlite-wal"] == before
        assert disk.model().cached() == laid_out(disk.folder)


def test_start_that_fails_to_open_leaves_the_log_to_the_next_one(disk: Recorded) -> None:
    """Closing the last connection would move the log, and hide that the stop was unclean."""
    disk.state.create(1)
    writer = disk.state.open_writer()
    commit(writer, "a")
    writer.keep_log()
    writer.close()
    before = laid_out(disk.folder)
    failed = 0
    for at in itertools.count(1):
        disk.log.strikes = Faults(Fault(Failure.READ_ERROR, at))
        try:
            writer = disk.state.open_writer()
        except StorageFault:
            failed += 1
            assert laid_out(disk.folder) == before
        else:
            break
    disk.log.strikes = Faults()
    writer.close()
    assert failed > 20


def test_fault_of_the_directory_forbids_creation(disk: Recorded) -> None:
    disk.log.strikes = Faults(Fault(Failure.NAME_ERROR, 1))
    with pytest.raises(StatePathError):
        disk.state.create(1)
    assert disk.log.operations == []


def test_equal_runs_leave_equal_bytes(tmp_path: Path) -> None:
    records = []
    for number in range(2):
        paths = StatePaths(tmp_path / f"home-{number}")
        log = DiskLog()
        with recorded(log, "recorded", draws(7).randbytes) as recording:
            state = DiskStateFiles(paths, recording.files, vfs=recording.vfs)
            state.prepare()
            state.create(1)
            writer = state.open_writer()
            commit(writer, "a")
            writer.close()
        records.append(log.operations)
    assert records[0] == records[1]
    assert records[0]
