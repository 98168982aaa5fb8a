"""The pool of processes that play the orders: what it leaves behind, and what it refuses."""

import os
import pwd
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from multiproc_tests.harness.processes import BOUND_S, ExactProcess
from multiproc_tests.harness.servers import ROOT
from pi_workflows.chaos.procs_store import ALL_POINTS
from pi_workflows.chaos.procs_subject import StoreSubject
from pi_workflows.chaos.scenarios.claims import first_come
from pi_workflows.protocol.paths import StatePaths
from runtime.chaos.procs_child import serve
from runtime.chaos.procs_pool import Pool, PoolBroken
from runtime.chaos.procs_wire import Line, PeerGone


def wait(line: Line) -> None:
    line.receive()


def test_pool_leaves_no_process_behind() -> None:
    """Idle, stopped or killed: all have ended when the pool is closed."""
    with Pool(wait) as pool:
        members = [pool.fork() for _ in range(3)]
        watched = [ExactProcess(pid) for pid in pool.pids]
        pool.stop(members[0])
        pool.kill(members[1])
        assert [process.is_alive for process in watched] == [True, True, False, True]
    assert not any(process.is_alive for process in watched)
    for process in watched:
        process.close()


CONTROLLER: Final = """
import shutil, socket, sys
from runtime.chaos.procs_child import serve
from runtime.chaos.procs_pool import Pool
told = socket.socket(fileno=int(sys.argv[1]))
folder = sys.argv[2]
pool = Pool(lambda line: line.receive(), lambda: shutil.rmtree(folder))
members = [pool.fork() for _ in range(2)]
pool.stop(members[0])
told.sendall(" ".join(map(str, pool.pids)).encode() + b"\\n")
told.recv(1)
"""


@pytest.mark.parametrize("also", [(), (0,)])
def test_pool_ends_with_a_killed_controller(also: tuple[int, ...], tmp_path: Path) -> None:
    """Also when the process that has started the others is killed with it.

    If that one lives, it takes the databases away, too.
    """
    folder = tmp_path / "databases"
    folder.mkdir()
    ours, its = socket.socketpair()
    with ours, its:
        controller = subprocess.Popen(
            [sys.executable, "-P", "-c", CONTROLLER, str(its.fileno()), str(folder)],
            env={"PYTHONPATH": str(ROOT)},
            pass_fds=[its.fileno()],
        )
        ours.settimeout(BOUND_S)
        with ours.makefile("rb") as lines:
            pids = [int(pid) for pid in lines.readline().split()]
        watched = [ExactProcess(pid) for pid in pids]
        for index in also:
            os.kill(pids[index], signal.SIGKILL)
        controller.kill()
        controller.wait()
        for process in watched:
            process.await_end()
            process.close()
    assert folder.exists() == bool(also)


def test_process_of_the_pool_refuses_the_live_state_directory_itself() -> None:
    """Whoever sends it there: no variable of the environment moves the home of the account."""
    live = StatePaths(Path(pwd.getpwuid(os.geteuid()).pw_dir)).database
    subject = StoreSubject(first_come, ALL_POINTS)
    with Pool(partial(serve, subject=subject)) as pool:
        process = pool.fork()
        process.line.send({"open": str(live)})
        answer = process.line.receive()
    assert "is the live state directory" in str(answer["refused"])


def die(line: Line) -> None:
    line.receive()
    os._exit(3)


def test_process_that_ends_by_itself_is_noticed() -> None:
    with Pool(die) as pool:
        process = pool.fork()
        process.line.send({})
        with pytest.raises(PeerGone):
            process.line.receive()
        pool.kill(process)
        assert process.is_gone


def test_pool_whose_zygote_was_killed_says_so_and_can_be_closed() -> None:
    with Pool(wait) as pool:
        members = [pool.fork() for _ in range(2)]
        watched = [ExactProcess(member.pid) for member in members]
        os.kill(pool.pids[0], signal.SIGKILL)
        with pytest.raises(PoolBroken, match="does not answer"):
            pool.fork()
    for process in watched:
        process.await_end()
        process.close()
