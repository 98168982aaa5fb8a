"""Who has started whom."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from runtime.identity import ProcessIdentity, identity_of
from runtime.parentage import leader_started_by

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start processes that end with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(**how: bool | int) -> "subprocess.Popen[bytes]":
        options = {"start_new_session": how.get("start_new_session", False)}
        if "process_group" in how:
            options = {"process_group": how["process_group"]}
        sleeper = [sys.executable, "-c", "import signal; signal.pause()"]
        started.append(subprocess.Popen(sleeper, **options))  # type: ignore[call-overload]
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def identity(pid: int) -> ProcessIdentity:
    found = identity_of(pid)
    assert found is not None
    return found


def test_own_child_that_leads_a_session_or_a_group_is_recognised(start: Start) -> None:
    me = identity(os.getpid())
    for how in ({"start_new_session": True}, {"process_group": 0}):
        child = start(**how)
        assert leader_started_by(me, child.pid) == identity(child.pid)


def test_others_are_not(start: Start) -> None:
    """A member of our group, a stranger, ourselves, nobody, a child of another, an ended one."""
    me = identity(os.getpid())
    assert leader_started_by(me, start().pid) is None
    assert leader_started_by(me, 1) is None
    assert leader_started_by(me, me.pid) is None
    assert leader_started_by(me, 4_194_305) is None
    child = start(start_new_session=True)
    assert leader_started_by(identity(os.getppid()), child.pid) is None
    reused = ProcessIdentity(me.pid, f"{me.start_identity}0")
    assert leader_started_by(reused, child.pid) is None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert leader_started_by(me, child.pid) is None
