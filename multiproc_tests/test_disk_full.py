"""The disk takes no more: the server ends rather than guess, and the next one goes on."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from multiproc_tests.harness.home import Home
from multiproc_tests.harness.processes import BOUND_S
from multiproc_tests.harness.servers import SERVER_RUN
from multiproc_tests.harness.workflows import OUTPUT, SHELLING, STEPS, three
from pi_workflows.protocol.errors import ExitCode
from store.wal import wal_path

TOO_LITTLE: Final = 4_096
"""Bytes; no commit and no checkpoint of more than one page fits."""

ENDS: Final = (
    "the commit failed and its outcome is unknown",
    "the durable state cannot be read or written",  # A checkpoint came first.
)


def limit_files(pid: int, size: int) -> None:
    """Let no file of a process grow beyond so many bytes: its writes fail as on a full disk."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def files_limited(size: int) -> Iterator[None]:
    """Limit the files of all that is started in the block."""
    limit_files(0, size)
    yield
    limit_files(0, resource.RLIM_INFINITY)


def expect_failures(home: Home) -> None:
    """Let the log name the failures, as far as it could be written."""
    home.expected_errors.extend(line["event"] for line in home.log() if line["level"] == "error")
    assert set(home.expected_errors) <= {"operation_fault", "server_failed"}


def test_full_disk_ends_the_server_and_loses_nothing_that_was_answered(home: Home) -> None:
    """A start on the disk that is still full says what is wrong and leaves the log as it is.

    With room again the run goes on: the step whose end could not be stored runs again, under the
    same key, and no other.
    """
    server = home.servers.start()
    run_id = home.run(three(SHELLING))
    before = home.meetings.arrive("second")
    log = wal_path(home.paths.database)
    limit_files(server.pid, TOO_LITTLE)
    before.go()
    assert server.exit_code() == ExitCode.FAILED
    assert any(text in server.errors for text in ENDS), server.errors
    assert "Traceback" not in server.errors
    before.runner.await_end()
    left = log.read_bytes()
    assert left
    with files_limited(TOO_LITTLE):
        refused = home.servers.launch(SERVER_RUN)
    assert refused.exit_code() == ExitCode.FAILED
    assert "cannot be read or written: settling the log: File too large" in refused.errors
    assert "Check free space" in refused.errors
    assert log.read_bytes() == left
    home.servers.start()
    after = home.meetings.arrive("second")
    assert (after.facts["key"], after.facts["attempt"]) == (before.facts["key"], 2)
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    expect_failures(home)


def test_command_that_a_full_disk_cut_off_is_adopted_or_done_by_the_same_request(
    home: Home,
) -> None:
    """Whoever was not answered asks again and gets one run, whatever the failed commit left."""
    server = home.servers.start()
    path = home.write(three(SHELLING))
    # Python's own files beside the nodes' module are written before the disk is full.
    home.run_file(path)
    home.meetings.arrive("second").go()
    home.await_steps(home.listed()[0]["runId"], len(STEPS))
    limit_files(server.pid, TOO_LITTLE)
    starting = home.launch("run", str(path), "--project", str(home.project), "--json")
    assert server.exit_code() == ExitCode.FAILED
    home.meetings.arrive("second").go()
    printed, errors = starting.communicate(timeout=BOUND_S)
    assert starting.returncode == 0, errors
    run_id = home.listed()[0]["runId"]
    assert len(home.listed()) == 2
    assert run_id in printed
    home.assert_completed(run_id, STEPS, OUTPUT)
    expect_failures(home)
    assert home.notes() == ["first", "second began", "second ended", "third"] * 2
