"""A runner is killed: the run goes on from its last commit, in a new runner, and ends right."""

from functools import partial

import pytest

from multiproc_tests.harness.database import ORDER
from multiproc_tests.harness.home import Home, View
from multiproc_tests.harness.processes import environment_of
from multiproc_tests.harness.workflows import (
    ACTING,
    COMPUTING,
    OUTPUT,
    SHELLING,
    SHORT,
    STEPS,
    three,
)
from runtime.sync_points import SyncPoint

RAN_TWICE = ["first", "second began", "second began", "second ended", "third"]

FIRST_MEETS = """
@wf.compute()
def first() -> str:
    return meet("first")


@wf.compute()
def second() -> str:
    return meet("second")


wf.edge(first, second)
workflow = wf.build(start=first)
"""

LIVING = "SELECT pid FROM run_workers WHERE finished_at IS NULL AND pid IS NOT NULL"

COUNTING = """
@wf.compute()
def count(ctx: Ctx) -> int:
    return ctx.visit

@wf.compute()
def judge(ctx: Ctx) -> dict:
    return {"enough": ctx.output(count) >= 40}

@wf.compute()
def end(ctx: Ctx) -> int:
    meet("end")
    return ctx.output(count)

wf.edge(count, judge)
wf.switch(judge, "$.enough", {True: end, False: count})
workflow = wf.build(start=count)
"""

UNMARKED = SHELLING.replace(
    """    return Command(**shell_meeting("second", **told(ctx)))""",
    """    meeting = shell_meeting("second", **told(ctx))
    return Command("env", ["-i", "/bin/sh", "-c", meeting["command"], *meeting["args"]])""",
)
"""The shell node, whose shell and program have nothing of the runner's environment."""

FORKING = """
import ctypes
import os
import signal

@wf.compute()
def second(ctx: Ctx) -> str:
    forked = FORK
    if forked == 0:
        signal.pause()
    return meet("second", visit=ctx.visit, forked=forked)
"""

DYING = """
import os
import signal
from pathlib import Path

@wf.compute()
def first() -> str:
    if Path("mended").exists():
        return "mended"
    note("died")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"

workflow = wf.build(start=first)
"""


def test_runner_killed_in_a_compute_node_runs_that_node_again_and_no_other(home: Home) -> None:
    """Case: B43, C42."""
    home.servers.start()
    run_id = home.run(three(COMPUTING))
    before = home.meetings.arrive("second")
    before.runner.kill()
    after = home.meetings.arrive("second")
    assert after.runner.pid != before.runner.pid
    assert after.facts["visit"] == before.facts["visit"] == 1
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == RAN_TWICE


@pytest.mark.parametrize("second", [SHELLING, ACTING], ids=["shell", "action"])
def test_runner_killed_in_an_idempotent_effect_tries_the_same_effect_again(
    home: Home, second: str
) -> None:
    """What the dead runner had started is gone before the node runs again.

    Case: B34, C42.
    """
    home.servers.start()
    run_id = home.run(three(second))
    before = home.meetings.arrive("second")
    before.runner.kill()
    after = home.meetings.arrive("second")
    before.assert_gone()
    assert [before.facts["attempt"], after.facts["attempt"]] == [1, 2]
    for same in ("effectId", "key", "visit"):
        assert before.facts[same] == after.facts[same]
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == RAN_TWICE
    numbers = home.database.column("SELECT attempt_number FROM effect_attempts ORDER BY 1")
    assert numbers[-2:] == [1, 2]


def test_tool_that_cleared_its_environment_is_gone_before_its_node_runs_again(home: Home) -> None:
    """Nothing but its session says whose it is.

    Case: B34, C42.
    """
    home.servers.start()
    run_id = home.run(three(UNMARKED))
    before = home.meetings.arrive("second")
    # Its shell has told it where it is.
    assert environment_of(before.process.pid) == [f"PWD={home.project}".encode()]
    before.runner.kill()
    after = home.meetings.arrive("second")
    before.assert_gone()
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == RAN_TWICE


