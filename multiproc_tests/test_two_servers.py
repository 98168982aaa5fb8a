"""One state has one server: whoever comes second goes away and disturbs nobody."""

import json

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.servers import SERVER_RUN
from multiproc_tests.harness.workflows import COMPUTING, OUTPUT, SHELLING, STEPS, three


@pytest.mark.parametrize("crashed_before", [False, True], ids=["new home", "after a crash"])
def test_of_servers_started_at_the_same_instant_one_serves_and_the_others_leave(
    home: Home,
    crashed_before: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Case: C1."""
    run_id = ""
    if crashed_before:
        killed = home.servers.start()
        run_id = home.run(three(SHELLING))
        home.meetings.arrive("second")
        killed.kill()
    racers = home.servers.race(3)
    losers = home.servers.await_ended(racers, 2)
    (winner,) = [racer for racer in racers if racer not in losers]
    assert [loser.exit_code() for loser in losers] == [4, 4]
    status = json.loads(home.command("server", "status", "--json"))
    assert (status["pid"], status["epoch"]) == (winner.pid, 1 + crashed_before)
    assert all(f"{winner.pid}" in loser.errors for loser in losers)
    assert home.refused_starts() == ["AlreadyRunning"] * 2
    if not crashed_before:
        run_id = home.run(three(SHELLING))
    home.meetings.arrive("second").go()
    home.assert_completed(run_id, STEPS, OUTPUT)


def test_second_server_leaves_and_does_not_touch_the_first(home: Home) -> None:
    """Case: C1."""
    first = home.servers.start()
    run_id = home.run(three(COMPUTING))
    node = home.meetings.arrive("second")
    before = json.loads(home.command("server", "status", "--json"))
    lock = home.paths.lock.read_bytes()
    second = home.servers.launch(SERVER_RUN)
    assert second.exit_code() == 4
    assert f"{first.pid}" in second.errors
    assert home.refused_starts() == ["AlreadyRunning"]
    after = json.loads(home.command("server", "status", "--json"))
    assert (after["pid"], after["epoch"]) == (before["pid"], before["epoch"]) == (first.pid, 1)
    assert home.paths.lock.read_bytes() == lock
    assert node.process.is_alive
    node.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == ["first", "second began", "second ended", "third"]


def test_start_that_fails_on_foreign_state_changes_no_byte_and_leaves_no_lock(home: Home) -> None:
    """Case: C13."""
    home.paths.state_dir.mkdir(parents=True, mode=0o700)
    home.paths.database.write_bytes(b"somebody else's file, not a database" * 100)
    before = home.paths.database.read_bytes()
    refused = home.servers.launch(SERVER_RUN)
    assert refused.exit_code() == 5
    assert "state.sqlite" in refused.errors
    assert refused.errors.startswith("pi-workflows: ")
    assert "Traceback" not in refused.errors
    assert home.refused_starts() == ["StateIncompatibleError"]
    assert home.paths.database.read_bytes() == before
    assert not home.paths.socket.exists()
    assert not home.paths.lock.exists()
    home.paths.database.unlink()
    home.servers.start()
