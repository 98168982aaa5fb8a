"""The clock of a real server, moved by the test: sleep of the machine, steps, time that passes."""

import json

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import OUTPUT, SHELLING, STEPS, three
from runtime.sync_points import SyncPoint

GENERATION = "SELECT generation FROM leases JOIN runs USING (resource_id)"
WORKERS = "SELECT status FROM run_workers ORDER BY started_at, finished_at IS NULL"
CLAIM = "SELECT epoch, heartbeat_at, expires_at FROM workflow_host_state"


def test_server_lives_by_the_shared_clock(home: Home) -> None:
    """Its claim is renewed every ten seconds, of which none has to be waited for."""
    armed = home.servers.start_armed(SyncPoint.COMMAND_AFTER_REPLY)
    ((epoch, before, _),) = home.database.rows(CLAIM)
    assert epoch == 1
    for _ in range(5):
        assert armed.stopped_later_at() == SyncPoint.COMMAND_AFTER_REPLY
        ((epoch, heartbeat_at, expires_at),) = home.database.rows(CLAIM)
        assert (epoch, expires_at) == (1, heartbeat_at + 30_000)
        assert before + 10_000 <= heartbeat_at <= home.servers.clock.wall_ms()
        before = heartbeat_at
        armed.release()
    armed.close()


@pytest.mark.parametrize("monotonic", ["stands still", "goes on"])
def test_machine_that_slept_for_ten_minutes_goes_on_with_the_same_server_and_new_claims(
    home: Home, monotonic: str
) -> None:
    """The shell of the run that lost its lease has ended before there is another.

    Case: C5, C55.
    """
    home.servers.start_armed()
    run_id = home.run(three(SHELLING))
    before = home.meetings.arrive("second")
    assert home.database.column(GENERATION) == [1]
    if monotonic == "stands still":
        home.servers.clock.step_wall(600)
        home.servers.clock.pass_time(10)
    else:
        home.servers.clock.pass_time(610)
    after = home.meetings.arrive("second")
    before.assert_gone()
    assert home.database.column(GENERATION) == [2]
    assert home.database.column(WORKERS) == ["claimLost", "running"]
    assert json.loads(home.command("server", "status", "--json"))["epoch"] == 1
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)


def test_wall_clock_set_back_by_an_hour_costs_nothing(home: Home) -> None:
    """What was promised until an instant holds until that instant."""
    home.servers.start_armed()
    run_id = home.run(three(SHELLING))
    node = home.meetings.arrive("second")
    home.servers.clock.step_wall(-3_600)
    home.servers.clock.pass_time(25)
    home.await_logged("woke")
    home.servers.clock.pass_time(10)
    assert node.process.is_alive
    node.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.database.column(WORKERS) == ["exited"]
    assert home.notes() == ["first", "second began", "second ended", "third"]
