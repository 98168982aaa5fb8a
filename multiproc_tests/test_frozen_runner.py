"""A runner stands still for longer than its run's lease lasts: what it does later changes nothing.

Time passes on the clock that the test shares with its servers.
"""

import signal

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import COMPUTING, OUTPUT, STEPS, three

CLAIMS = """
    SELECT lease_generation FROM events JOIN runs USING (resource_id)
     WHERE run_id = ? AND event_type = 'lease.claimed' ORDER BY event_seq
"""
COMPLETIONS = "SELECT count(*) FROM events WHERE event_type = 'run_completed'"
ENDS = "SELECT generation, status FROM run_workers WHERE run_id = ? ORDER BY generation"
RUN_ROWS = """
    SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM node_attempts),
           (SELECT count(*) FROM blobs), (SELECT sum(revision) FROM resources)
"""

MEETS_TWICE = """
@wf.compute()
def second(ctx: Ctx) -> str:
    again = FOLDER / "again"
    place = "second again" if again.exists() else "second"
    again.touch()
    meet(place)
    return "second"
"""
"""Meets at another place when it runs again, since two of it may be alive at once."""


def test_runner_frozen_past_its_lease_is_replaced_and_has_nothing_left_to_write_with(
    home: Home,
) -> None:
    """It is ended before its run is claimed again, frozen as it is; the loss is no failure.

    Case: A42, C54.
    """
    home.servers.start_armed()
    run_id = home.run(three(COMPUTING))
    before = home.meetings.arrive("second")
    before.runner.send(signal.SIGSTOP)
    home.servers.clock.step_wall(60)
    after = home.arrive_later("second")
    before.assert_gone()
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.database.column(CLAIMS, run_id) == [1, 2]
    assert home.database.rows(ENDS, run_id) == [(1, "claimLost"), (2, "exited")]
    assert home.database.column(COMPLETIONS) == [1]


def test_late_result_of_a_thawed_runner_and_its_replaced_server_is_refused(home: Home) -> None:
    """Both freeze in the middle of a node, and another server takes the database over.

    When they thaw, the node's result reaches a server that still believes to own the run: the
    epoch fence refuses it, and both end by themselves. While they stand, nobody can start: a
    server that can be neither proven nor ended has the file open.

    Case: A42, C33, D14.
    """
    replaced = home.servers.start_armed()
    run_id = home.run(three(MEETS_TWICE))
    before = home.meetings.arrive("second")
    home.freeze_between_writes(replaced.server)
    before.runner.send(signal.SIGSTOP)
    before.go()
    home.database.take_over()
    for path in (home.paths.lock, home.paths.flock, home.paths.registry):
        path.unlink()
    home.servers.clock.pass_time(60)
    refused = home.servers.launch_armed().server
    assert refused.exit_code() == 1
    assert "End whatever else has state.sqlite open" in refused.errors
    stored = home.database.rows(RUN_ROWS)
    replaced.server.thaw()
    before.runner.send(signal.SIGCONT)
    assert replaced.server.exit_code() == 1
    assert "another server has taken over" in replaced.server.errors
    before.await_end()
    assert home.notes()[-1] == "second ended"
    assert home.database.rows(RUN_ROWS) == stored
    home.servers.start_armed()
    home.meetings.arrive("second again").go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.database.column(CLAIMS, run_id) == [1, 3]
    assert home.database.column(COMPLETIONS) == [1]
    home.expected_errors.extend(["server_failed", "server_failed"])