@pytest.mark.parametrize("fork", ["os.fork()", "ctypes.CDLL(None).fork()"], ids=["python", "c"])
def test_child_that_a_node_has_forked_does_not_hold_up_the_run_of_a_dead_runner(
    home: Home, fork: str
) -> None:
    """It lives as long as it can, and one that C has forked holds the runner's channel, too.

    Case: B43, C42.
    """
    home.servers.start()
    run_id = home.run(three(FORKING.replace("FORK", fork)))
    before = home.meetings.arrive("second")
    forked = home.watch(before.facts["forked"])
    before.runner.kill()
    after = home.meetings.arrive("second")
    assert not forked.is_alive
    after.go()
    home.assert_completed(run_id, STEPS, OUTPUT)
    assert home.notes() == RAN_TWICE


@pytest.mark.parametrize("killed", ["runner", "server"])
def test_kill_between_two_nodes_goes_on_with_the_next_one(home: Home, killed: str) -> None:
    """The first node's commit has returned, the second one's code has not begun.

    Case: B43.
    """
    armed = home.servers.start_armed(SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY)
    command = home.launch("run", str(home.write(FIRST_MEETS)), "--detach")
    armed.serve_until_arrival(home.meetings)
    first = home.meetings.arrive("first")
    run_id = command.communicate()[0].strip()
    first.go()
    armed.stopped_at()
    while not home.database.column(ORDER, run_id):
        armed.release()
        armed.stopped_at()
    if killed == "runner":
        first.runner.kill()
        armed.close()
    else:
        armed.server.kill()
        home.servers.start()
    second = home.meetings.arrive("second")
    first.assert_gone()
    second.go()
    home.assert_completed(run_id, ["first 1", "second 1"], "second")
    assert home.notes() == ["first began", "first ended", "second began", "second ended"]


def test_runner_killed_wherever_it_is_loses_no_step_and_repeats_none(home: Home) -> None:
    """Case: B43, C42."""
    home.servers.start()
    run_id = home.run(COUNTING)
    killed: list[int] = []
    for wanted in (5, 40):
        home.await_view(run_id, partial(_works, home, wanted, killed))
        (pid,) = home.database.column(LIVING)
        killed.append(pid)
        home.watch(pid).kill()
    end = home.meetings.arrive("end")
    if not end.process.is_alive:  # The last kill met it there.
        end = home.meetings.arrive("end")
    end.go()
    visits = [f"{node} {visit}" for visit in range(1, 41) for node in ("count", "judge")]
    home.assert_completed(run_id, [*visits, "end 1"], 40)


def _works(home: Home, steps: int, killed: list[int], view: View) -> bool:
    """Say whether the run has so many steps and a runner that nobody has killed yet."""
    return view["steps"]["total"] >= steps and home.database.column(LIVING) not in ([], killed)


def test_runner_that_dies_three_times_without_a_step_is_not_started_again(home: Home) -> None:
    """Case: A86, B46, C41."""
    home.servers.start()
    run_id = home.run(DYING)
    view = home.await_view(run_id, lambda view: "reason" in view["display"])
    assert view["display"]["status"] == "queued"
    assert "died 3 times" in view["display"]["reason"]
    home.servers.alive[0].stop()
    home.servers.start()
    home.assert_completed(home.run(SHORT), ["only 1"], "done")
    assert home.notes() == ["died"] * 3 + ["only"]
    parked = "SELECT status || ' ' || error_code FROM run_queue WHERE run_id = ?"
    assert home.database.column(parked, run_id) == ["parked runnerNoProgress"]
    told = "SELECT count(*) FROM events WHERE event_type = 'run.worker_no_progress'"
    assert home.database.column(told) == [1]


def test_explicit_resume_gives_a_dying_runner_one_more_try_and_a_mended_one_its_end(
    home: Home,
) -> None:
    """The fourth death parks it again at once; what killed the runner is mended outside the file.

    Case: A86, B46, C41.
    """
    home.servers.start()
    run_id = home.run(DYING)
    home.await_view(run_id, lambda view: "reason" in view["display"])
    assert home.notes() == ["died"] * 3
    home.command("resume", run_id, exit_code=1)
    view = home.await_view(run_id, lambda view: "reason" in view["display"])
    assert "died 4 times" in view["display"]["reason"]
    assert home.notes() == ["died"] * 4
    (home.project / "mended").touch()
    assert home.command("resume", run_id) == "mended\n"
    home.assert_completed(run_id, ["first 1"], "mended")
    told = "SELECT count(*) FROM events WHERE event_type = 'run.worker_no_progress'"
    assert home.database.column(told) == [2]
