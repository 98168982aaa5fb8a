"""Behaviour of the places where a harness can stop a process."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from runtime.sync_points import DIE, RELEASE, ArmedSyncPoints, InertSyncPoints, SyncPoint

CHILD = textwrap.dedent("""
    import sys
    from pathlib import Path
    from runtime.sync_points import ArmedSyncPoints, SyncPoint
    points = ArmedSyncPoints(int(sys.argv[1]), [SyncPoint.CLAIM_BEFORE_COMMIT], Path(sys.argv[2]))
    points.reached(SyncPoint.SOCKET_MID_FRAME)
    points.reached(SyncPoint.CLAIM_BEFORE_COMMIT)
    print("went on", flush=True)
    points.reached(SyncPoint.CLAIM_BEFORE_COMMIT)
""")


ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pi_workflows", "actors", "runtime", "store")


def _start(descriptor: int, state_dir: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(descriptor), str(state_dir)],
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
    tmp_path: Path, answer: bytes, returncode: int
) -> None:
    ours, theirs = socket.socketpair()
    with ours, _start(theirs.fileno(), tmp_path) as child:
        theirs.close()
        assert ours.recv(100) == b"claim.before_commit\n"
        assert child.poll() is None
        ours.sendall(RELEASE)
        assert child.stdout is not None
        assert child.stdout.readline() == "went on\n"
        assert ours.recv(100) == b"claim.before_commit\n"
        ours.sendall(answer)
        assert child.wait(120) == returncode


def test_a_harness_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        points = ArmedSyncPoints(theirs.fileno(), list(SyncPoint), tmp_path)
        points.reached(SyncPoint.CLAIM_BEFORE_COMMIT)
        assert not points.is_armed(SyncPoint.CLAIM_BEFORE_COMMIT)
        os.fstat(theirs.fileno())


def test_no_line_of_the_product_arms_a_point() -> None:
    """Whoever wants to has to write a program of its own; the environment is not asked here."""
    own = ROOT / "runtime" / "sync_points.py"
    product = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert own in product
    assert [path for path in product if "ArmedSyncPoints" in path.read_text()] == [own]
    assert "environ" not in own.read_text().replace("environment", "")
