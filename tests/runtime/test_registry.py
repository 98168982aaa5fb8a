"""Behaviour of the registry of children, with real processes."""

import dataclasses
import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from pi_workflows.protocol.template import MARKER_VARIABLE
from runtime.errors import ForeignFile, ProcessesSurvived
from runtime.identity import (
    Liveness,
    ProcessIdentity,
    identity_of,
    is_alive,
    signal_exactly,
)
from runtime.processes import SystemProcessTable
from runtime.registry import ProcessRegistry, RegisteredChild, read_registry

MARKER = "child-77d0"
ENVIRONMENT = {**os.environ, MARKER_VARIABLE: MARKER}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "host.children.json"


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "300"], env=ENVIRONMENT, start_new_session=True) as process:
        yield process
        process.kill()


def _registry(path: Path) -> ProcessRegistry:
    return ProcessRegistry(path, SystemProcessTable())


def _identity(pid: int) -> ProcessIdentity:
    identity = identity_of(pid)
    assert identity is not None
    return identity


def test_children_are_on_disk_privately_while_they_are_registered(path: Path) -> None:
    """Case: C7."""
    registry = _registry(path)
    first, second = ProcessIdentity(10, "a"), ProcessIdentity(11, "b")
    registry.add(first, "m1")
    registry.add(second, "m2")
    registry.remove(first)
    registry.remove(first)
    assert registry.children() == read_registry(path) == (RegisteredChild(second, "m2"),)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {
        "schema": "pi-workflows.process-registry.v1",
        "children": [{"pid": 11, "startIdentity": "b", "marker": "m2"}],
    }
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


async def test_only_the_exact_process_is_killed_not_a_later_one_with_its_id(
    path: Path, sleeper: "subprocess.Popen[bytes]"
) -> None:
    """Case: C9."""
    identity = _identity(sleeper.pid)
    head, _, ticks = identity.start_identity.rpartition(":")
    earlier = dataclasses.replace(identity, start_identity=f"{head}:{int(ticks) - 1}")
    _registry(path).add(earlier, "another-marker")
    with trio.fail_after(120):
        found = await _registry(path).end_registered()
    assert (found.ended, found.dropped) == ((), (RegisteredChild(earlier, "another-marker"),))
    assert sleeper.poll() is None
    assert read_registry(path) == ()

    _registry(path).add(identity, MARKER)
    with trio.fail_after(120):
        found = await _registry(path).end_registered()
    assert found.ended == (RegisteredChild(identity, MARKER),)
    assert sleeper.wait() == -signal.SIGKILL
    assert read_registry(path) == ()


