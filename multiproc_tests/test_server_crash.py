"""The server ends, in order or not: nothing of it stays, its successor goes on with its runs."""

import json
import select

import pytest

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.processes import BOUND_S, marker_of
from multiproc_tests.harness.workflows import (
    ACTING,
    COMPUTING,
    OUTPUT,
    SHELLING,
    STEPS,
    three,
)
from runtime.sync_points import SyncPoint

RAN_TWICE = ["first", "second began", "second began", "second ended", "third"]
KINDS = pytest.mark.parametrize(
    "second", [COMPUTING, SHELLING, ACTING], ids=["compute", "shell", "action"]
)
GENERATION = "SELECT generation FROM leases JOIN runs USING (resource_id)"


@KINDS
def test_server_killed_takes_its_runner_along_and_the_next_one_finishes_the_run(
    home: Home, second: str
) -> None:
    """The runner ends by itself, its shell with it, before there is another server.

    Case: B43, C4.
    """
    killed = home.servers.start()
    run_id = home.run(three(second))
    before = home.meetings.arrive("second")
    killed.kill()
    before.await_end()
    home.servers.start()
    after = home.meetings.arrive("second")
    assert after.facts.get("attempt", 2) == 2
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == RAN_TWICE
    assert json.loads(home.command("server", "status", "--json"))["epoch"] == 2


def test_orphaned_shell_is_ended_by_exact_identity_before_its_node_runs_again(home: Home) -> None:
    """Server and runner are killed at once, so nobody is left to end the shell.

    The server stands still meanwhile, for it would end the shell of a runner that it sees die.
    A stranger that inherited the marker but left the session is left alone, and so is one whose
    pid the registry names with the start of another process.

    Case: C9.
    """
    armed = home.servers.start_armed(SyncPoint.COMMAND_BEFORE_BEGIN)
    starting = home.launch("run", str(home.write(three(SHELLING))), "--detach")
    armed.serve_until_arrival(home.meetings)
    before = home.meetings.arrive("second")
    run_id = starting.communicate()[0].strip()
    marked = home.launch_stranger(PI_WORKFLOWS_CHILD=marker_of(before.process.pid))
    named = home.launch_stranger()
    asking = home.launch("cancel", "no-such-run")
    armed.stopped_at()
    asking.kill()
    asking.communicate()
    before.runner.kill()
    armed.server.kill()
    assert before.process.is_alive
    _name_in_registry(home, named.pid)
    home.servers.start()
    after = home.meetings.arrive("second")
    before.assert_gone()
    assert (marked.is_alive, named.is_alive) == (True, True)
    marked.kill()
    named.kill()
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == RAN_TWICE


def test_watch_survives_the_death_of_the_server_and_starts_the_next_one(home: Home) -> None:
    """Nobody but the watching command is there to do it."""
    killed = home.servers.start()
    run_id = home.run(three(SHELLING))
    before = home.meetings.arrive("second")
    watching = home.launch("watch", run_id, "--json")
    assert watching.stdout is not None
    assert select.select([watching.stdout], [], [], BOUND_S)[0], "no view came"
    killed.kill()
    before.await_end()
    home.meetings.arrive("second").go()
    views, errors = watching.communicate(timeout=BOUND_S)
    assert watching.returncode == 0, errors
    assert json.loads(views.splitlines()[-1])["finalOutput"] == OUTPUT
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == RAN_TWICE


@pytest.mark.parametrize("second", [COMPUTING, SHELLING], ids=["compute", "shell"])
def test_sigterm_parks_the_run_and_leaves_nothing_and_the_next_server_finishes_it(
    home: Home, second: str
) -> None:
    """Claim, socket and lock are gone; the generation is kept by the release and grows after it.

    Case: A31, C4, C12, C52.
    """
    server = home.servers.start()
    run_id = home.run(three(second))
    before = home.meetings.arrive("second")
    assert home.paths.lock.exists()
    assert home.database.column(GENERATION) == [1]
    server.stop()
    before.assert_gone()
    assert not home.paths.socket.exists()
    assert not home.paths.lock.exists()
    home.database.assert_at_rest()
    parked = "SELECT status, error_code FROM run_queue"
    assert home.database.rows(parked) == [("parked", "handoff")]
    assert home.database.column(GENERATION) == [1]
    home.servers.start()
    after = home.meetings.arrive("second")
    assert home.database.column(GENERATION) == [2]
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == RAN_TWICE
    assert json.loads(home.command("server", "status", "--json"))["epoch"] == 2


def _name_in_registry(home: Home, pid: int) -> None:
    """Let the registry name a process with the start of another, as after a reuse of its pid."""
    registry = json.loads(home.paths.registry.read_text())
    (child,) = [one for one in registry["children"] if one["marker"].startswith("runner-")]
    registry["children"].append({**child, "pid": pid})
    canonical = json.dumps(registry, sort_keys=True, separators=(",", ":"))
    home.paths.registry.write_text(canonical + "\n")


@pytest.mark.parametrize("point", [SyncPoint.START_LOCK_HELD, SyncPoint.START_EPOCH_TAKEN])
def test_sigterm_in_the_middle_of_a_start_undoes_it(home: Home, point: SyncPoint) -> None:
    """An orderly end: no lock, no socket, no claim, no child.

    Case: C12, C13.
    """
    starting = home.servers.launch_armed(point)
    assert starting.stopped_at() == point
    starting.server.process.terminate()
    starting.release()
    assert starting.server.exit_code() == 0
    assert starting.server.errors == ""
    assert home.await_logged("start_abandoned")["level"] == "info"
    assert not home.paths.lock.exists()
    home.database.assert_at_rest()
    home.servers.start()
    home.assert_verified()


def test_sigterm_while_another_server_is_waited_for_ends_the_start_at_once(home: Home) -> None:
    """Case: C12."""
    holding = home.servers.launch_armed(SyncPoint.START_LOCK_HELD)
    assert holding.stopped_at() == SyncPoint.START_LOCK_HELD
    waiting = home.servers.launch_armed().server
    home.await_logged("start_waits")
    waiting.stop()
    assert home.paths.lock.exists()
    holding.release()
    home.await_logged("server_ready")
