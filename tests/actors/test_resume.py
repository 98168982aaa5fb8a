"""Resuming through the command: one winner, a stored receipt, and a run that goes on at once."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import dataclasses
from typing import TYPE_CHECKING

import trio
import trio.testing

from actors.client_requests import ClientRequest
from actors.run_control import RunControl
from actors.scheduler import Scheduler
from pi_workflows.protocol.states import CommandOutcome, ParkReason, RunStatus
from runtime.process import ExitStatus
from runtime.supervisor import Supervisor, TaskFailure
from store.receipts import Reply

if TYPE_CHECKING:
    from pi_workflows.protocol.ids import RunId
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock


def never() -> None:
    raise AssertionError("nobody asked the server to stop")


async def resume(bench: "Bench", run_id: "RunId", key: str) -> Reply:
    request = ClientRequest(key, "client", "run.resume", key, {}, run_id, None, bytes(32))
    return await RunControl(bench.services, never).resume(request)


async def crash(child: "RunnerEnd") -> ExitStatus:
    await child.ready()
    return ExitStatus(1, None)


async def test_resumed_run_gets_one_more_try_at_once_and_then_stands_again(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Three deaths, a resume, one more death: parked again at once; then a resume that works.

    Case: A86.
    """
    bench.children(crash, crash, crash, crash, bench.working)
    failures: list[TaskFailure] = []
    async with Supervisor(randomness=bench.world.randomness, on_failure=failures.append) as owners:
        async with trio.open_nursery() as nursery:
            await nursery.start(Scheduler(bench.services, owners).run)
            with trio.fail_after(3_000):
                run_id = await bench.create()
                await trio.sleep(1_000)
                assert bench.queue_row(run_id).error_code == ParkReason.NO_PROGRESS
                assert len(bench.spawner.spawned) == 3
                await resume(bench, run_id, "one")
                await trio.sleep(0.5)
                assert bench.queue_row(run_id).error_code == ParkReason.NO_PROGRESS
                await trio.sleep(1_000)
                assert len(bench.spawner.spawned) == 4
                await resume(bench, run_id, "two")
                await trio.sleep(0.5)
                assert bench.run_row(run_id).status is RunStatus.COMPLETED
            nursery.cancel_scope.cancel()
        await owners.stop_all()
    assert failures == []


async def test_resume_ends_the_pause_between_two_tries(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """What would be started again in a minute goes on now."""
    bench.children(crash, bench.working)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
        await bench.alter("UPDATE run_queue SET available_at = available_at + 60000")
        assert not await bench.owner(run_id).run(), "it is held back"
        await resume(bench, run_id, "one")
        assert await bench.owner(run_id).run()
    assert bench.run_row(run_id).status is RunStatus.COMPLETED


async def test_equal_resumes_at_the_same_time_have_one_winner(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Each has its receipt; a lost reply asked for again gets the one that was stored."""
    bench.children(crash)
    replies: dict[str, Reply] = {}
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()

        async def ask(key: str) -> None:
            replies[key] = await resume(bench, run_id, key)

        async with trio.open_nursery() as nursery:
            for key in ("one", "two", "three"):
                nursery.start_soon(ask, key)
        again = await resume(bench, run_id, "one")
    assert sorted(reply.outcome for reply in replies.values()) == [
        "accepted",
        "adopted",
        "adopted",
    ]
    assert {str((reply.receipt or {})["verdict"]) for reply in replies.values()} == {"resumable"}
    assert again == dataclasses.replace(replies["one"], outcome=CommandOutcome.ADOPTED)
    asked = "SELECT count(*) FROM events WHERE event_type = 'run.resume_requested'"
    assert bench.rows(asked) == [(1,)]
    assert bench.rows("SELECT count(*) FROM host_commands") == [(3,)]


async def test_resume_of_a_run_that_works_is_adopted_and_disturbs_nothing(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    bench.children(bench.idling)
    with trio.fail_after(60):
        run_id = await bench.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.owner(run_id).run)
            await trio.sleep(1)
            reply = await resume(bench, run_id, "one")
            assert bench.spawner.living == 1
            nursery.cancel_scope.cancel()
    assert reply.outcome == "adopted"
    assert reply.receipt is not None
    assert reply.receipt["verdict"] == "alreadyRunning"
