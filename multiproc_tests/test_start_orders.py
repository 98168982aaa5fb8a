"""A second server starts while the first stands at a point of its own start: every such order."""

import json
import signal
from typing import Final

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.servers import ArmedServer
from multiproc_tests.harness.workflows import SHORT
from runtime.sync_points import SyncPoint

STARTS: Final = [point for point in SyncPoint if point.startswith("start.")]
PATIENCE_S: Final = 11
"""More than a start waits for one that is silent."""

CLAIM_S: Final = 31
"""More than a claim lasts, and more than a young server is old."""


def stands_at(home: Home, point: SyncPoint) -> ArmedServer:
    """Start a server and return it when it stands at the point."""
    armed = home.servers.launch_armed(point)
    assert armed.stopped_at() == point
    return armed


def waits(home: Home, *points: SyncPoint) -> tuple[ArmedServer, str]:
    """Start a server that finds another in its way; return it and what it makes of that one."""
    lines = sum(line["event"] == "start_waits" for line in home.log())
    armed = home.servers.launch_armed(*points)
    return armed, home.await_logged("start_waits", times=lines + 1)["standing"]


def epochs_of(point: SyncPoint) -> int:
    """Return how many epochs a start has taken that gets no further than this."""
    return int(STARTS.index(point) >= STARTS.index(SyncPoint.START_EPOCH_TAKEN))


def assert_serves(home: Home, armed: ArmedServer, epoch: int) -> None:
    """Assert that it is the one server, under this epoch; its socket is bound.

    The first question waits until it answers.
    """
    home.listed()
    status = json.loads(home.command("server", "status", "--json"))
    assert (status["pid"], status["epoch"]) == (armed.server.pid, epoch)


@pytest.mark.parametrize("point", STARTS)
def test_whatever_becomes_of_the_first_start_one_serves_under_a_higher_epoch(
    home: Home, point: SyncPoint
) -> None:
    """The second start comes while the first stands at the point, and waits.

    Then the first goes on: the second leaves. Or it is killed: the second serves. Or it is
    frozen: the second leaves while the first may be starting; the next one, when the first is
    too old for that, ends it and serves.

    Case: C1, C2, C4.
    """
    going = stands_at(home, point)
    second, _ = waits(home)
    going.release()
    assert second.server.exit_code() == 4
    assert_serves(home, going, 1)
    going.server.stop()

    killed = stands_at(home, point)
    heir, _ = waits(home, SyncPoint.START_SOCKET_BOUND)
    killed.server.kill()
    assert heir.stopped_at() == SyncPoint.START_SOCKET_BOUND
    heir.release()
    epoch = 2 + epochs_of(point)
    assert_serves(home, heir, epoch)
    heir.server.stop()

    frozen = stands_at(home, point)
    frozen.server.freeze()
    second, standing = waits(home)
    assert standing == "young"
    home.servers.clock.pass_time(PATIENCE_S)
    assert second.server.exit_code() == 4
    assert frozen.server.is_alive
    home.servers.clock.pass_time(CLAIM_S)
    heir, _ = waits(home, SyncPoint.START_SOCKET_BOUND)
    home.servers.clock.pass_time(PATIENCE_S)
    assert heir.stopped_at() == SyncPoint.START_SOCKET_BOUND
    assert frozen.server.exit_code() == -signal.SIGKILL
    heir.release()
    assert_serves(home, heir, epoch + 1 + epochs_of(point))
    assert home.refused_starts() == ["AlreadyRunning"] * 2
    home.assert_completed(home.run(SHORT), ["only 1"], "done")
