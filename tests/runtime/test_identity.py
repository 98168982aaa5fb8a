"""Behaviour of exact process identity, with real processes."""

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from runtime import psutil_table
from runtime.identity import (
    Liveness,
    ProcessIdentity,
    age_s,
    identity_of,
    is_alive,
    signal_exactly,
    wait_gone,
)
from runtime.process_table import read_process
from runtime.processes import SystemProcessTable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="start ticks come from /proc")


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def _identity(pid: int) -> ProcessIdentity:
    identity = identity_of(pid)
    assert identity is not None
    return identity


def _reused(identity: ProcessIdentity) -> ProcessIdentity:
    """Return the identity of an earlier process that had the same id."""
    head, _, ticks = identity.start_identity.rpartition(":")
    return dataclasses.replace(identity, start_identity=f"{head}:{int(ticks) - 1}")


def test_identity_is_boot_id_and_start_ticks() -> None:
    scheme, boot, ticks = _identity(os.getpid()).start_identity.split(":")
    assert scheme == "linux-proc-start"
    assert len(boot) == 36
    assert ticks.isdigit()
    assert identity_of(os.getpid()) == identity_of(os.getpid())


def test_a_program_name_with_spaces_and_parentheses_does_not_confuse_it(
    tmp_path: os.PathLike[str],
) -> None:
    odd = os.path.join(tmp_path, "a) S 1 (b")  # noqa: PTH118 - the name is the point
    os.symlink("/bin/sleep", odd)  # noqa: PTH211
    with subprocess.Popen([odd, "300"], start_new_session=True) as process:
        state = read_process(process.pid)
        assert state is not None
        assert state.session_id == process.pid
        assert is_alive(_identity(process.pid)) is Liveness.ALIVE
        process.kill()


def test_nobody_has_an_id_that_is_free() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert identity_of(process.pid) is None


def test_a_zombie_keeps_its_identity_and_counts_as_gone(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    identity = _identity(sleeper.pid)
    assert is_alive(identity) is Liveness.ALIVE
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert identity_of(sleeper.pid) == identity
    assert is_alive(identity) is Liveness.GONE
    assert not signal_exactly(identity, signal.SIGKILL)
    sleeper.wait()
    assert is_alive(identity) is Liveness.GONE


def test_a_process_whose_main_thread_has_ended_lives_on_in_its_others() -> None:
    code = """
        import ctypes, os, sys, threading
        def go_on():
            while not open("/proc/self/stat").read().rpartition(")")[2].startswith(" Z"):
                pass
            os.write(1, b"!")
            threading.Event().wait()
        threading.Thread(target=go_on).start()
        ctypes.CDLL(None).pthread_exit(None)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"!"
        identity = _identity(process.pid)
        assert is_alive(identity) is Liveness.ALIVE
        assert signal_exactly(identity, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL


def test_a_reused_id_is_neither_alive_nor_signalled(sleeper: "subprocess.Popen[bytes]") -> None:
    earlier = _reused(_identity(sleeper.pid))
    assert is_alive(earlier) is Liveness.GONE
    assert not signal_exactly(earlier, signal.SIGKILL)
    assert sleeper.poll() is None


def test_age_is_the_time_since_the_start_whatever_the_wall_clock_does(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    """It cannot be told for an identity of another boot or another scheme."""
    own, its = age_s(_identity(os.getpid())), age_s(_identity(sleeper.pid))
    assert own is not None
    assert its is not None
    assert -0.1 < its < own
    for foreign in (
        "linux-proc-start:another-boot:1",
        "linux-proc-start:torn",
        "psutil-create-time:1.00",
    ):
        assert age_s(ProcessIdentity(sleeper.pid, foreign)) is None


def test_an_identity_of_an_earlier_boot_is_gone() -> None:
    identity = ProcessIdentity(os.getpid(), "linux-proc-start:another-boot:1")
    assert is_alive(identity) is Liveness.GONE


def test_an_identity_of_another_scheme_cannot_be_proven() -> None:
    identity = ProcessIdentity(os.getpid(), "psutil-create-time:1.00")
    assert is_alive(identity) is Liveness.UNPROVABLE
    assert not signal_exactly(identity, signal.SIGTERM)


def test_signal_reaches_exactly_the_process(sleeper: "subprocess.Popen[bytes]") -> None:
    assert signal_exactly(_identity(sleeper.pid), signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM


async def test_wait_gone_ends_with_the_process_and_at_once_without_it(
    sleeper: "subprocess.Popen[bytes]", nursery: trio.Nursery
) -> None:
    processes = SystemProcessTable()
    identity = processes.identity_of(sleeper.pid)
    assert identity is not None
    ended = trio.Event()

    async def wait() -> None:
        await processes.wait_gone(identity)
        ended.set()

    with trio.fail_after(120):
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not ended.is_set()
        sleeper.kill()
        await ended.wait()
        await wait_gone(identity)
        await wait_gone(_reused(_identity(os.getpid())))


def test_psutil_table_tells_the_same_story(sleeper: "subprocess.Popen[bytes]") -> None:
    state = psutil_table.read_process(sleeper.pid)
    assert state is not None
    assert state == psutil_table.read_process(sleeper.pid)
    assert state.start_identity.startswith("psutil-create-time:")
    assert state.session_id == os.getsid(sleeper.pid)
    assert sleeper.pid in psutil_table.pids()
    assert psutil_table.started_with(os.getpid(), "PATH", os.environ["PATH"])
    assert not psutil_table.started_with(os.getpid(), "PATH", "elsewhere")
    age = psutil_table.age_s(state.start_identity)
    assert age is not None
    assert age > -1
    assert psutil_table.age_s("psutil-create-time:soon") is None
    assert psutil_table.age_s("linux-proc-start:b:1") is None
    sleeper.kill()
    sleeper.wait()
    assert psutil_table.read_process(sleeper.pid) is None
    assert not psutil_table.started_with(sleeper.pid, "PATH", "elsewhere")