async def test_what_a_dead_child_left_in_its_session_is_killed(path: Path) -> None:
    script = "sleep 300 & echo $!; read _"
    with subprocess.Popen(  # noqa: ASYNC220 - the child is to be nobody's but the test's
        ["/bin/sh", "-c", script],
        env=ENVIRONMENT,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as leader:
        assert leader.stdout is not None
        shell = _identity(int(leader.stdout.readline()))
        _registry(path).add(_identity(leader.pid), MARKER)
        leader.kill()
        leader.wait()
        assert is_alive(shell) is Liveness.ALIVE
        with trio.fail_after(120):
            found = await _registry(path).end_registered()
        assert found.ended == ()
        assert is_alive(shell) is Liveness.GONE


@pytest.mark.parametrize("state", ["alive", "zombie"])
async def test_while_the_child_is_unreaped_even_an_unmarked_process_of_its_session_is_killed(
    path: Path, state: str
) -> None:
    """Case: C9."""
    with _leader() as leader:
        shell = _identity(int(_line(leader)))
        child = RegisteredChild(_identity(leader.pid), MARKER)
        _registry(path).add(child.identity, MARKER)
        if state == "zombie":
            leader.kill()
            _await_change(leader, os.WEXITED)
        with trio.fail_after(120):
            found = await _registry(path).end_registered()
        assert found.ended == ((child,) if state == "alive" else ())
        assert is_alive(shell) is Liveness.GONE
        assert leader.wait() == -signal.SIGKILL


async def test_unmarked_process_of_a_reaped_child_is_left_alone(path: Path) -> None:
    """Nothing proves that it is not of a later session with the same number."""
    with _leader() as leader:
        shell = _identity(int(_line(leader)))
        _registry(path).add(_identity(leader.pid), MARKER)
        leader.kill()
        leader.wait()
        with trio.fail_after(120):
            await _registry(path).end_registered()
        assert is_alive(shell) is Liveness.ALIVE
        assert signal_exactly(shell, signal.SIGKILL)


async def test_child_stays_registered_and_still_while_something_of_its_session_survives(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the proof by which the next start can end the rest."""

    async def survive(
        _: SystemProcessTable, leader: ProcessIdentity, *__: str, **___: float
    ) -> None:
        await trio.lowlevel.checkpoint()
        raise ProcessesSurvived(str(leader.pid))

    with _leader() as leader:
        shell = _identity(int(_line(leader)))
        child = RegisteredChild(_identity(leader.pid), MARKER)
        _registry(path).add(child.identity, MARKER)
        with monkeypatch.context() as patched:
            patched.setattr(SystemProcessTable, "end_session", survive)
            with pytest.raises(ProcessesSurvived):
                await _registry(path).end_registered()
        _await_change(leader, os.WSTOPPED)
        assert read_registry(path) == (child,)
        with trio.fail_after(120):
            found = await _registry(path).end_registered()
        assert found.ended == (child,)
        assert is_alive(shell) is Liveness.GONE
        assert leader.wait() == -signal.SIGKILL


def _leader() -> "subprocess.Popen[bytes]":
    """Start a marked leader that prints the pid of an unmarked process in its session."""
    return subprocess.Popen(
        ["/bin/sh", "-mc", "env -i /bin/sh -c 'echo $$; exec /bin/sleep 300' & read _"],
        env=ENVIRONMENT,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _await_change(process: "subprocess.Popen[bytes]", change: int) -> None:
    """Wait until the process has ended or stopped, and leave that to be waited for."""
    os.waitid(os.P_PID, process.pid, change | os.WNOWAIT)


def _line(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


async def test_an_unprovable_child_is_left_alone_and_dropped(
    path: Path, sleeper: "subprocess.Popen[bytes]"
) -> None:
    _registry(path).add(ProcessIdentity(sleeper.pid, "other-scheme:1"), MARKER)
    found = await _registry(path).end_registered()
    assert len(found.dropped) == 1
    assert sleeper.poll() is None


async def test_no_file_means_no_children(path: Path) -> None:
    found = await _registry(path).end_registered()
    assert (found.ended, found.dropped, found.fault) == ((), (), None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"schema":"pi-workflows.process-registry.v1","children":[{"pid":1',
        b'{"schema":"something.else.v1","children":[]}',
        b'{"schema":"pi-workflows.process-registry.v1","children":[{"pid":7}]}',
        b"\xff\xfe",
        b"[]",
    ],
)
async def test_a_torn_or_foreign_file_is_set_aside_with_a_clear_fault(
    path: Path, content: bytes
) -> None:
    _damage(path, content)
    found = await _registry(path).end_registered()
    assert isinstance(found.fault, ForeignFile)
    assert str(path) in str(found.fault)
    assert path.with_name("host.children.json.unusable").read_bytes() == content
    assert read_registry(path) == ()


def _damage(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ForeignFile):
        read_registry(path)


@pytest.mark.parametrize("pid", [1, 0, -1])
def test_an_entry_that_would_name_init_or_a_whole_group_is_refused(path: Path, pid: int) -> None:
    _registry(path).add(ProcessIdentity(pid, "linux-proc-start:b:1"), MARKER)
    with pytest.raises(ForeignFile):
        read_registry(path)


def test_a_child_that_could_not_be_written_is_not_remembered(path: Path) -> None:
    registry = _registry(path.parent / "missing" / "host.children.json")
    with pytest.raises(FileNotFoundError):
        registry.add(ProcessIdentity(10, "a"), "m")
    assert registry.children() == ()
