"""Behaviour of a run's owner when a child dies, a claim is lost, the server stops."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import errno
from typing import TYPE_CHECKING, Final, cast

import apsw
import pytest
import trio
import trio.testing

from pi_workflows.protocol.ids import RunId
from pi_workflows.protocol.states import AttemptStatus, QueueStatus, RunStatus
from runtime.process import ExitStatus
from store import attempts

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock

WORKERS: Final = "SELECT status, exit_code, signal, finished_at IS NOT NULL FROM run_workers"
LEASE: Final = """
    SELECT l.generation, l.owner_id, l.expires_at
      FROM leases AS l JOIN resources AS r USING (resource_id)
     WHERE r.resource_type = 'run' AND r.aggregate_key = :run_id
"""
CRASH: Final = ExitStatus(1, None)


async def crash_in_first(child: "RunnerEnd") -> ExitStatus:
    await child.ready()
    await child.advance(child.started("first"))
    return CRASH


async def crash_after_first(child: "RunnerEnd") -> ExitStatus:
    await child.ready()
    await child.advance(child.started("first"))
    await child.advance(child.finished("first"), child.started("second"))
    return CRASH


def lease(bench: "Bench", run_id: RunId) -> tuple[object, ...]:
    (row,) = bench.rows(LEASE, {"run_id": run_id})
    return row


async def test_child_that_says_no_hello_in_15_s_is_timed_out_and_its_run_parked(
    autojump_clock: Clock,
    bench: "Bench",
) -> None:
    """Case: C32."""
    bench.children(bench.hanging)
    with trio.fail_after(60):
        run_id = await bench.create()
        began_at = trio.current_time()
        assert await bench.owner(run_id).run()
        assert 15 <= trio.current_time() - began_at < 16
    assert bench.rows(WORKERS) == [("timedOut", None, "15", 1)]
    assert bench.run_row(run_id).status is RunStatus.RUNNING
    queued = bench.queue_row(run_id)
    assert (queued.status, queued.error_code) == (QueueStatus.PARKED, "runnerTimedOut")


async def test_child_that_is_silent_far_beyond_its_deadline_is_ended_as_timed_out(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Its code holds the interpreter, so its own thread cannot keep the deadline."""
    silent_from: list[float] = []

    async def hold(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        attempt = child.attempt("first")
        budget: JsonObject = {"type": "setDeadline", "attemptId": attempt, "timeoutMs": 5_000}
        await child.advance(child.started("first"), budget)
        silent_from.append(trio.current_time())
        return await child.hang()

    bench.children(hold, bench.working)
    with trio.fail_after(3_000):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
        assert 125 <= trio.current_time() - silent_from[0] < 130
        queued = bench.queue_row(run_id)
        assert (queued.status, queued.error_code) == (QueueStatus.PARKED, "runnerTimedOut")
        assert queued.consecutive_errors == 1
        await trio.sleep(1)
        assert await bench.owner(run_id).run()
    assert bench.rows(WORKERS)[0][0] == "timedOut"
    assert bench.run_row(run_id).status is RunStatus.COMPLETED


async def test_code_without_a_deadline_may_be_silent_for_a_day(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    async def think(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        attempt = child.attempt("first")
        await child.advance(
            child.started("first"),
            {"type": "setDeadline", "attemptId": attempt, "timeoutMs": 0},
        )
        await trio.sleep(25 * 3_600)
        await child.advance(child.finished("first"), child.started("second"))
        await child.advance(child.finished("second"), {"type": "finishRun", "status": "completed"})
        return await child.leave("finished")

    bench.children(think)
    run_id = await bench.create()
    assert await bench.owner(run_id).run()
    assert bench.run_row(run_id).status is RunStatus.COMPLETED
    assert bench.rows(WORKERS) == [("exited", 0, None, 1)]


async def test_signal_that_goes_to_the_child_and_to_its_server_is_a_handoff(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """The end of a login stops all at once, and a child may be the faster one."""

    async def stop_at_once(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        return await child.leave("stopped")

    bench.children(stop_at_once)
    with trio.fail_after(60):
        run_id = await bench.create()
        with trio.move_on_after(0.5) as stop:
            await bench.owner(run_id).run()
    assert stop.cancelled_caught
    assert bench.rows(WORKERS) == [("cancelled", 0, None, 1)]
    queued = bench.queue_row(run_id)
    assert (queued.error_code, queued.consecutive_errors) == ("handoff", 0)


async def test_crash_after_progress_is_taken_up_again_at_the_next_node(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """The step that was recorded is not run again, the interrupted one is.

    Case: C42.
    """
    commands: list[JsonObject] = []

    async def go_on(child: "RunnerEnd") -> ExitStatus:
        commands.append(await child.ready())
        reply = await child.ask("run.state", {"fromNode": 0})
        commands.append(cast("JsonObject", reply["result"]))
        await child.advance(child.started("second"))
        await child.advance(child.finished("second"), {"type": "finishRun", "status": "completed"})
        return await child.leave("finished")

    bench.children(crash_after_first, go_on)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
        queued = bench.queue_row(run_id)
        assert (queued.error_code, queued.consecutive_errors) == ("runnerCrashed", 0)
        assert not await bench.owner(run_id).run(), "the run is not due before its delay"
        await trio.sleep(1)
        assert await bench.owner(run_id).run()
    command, history = commands
    assert command["command"] == "resume"
    assert command["stepCount"] == 1
    interrupted = cast("JsonObject", cast("JsonObject", command["boundary"])["interrupted"])
    assert (interrupted["nodeId"], interrupted["visit"]) == ("second", 1)
    assert history["next"] is None
    assert bench.run_row(run_id).status is RunStatus.COMPLETED
    assert sorted(bench.rows("SELECT node_id, status FROM node_attempts")) == [
        ("first", "completed"),
        ("second", "cancelled"),
        ("second", "completed"),
    ]


async def test_third_death_in_a_row_without_progress_parks_the_run_for_a_person(
    autojump_clock: Clock,
    bench: "Bench",
) -> None:
    """Case: C41."""
    bench.children(crash_in_first)
    with trio.fail_after(600):
        run_id = await bench.create()
        seen = []
        for delay_s in (1, 2, 0):
            assert await bench.owner(run_id).run()
            queued = bench.queue_row(run_id)
            seen.append((queued.error_code, queued.consecutive_errors))
            await trio.sleep(delay_s)
        assert seen == [("runnerCrashed", 1), ("runnerCrashed", 2), ("runnerNoProgress", 3)]
        await trio.sleep(300)
        assert not await bench.owner(run_id).run()
    assert bench.rows("SELECT DISTINCT status, exit_code FROM run_workers") == [("crashed", 1)]
    assert bench.run_row(run_id).status is RunStatus.RUNNING


async def test_stop_of_the_server_hands_the_run_off_at_once(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """The child is gone, the run due again, its lease free, the attempt interrupted."""
    bench.children(bench.idling)
    with trio.fail_after(60):
        run_id = await bench.create()
        with trio.move_on_after(3) as stop:
            await bench.owner(run_id).run()
        assert stop.cancelled_caught
        assert trio.current_time() < 4
    assert bench.rows(WORKERS) == [("cancelled", None, "15", 1)]
    queued = bench.queue_row(run_id)
    assert (queued.status, queued.error_code) == (QueueStatus.PARKED, "handoff")
    assert queued.consecutive_errors == 0
    attempt = bench.read(attempts.unfinished, run_id)
    assert attempt is not None
    assert attempt.status is AttemptStatus.INTERRUPTED
    assert lease(bench, run_id) == (1, None, None)
    bench.children(bench.working)
    with trio.fail_after(60):
        assert await bench.owner(run_id).run()
    assert bench.run_row(run_id).status is RunStatus.COMPLETED


async def test_child_that_does_nothing_for_long_does_not_stop_the_renewal(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Case: C53."""
    bench.children(bench.idling)
    with trio.fail_after(600):
        run_id = await bench.create()
        with trio.move_on_after(120):
            await bench.owner(run_id).run()
            raise AssertionError("the run was lost")
    rows = bench.rows("SELECT heartbeat_at FROM leases WHERE heartbeat_at IS NOT NULL")
    assert rows == [], "handed off, not lapsed"
    assert bench.queue_row(run_id).error_code == "handoff"


async def test_claim_that_somebody_else_took_ends_the_child_and_writes_no_failure(
    autojump_clock: Clock,
    bench: "Bench",
) -> None:
    """The run stays as it is, for its new owner; the old one writes nothing any more.

    Case: C54, A42.
    """
    replies: list[JsonObject] = []

    async def lose(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        await bench.alter("UPDATE leases SET generation = generation + 1")
        replies.append(await child.advance(child.finished("first")))
        return await child.hang()

    bench.children(lose)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert [reply["outcome"] for reply in replies] == ["claimLost"]
    assert bench.rows(WORKERS) == [("claimLost", None, "15", 1)]
    run = bench.run_row(run_id)
    assert (run.status, run.error_hash, run.finished_at) == (RunStatus.RUNNING, None, None)
    assert bench.queue_row(run_id).status is QueueStatus.RUNNING
    assert bench.rows("SELECT status FROM node_attempts") == [("running",)]


async def test_claim_found_lost_by_the_timer_ends_the_child_too(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    bench.children(bench.idling)
    with trio.fail_after(60):
        run_id = await bench.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.owner(run_id).run)
            await trio.sleep(1)
            await bench.alter("UPDATE leases SET generation = generation + 1")
            assert bench.spawner.living == 1
        assert 10 <= trio.current_time() < 12
    assert bench.spawner.living == 0
    assert bench.rows(WORKERS) == [("claimLost", None, "15", 1)]
    assert bench.run_row(run_id).status is RunStatus.RUNNING


async def test_child_that_cannot_be_started_counts_and_does_not_block_the_next(
    autojump_clock: Clock,
    bench: "Bench",
) -> None:
    bench.spawner.refusals = 1
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
        queued = bench.queue_row(run_id)
        assert (queued.error_code, queued.consecutive_errors) == ("runnerCrashed", 1)
        assert bench.rows(WORKERS) == [("crashed", None, None, 1)]
        await trio.sleep(1)
        assert await bench.owner(run_id).run()
    assert bench.run_row(run_id).status is RunStatus.COMPLETED


async def test_full_disk_under_the_registry_holds_the_run_up_and_counts_as_no_death(
    autojump_clock: Clock, bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again after a pause, as often as it takes; two deaths before stay counted."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    add = bench.services.processes.add
    bench.children(crash_in_first, crash_in_first, *[bench.hanging] * 5, bench.working)
    with trio.fail_after(600):
        run_id = await bench.create()
        for deaths in (1, 2):
            assert await bench.owner(run_id).run()
            assert bench.queue_row(run_id).consecutive_errors == deaths
            await trio.sleep(60)
        monkeypatch.setattr(bench.services.processes, "add", full)
        for _ in range(5):
            assert await bench.owner(run_id).run()
            queued = bench.queue_row(run_id)
            assert (queued.error_code, queued.consecutive_errors) == ("handoff", 2)
            assert queued.available_at > bench.services.world.clock.wall_ms()
            await trio.sleep(60)
        assert bench.services.processes.children() == ()
        monkeypatch.setattr(bench.services.processes, "add", add)
        assert await bench.owner(run_id).run()
    assert bench.run_row(run_id).status is RunStatus.COMPLETED
    ends = [row[0] for row in bench.rows(WORKERS)]
    assert ends == ["crashed"] * 2 + ["cancelled"] * 5 + ["exited"]


async def test_child_that_is_gone_before_it_is_launched_has_crashed(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    async def vanish(child: "RunnerEnd") -> ExitStatus:
        await child.lines.aclose()
        return CRASH

    bench.children(vanish)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert bench.queue_row(run_id).consecutive_errors == 1
    assert bench.rows(WORKERS) == [("crashed", 1, None, 1)]
    assert bench.rows("SELECT diagnostic_hash IS NOT NULL FROM run_workers") == [(1,)]


async def test_foreign_write_lock_delays_the_end_and_the_renewal_and_loses_neither(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    stranger = apsw.Connection(str(bench.paths.database))
    crash = trio.Event()

    async def wait(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        await crash.wait()
        return CRASH

    bench.children(wait)
    with trio.fail_after(200):
        run_id = await bench.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.owner(run_id).run)
            await trio.sleep(8)
            stranger.execute("BEGIN IMMEDIATE")
            await trio.sleep(17)
            stranger.execute("ROLLBACK")
            await trio.sleep(60)
            assert bench.spawner.living == 1
            stranger.execute("BEGIN IMMEDIATE")
            crash.set()
            await trio.sleep(12)
            assert bench.queue_row(run_id).status is QueueStatus.RUNNING
            stranger.execute("ROLLBACK")
    stranger.close()
    queued = bench.queue_row(run_id)
    assert (queued.status, queued.error_code) == (QueueStatus.PARKED, "runnerCrashed")
    assert bench.rows(WORKERS) == [("crashed", 1, None, 1)]
