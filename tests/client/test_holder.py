"""The holder of the lock is one exact process, never one that has its pid by now."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pi_workflows.client import holder
from pi_workflows.client.holder import (
    end_holder,
    left_by_a_crash,
    read_holder,
    stopped_in_order,
)
from pi_workflows.protocol.canonical import canonical_bytes
from pi_workflows.protocol.paths import StatePaths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="identity comes from /proc")


def identity(pid: int) -> str:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return f"linux-proc-start:{boot_id}:{ticks}"


def write_lock(paths: StatePaths, pid: int, start_identity: str) -> None:
    paths.lock.write_bytes(canonical_bytes({"pid": pid, "startIdentity": start_identity}))


def test_no_lock_file_or_an_unreadable_one_names_nobody(paths: StatePaths) -> None:
    assert read_holder(paths) is None
    for text in ("{", "[]", '{"pid":0,"startIdentity":"x"}', '{"pid":1}'):
        paths.lock.write_text(text)
        assert read_holder(paths) is None
        assert not left_by_a_crash(paths)


def test_a_server_has_stopped_in_order_when_socket_and_lock_file_are_gone(
    paths: StatePaths,
) -> None:
    assert stopped_in_order(paths)
    paths.socket.touch()
    assert not stopped_in_order(paths)
    paths.socket.unlink()
    paths.lock.touch()
    assert not stopped_in_order(paths)


def test_a_living_holder_was_not_left_by_a_crash(paths: StatePaths) -> None:
    write_lock(paths, os.getpid(), identity(os.getpid()))
    assert not left_by_a_crash(paths)


def test_a_process_that_has_ended_but_was_not_reaped_counts_as_gone(paths: StatePaths) -> None:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    write_lock(paths, process.pid, identity(process.pid))
    assert not left_by_a_crash(paths)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert left_by_a_crash(paths)
    process.communicate()


def test_a_reused_pid_is_not_the_holder_and_is_never_signalled(paths: StatePaths) -> None:
    write_lock(paths, os.getpid(), "linux-proc-start:earlier:1")
    assert left_by_a_crash(paths)
    assert not end_holder(paths)


def test_a_holder_that_ignores_sigterm_is_killed(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After five seconds in the product."""
    monkeypatch.setattr(holder, "TERMINATE_MS", 100)
    program = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True);"
        " signal.pause()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        write_lock(paths, process.pid, identity(process.pid))
        assert end_holder(paths)
        assert process.wait(120) == -9
    assert not end_holder(paths)
