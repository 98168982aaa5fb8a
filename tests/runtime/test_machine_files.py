"""The server's small files, real and simulated, keep the same promises."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from runtime.identity import ProcessIdentity
from runtime.lock_file import LockHolder, read_lock_file, remove_lock_file, write_lock_file
from runtime.machine_files import SYSTEM_FILES, MachineFiles
from runtime.processes import SystemProcessTable
from runtime.registry import ProcessRegistry, read_registry
from runtime.simulation.files import Disk, SimulatedFiles
from runtime.simulation.machine import Machine
from runtime.simulation.processes import ProcessDied, SimulatedProcess


async def sleeping(_: SimulatedProcess) -> int:
    await trio.sleep_forever()
    raise AssertionError


Open = Callable[[], MachineFiles]


@pytest.fixture(params=["real", "simulated"])
def files_of_another(request: pytest.FixtureRequest, machine: Machine) -> Open:
    """The same disk as one more process sees it."""
    disk = Disk()

    def another() -> MachineFiles:
        if request.param == "real":
            return SYSTEM_FILES
        return SimulatedFiles(disk, machine.start("process", sleeping), machine.trace)

    return another


@pytest.fixture
def files(files_of_another: Open, tmp_path: Path) -> MachineFiles:
    made = files_of_another()
    made.prepare_directory(tmp_path / "host")
    return made


async def test_file_is_replaced_renamed_and_removed_in_one_step(
    autojump_clock: MockClock, files: MachineFiles, tmp_path: Path
) -> None:
    path, other = tmp_path / "host" / "a", tmp_path / "host" / "b"
    files.replace(path, b"old")
    files.replace(path, b"new")
    assert files.read(path) == b"new"
    files.rename(path, other)
    assert files.read(other) == b"new"
    files.remove(other)
    files.remove(other)
    for absent in (path, other):
        with pytest.raises(FileNotFoundError):
            files.read(absent)
    with pytest.raises(FileNotFoundError):
        files.rename(path, other)


async def test_lock_has_one_holder(
    autojump_clock: MockClock, files: MachineFiles, files_of_another: Open, tmp_path: Path
) -> None:
    path = tmp_path / "host" / "lock"
    first, second = files.lock(path), files_of_another().lock(path)
    assert first.try_acquire()
    assert first.try_acquire()
    assert not second.try_acquire()
    assert (first.is_held, second.is_held) == (True, False)
    first.release()
    first.release()
    assert second.try_acquire()
    second.release()


async def test_lock_file_names_its_holder_until_that_removes_it(
    autojump_clock: MockClock, files: MachineFiles, tmp_path: Path
) -> None:
    path = tmp_path / "host" / "lock.json"
    holder = LockHolder(ProcessIdentity(77, "linux-proc-start:b:1"), "server-1")
    assert read_lock_file(path, files) is None
    write_lock_file(path, holder, files)
    assert read_lock_file(path, files) == holder
    assert not remove_lock_file(path, LockHolder(holder.identity, "server-2"), files)
    assert remove_lock_file(path, holder, files)
    assert read_lock_file(path, files) is None


async def test_registry_is_read_by_the_next_process(
    autojump_clock: MockClock, files: MachineFiles, files_of_another: Open, tmp_path: Path
) -> None:
    path = tmp_path / "host" / "children.json"
    registry = ProcessRegistry(path, SystemProcessTable(), files)
    child = ProcessIdentity(77, "linux-proc-start:b:1")
    registry.add(child, "marker")
    assert [found.identity for found in read_registry(path, files_of_another())] == [child]
    registry.remove(child)
    assert read_registry(path, files_of_another()) == ()


async def test_lock_of_a_dead_process_is_free_and_its_files_stay(
    autojump_clock: MockClock, machine: Machine
) -> None:
    dying, other = (machine.start("process", sleeping) for _ in range(2))
    own = SimulatedFiles(machine.disk, dying, machine.trace)
    theirs = SimulatedFiles(machine.disk, other, machine.trace)
    lock = own.lock(Path("/lock"))
    assert lock.try_acquire()
    own.replace(Path("/file"), b"kept")
    machine.kill(dying)
    assert theirs.lock(Path("/lock")).try_acquire()
    assert theirs.read(Path("/file")) == b"kept"
    for use in (lock.release, lambda: own.replace(Path("/file"), b"late")):
        with pytest.raises(ProcessDied):
            use()
