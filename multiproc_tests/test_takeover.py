"""A server that does not answer: when it is ended, when it is left alone, what it can still do.

Time passes on the clock that the test shares with its servers.
"""

import json
import signal
from pathlib import Path

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.servers import ArmedServer
from multiproc_tests.harness.workflows import OUTPUT, SHELLING, SHORT, STEPS, three
from runtime.sync_points import SyncPoint

AFTER_REPLY = SyncPoint.COMMAND_AFTER_REPLY
CLAIM = "SELECT * FROM workflow_host_state"
STORED = """
    SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM events),
           (SELECT count(*) FROM host_commands), (SELECT sum(revision) FROM resources)
"""


def old_server(home: Home) -> ArmedServer:
    """Start a server and let it live for longer than a claim lasts."""
    armed = home.servers.start_armed(AFTER_REPLY)
    for _ in range(4):
        assert armed.stopped_later_at() == AFTER_REPLY
        armed.release()
    return armed


def database_files(home: Home) -> list[Path]:
    """Return the file and its log."""
    return [home.paths.database, home.paths.database.with_name("state.sqlite-wal")]


@pytest.mark.parametrize("lock_removed", [False, True], ids=["named", "its lock files removed"])
def test_frozen_server_is_left_alone_while_its_claim_lives_then_ended_and_replaced(
    home: Home,
    lock_removed: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Also when an operator has removed the lock: the claim names it as exactly.

    Case: C2, D14.
    """
    frozen = old_server(home)
    frozen.close()
    run_id = home.run(three(SHELLING))
    before = home.meetings.arrive("second")
    frozen.server.freeze()
    if lock_removed:
        home.paths.lock.unlink()
        home.paths.flock.unlink()
    else:
        refused = home.servers.launch_armed().server
        assert home.await_logged("start_waits")["standing"] == "claiming"
        home.servers.clock.pass_time(11)
        assert refused.exit_code() == 4
        assert f"(PID {frozen.server.pid}) does not answer. Its claim lapses in" in refused.errors
        assert frozen.server.is_alive
    home.servers.clock.pass_time(30)
    home.servers.start_armed()
    assert frozen.server.exit_code() == -signal.SIGKILL
    before.assert_gone()
    after = home.meetings.arrive("second")
    assert json.loads(home.command("server", "status", "--json"))["epoch"] == 2
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)


def test_server_frozen_in_its_start_is_ended_once_it_is_old(home: Home) -> None:
    """It has no claim yet; a start that comes soon after it only gives way.

    Case: C2.
    """
    frozen = home.servers.launch_armed(SyncPoint.START_LOCK_HELD)
    assert frozen.stopped_at() == SyncPoint.START_LOCK_HELD
    refused = home.servers.launch_armed().server
    assert home.await_logged("start_waits")["standing"] == "young"
    home.servers.clock.pass_time(11)
    assert refused.exit_code() == 4
    assert f"(PID {frozen.server.pid}) is starting" in refused.errors
    home.servers.clock.pass_time(30)
    successor = home.servers.launch_armed(SyncPoint.START_SOCKET_BOUND)
    assert home.await_logged("start_waits", times=2)["standing"] == "claimless"
    home.servers.clock.pass_time(11)
    assert successor.stopped_at() == SyncPoint.START_SOCKET_BOUND
    assert frozen.server.exit_code() == -signal.SIGKILL
    successor.release()
    home.assert_completed(home.run(SHORT), ["only 1"], "done")


def test_thawed_server_that_was_replaced_ends_by_itself_and_has_written_nothing(
    home: Home,
) -> None:
    """It stands right before it begins to write, with a request in hand.

    Case: C5, D14.
    """
    armed = home.servers.start_armed(SyncPoint.COMMAND_BEFORE_BEGIN)
    asking = home.launch("run", str(home.write(SHORT)), "--detach", "--json")
    assert armed.stopped_at() == SyncPoint.COMMAND_BEFORE_BEGIN
    armed.server.freeze()
    home.database.take_over()
    before = home.database.rows(CLAIM), home.database.rows(STORED)
    armed.server.thaw()
    armed.release()
    assert armed.server.exit_code() == 1
    assert (home.database.rows(CLAIM), home.database.rows(STORED)) == before
    assert "another server has taken over" in armed.server.errors
    assert not home.paths.lock.exists()
    home.expected_errors.extend(["operation_fault", "server_failed"])
    started, errors = asking.communicate()
    assert asking.returncode == 0, errors
    home.assert_completed(json.loads(started)["runId"], ["only 1"], "done")


def test_no_server_starts_while_somebody_unprovable_has_the_database_open(home: Home) -> None:
    """Making its log durable would lose what it commits later; so nothing is touched.

    The flock is free, the claim has lapsed, and nobody knows whose process it is.

    Case: D14.
    """
    frozen = home.servers.start_armed()
    run_id = home.run(SHORT)
    home.await_status(run_id, "completed")
    home.freeze_between_writes(frozen.server)
    home.paths.lock.unlink()
    home.paths.flock.unlink()
    home.database.take_over()
    before = [path.read_bytes() for path in database_files(home)]
    refused = home.servers.launch_armed(SyncPoint.START_LOCK_HELD)
    assert refused.stopped_at() == SyncPoint.START_LOCK_HELD
    refused.release()
    assert refused.server.exit_code() == 1
    assert "End whatever else has state.sqlite open" in refused.server.errors
    assert [path.read_bytes() for path in database_files(home)] == before
    assert not home.paths.lock.exists()
    frozen.server.thaw()
    home.servers.clock.pass_time(11)
    assert frozen.server.exit_code() == 1
    home.expected_errors.extend(["server_failed", "server_failed"])
    home.servers.start()
    assert json.loads(home.command("server", "status", "--json"))["epoch"] == 3
    home.assert_completed(run_id, ["only 1"], "done")


def test_lock_of_a_dead_server_whose_pid_a_stranger_has_is_taken_at_once(home: Home) -> None:
    """The stranger is neither asked nor signalled, and neither is who listens at the socket.

    Case: C3, C9.
    """
    killed = home.servers.start()
    killed.kill()
    stranger = home.launch_stranger()
    lock = json.loads(home.paths.lock.read_text())
    lock["pid"] = stranger.pid
    home.paths.lock.write_text(json.dumps(lock, sort_keys=True, separators=(",", ":")) + "\n")
    home.servers.start()
    assert stranger.is_alive
    stranger.kill()
    assert json.loads(home.command("server", "status", "--json"))["epoch"] == 2
