"""What servers, runs and commands write below a home: what is documented, and nothing else."""

from typing import Final

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.workflows import OUTPUT, SHELLING, STEPS, three

DIRECTORIES: Final = {
    ".pi",
    ".pi/agent",
    ".pi/agent/workflows",
    ".pi/agent/workflows/host",
    ".pi/agent/workflows/host/logs",
}
KEPT: Final = {
    ".pi/agent/workflows/state.sqlite",
    ".pi/agent/workflows/host/host.children.json",
    ".pi/agent/workflows/host/host.lock",
    ".pi/agent/workflows/host/logs/server.log",
    ".pi/agent/workflows/host/logs/server.output",
}
WHILE_SERVING: Final = {
    ".pi/agent/workflows/state.sqlite-shm",
    ".pi/agent/workflows/state.sqlite-wal",
    ".pi/agent/workflows/host/host.lock.json",
    ".pi/agent/workflows/host/host.sock",
}


def written(home: Home) -> set[str]:
    """Return every file and directory below the home, but the test's own."""
    own = {home.project, *home.folder.glob("server-*")}
    return {
        str(path.relative_to(home.folder))
        for path in home.folder.rglob("*")
        if path not in own and home.project not in path.parents
    }


def test_nothing_is_written_but_the_database_and_the_files_of_the_server(home: Home) -> None:
    """No directory of a run, no file of a node, no place that state had in an earlier design.

    Case: D15.
    """
    home.write(three(SHELLING))
    before = {path.name for path in home.project.iterdir()}
    server = home.servers.start()
    run_id = home.run(three(SHELLING))
    home.meetings.arrive("second").go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    cancelled = home.run(three(SHELLING))
    home.meetings.arrive("second")
    home.command("cancel", cancelled, "--reason", "enough")
    home.command("list")
    home.command("state", "status")
    assert written(home) <= DIRECTORIES | KEPT | WHILE_SERVING
    assert written(home) >= WHILE_SERVING
    server.stop()
    assert written(home) <= DIRECTORIES | KEPT
    # What the nodes themselves have written, and what Python keeps beside a module of theirs.
    added = {path.name for path in home.project.iterdir()} - before
    assert added <= {"__pycache__", "notes", "second", "locks"}
    assert not any(path.exists() for path in home.paths.older_state)
