"""Behaviour of the places where a harness can stop a process."""

import os
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

from runtime.sync_points import DIE, RELEASE, ArmedSyncPoints, InertSyncPoints, SyncPoint

CHILD = textwrap.dedent("""
    import sys
    from runtime.sync_points import ArmedSyncPoints, SyncPoint
    points = ArmedSyncPoints(int(sys.argv[1]), [SyncPoint.CLAIM_BEFORE_COMMIT])
    points.reached(SyncPoint.SOCKET_MID_FRAME)
    points.reached(SyncPoint.CLAIM_BEFORE_COMMIT)
    print("went on", flush=True)
    points.reached(SyncPoint.CLAIM_BEFORE_COMMIT)
""")


def _start(descriptor: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(descriptor)],
        pass_fds=[descriptor],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_inert_points_do_nothing() -> None:
    points = InertSyncPoints()
    for point in SyncPoint:
        points.reached(point)
        assert not points.is_armed(point)


@pytest.mark.parametrize(("answer", "returncode"), [(DIE, -signal.SIGKILL), (RELEASE, 0)])
def test_process_stops_at_an_armed_point_until_told_to_go_on_or_die(
    answer: bytes, returncode: int
) -> None:
    ours, theirs = socket.socketpair()
    with ours, _start(theirs.fileno()) as child:
        theirs.close()
        assert ours.recv(100) == b"claim.before_commit\n"
        assert child.poll() is None
        ours.sendall(RELEASE)
        assert child.stdout is not None
        assert child.stdout.readline() == "went on\n"
        assert ours.recv(100) == b"claim.before_commit\n"
        ours.sendall(answer)
        assert child.wait(120) == returncode


def test_a_harness_that_is_gone_stops_nobody() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        points = ArmedSyncPoints(theirs.fileno(), list(SyncPoint))
        points.reached(SyncPoint.CLAIM_BEFORE_COMMIT)
        assert not points.is_armed(SyncPoint.CLAIM_BEFORE_COMMIT)
        os.fstat(theirs.fileno())
