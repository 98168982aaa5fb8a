"""The clock of a real server, moved by the test: sleep of the machine, steps, time that passes."""

from multiproc_tests.harness.home import Home
from runtime.sync_points import SyncPoint

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
