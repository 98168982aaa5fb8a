"""A start that is killed between any two operations on the database's files."""

import json
import select
import signal
import sys

import pytest

from multiproc_tests.harness import dying_server
from multiproc_tests.harness.home import Home
from multiproc_tests.harness.processes import BOUND_S, started_under
from multiproc_tests.harness.servers import RunningServer
from multiproc_tests.harness.shared_clock import LOOK_EVERY_S
from multiproc_tests.harness.workflows import OUTPUT, SHELLING, SHORT, STEPS, three
from store.opening import verify_state_file


@pytest.mark.parametrize("after_a_crash", [False, True], ids=["new home", "after a crash"])
def test_start_killed_before_each_file_operation_leaves_nothing_or_a_whole_database(
    home: Home,
    after_a_crash: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Creation, or making the dead server's log durable; what was acknowledged stays.

    Case: D21.
    """
    run_id = ""
    if after_a_crash:
        killed = home.servers.start()
        run_id = home.run(three(SHELLING))
        home.meetings.arrive("second")
        killed.kill()
    operations = 1
    while not serves(home, start_dying_at(home, operations)):
        assert not home.paths.lock.exists() or json.loads(home.paths.lock.read_text())
        if home.paths.database.exists() and not after_a_crash:
            verify_state_file(home.paths.database)
        operations += 1
    assert operations > (4 if after_a_crash else 5)
    if not after_a_crash:
        run_id = home.run(three(SHELLING))
    home.meetings.arrive("second").go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    beside = {path.name for path in home.paths.state_dir.iterdir()}
    assert beside == {"state.sqlite", "state.sqlite-wal", "state.sqlite-shm", "host"}
    home.assert_completed(home.run(SHORT), ["only 1"], "done")


def start_dying_at(home: Home, operation: int) -> RunningServer:
    command = (sys.executable, "-P", str(dying_server.__file__), str(operation))
    return home.servers.launch(command)


def serves(home: Home, server: RunningServer) -> bool:
    """Wait until it serves (True) or has killed itself and left no process (False)."""
    before = ready_times(home)
    for _ in range(int(BOUND_S / LOOK_EVERY_S)):
        code = server.poll()
        if code is not None:
            assert code == -signal.SIGKILL, server.errors
            assert started_under(home.folder) == {}
            return False
        if ready_times(home) > before:
            return True
        select.select([], [], [], LOOK_EVERY_S)
    raise AssertionError("it neither died nor served")


def ready_times(home: Home) -> int:
    return [line["event"] for line in home.log()].count("server_ready")
