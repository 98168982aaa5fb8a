"""Pausing through the command: the runner ends after the commit, and nothing else does."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from actors.client_requests import ClientRequest
from actors.run_control import RunControl
from actors.scheduler import Scheduler
from pi_workflows.protocol.states import CommandOutcome, QueueStatus, RunStatus
from runtime.supervisor import Supervisor, TaskFailure
from store.receipts import Reply

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from pi_workflows.protocol.ids import RunId
    from runtime.process import ExitStatus
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock

WORKERS: Final = "SELECT status FROM run_workers ORDER BY generation"
TRIES: Final = "SELECT node_id, visit, attempt_number, status FROM node_attempts ORDER BY rowid"


def never() -> None:
    raise AssertionError("nobody asked the server to stop")


async def ask(bench: "Bench", operation: str, run_id: "RunId", key: str) -> Reply:
    control = RunControl(bench.services, never)
    request = ClientRequest(key, "client", operation, key, {}, run_id, None, bytes(32))
    return await (control.pause if operation == "run.pause" else control.resume)(request)


def receipt(reply: Reply) -> "JsonObject":
    assert reply.receipt is not None
    return reply.receipt


async def test_pause_stops_the_runner_and_a_resume_runs_its_node_again(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """The next runner begins only after the old one is gone.

    Case: B44.
    """
    commands: list[JsonObject] = []

    async def work(child: "RunnerEnd") -> "ExitStatus":
        assert bench.spawner.living == 1, "the old runner is still there"
        commands.append(await child.ready())
        await child.go_on(child.started("first"))
        await child.go_on(child.finished("first"), child.started("second"))
        await child.go_on(child.finished("second"), {"type": "finishRun", "status": "completed"})
        return await child.leave("finished")

    bench.children(bench.idling, work)
    failures: list[TaskFailure] = []
    async with Supervisor(randomness=bench.world.randomness, on_failure=failures.append) as owners:
        async with trio.open_nursery() as nursery:
            await nursery.start(Scheduler(bench.services, owners).run)
            with trio.fail_after(3_000):
                run_id = await bench.create()
                await trio.sleep(1)
                assert bench.spawner.living == 1
                paused = await ask(bench, "run.pause", run_id, "one")
                await ask(bench, "run.resume", run_id, "two")
                await trio.sleep(60)
            nursery.cancel_scope.cancel()
        await owners.stop_all()
    assert failures == []
    assert receipt(paused)["verdict"] == "paused"
    assert receipt(paused)["cutOff"] == {
        "attemptId": bench.rows("SELECT attempt_id FROM node_attempts ORDER BY rowid")[0][0],
        "nodeId": "first",
    }
    (command,) = commands
    assert command["command"] == "resume"
    assert command["boundary"] == {
        "interrupted": {**receipt(paused)["cutOff"], "visit": 1}  # type: ignore[dict-item]
    }
    assert bench.run_row(run_id).status is RunStatus.COMPLETED
    assert bench.rows(TRIES) == [
        ("first", 1, 1, "cancelled"),
        ("first", 1, 2, "completed"),
        ("second", 1, 1, "completed"),
    ]
    assert bench.rows(WORKERS) == [("cancelled",), ("exited",)]


async def test_paused_run_is_not_started_again_by_itself(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    bench.children(bench.idling)
    failures: list[TaskFailure] = []
    async with Supervisor(randomness=bench.world.randomness, on_failure=failures.append) as owners:
        async with trio.open_nursery() as nursery:
            scheduler = Scheduler(bench.services, owners)
            await nursery.start(scheduler.run)
            with trio.fail_after(100_000):
                run_id = await bench.create()
                await trio.sleep(1)
                await ask(bench, "run.pause", run_id, "one")
                await trio.sleep(3_600)
                assert (bench.spawner.living, len(bench.spawner.spawned)) == (0, 1)
                assert scheduler.active == 0, "its place is free for another run"
            nursery.cancel_scope.cancel()
        await owners.stop_all()
    assert failures == []
    assert bench.queue_row(run_id).status is QueueStatus.PARKED


@pytest.mark.parametrize("is_ready", [False, True])
async def test_pause_ends_the_owner_also_while_its_runner_is_being_launched(
    autojump_clock: Clock, bench: "Bench", *, is_ready: bool
) -> None:
    bench.children(bench.idling if is_ready else bench.hanging)
    with trio.fail_after(60):
        run_id = await bench.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.owner(run_id).run)
            await trio.sleep(1)
            reply = await ask(bench, "run.pause", run_id, "one")
    assert receipt(reply)["verdict"] == "paused"
    assert ("nodeId" in receipt(reply)["cutOff"]) is is_ready  # type: ignore[operator]
    assert bench.spawner.living == 0
    assert bench.services.claims.count == 0
    assert bench.run_row(run_id).paused
    assert bench.rows(WORKERS) == [("cancelled",)]


async def test_receipt_that_is_asked_for_again_stops_nobody_who_works_since(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """A pause, a resume, and then the lost reply of the pause: the run goes on."""
    bench.children(bench.idling)
    with trio.fail_after(600):
        run_id = await bench.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.owner(run_id).run)
            await trio.sleep(1)
            first = await ask(bench, "run.pause", run_id, "one")
            await trio.sleep(10)
            await ask(bench, "run.resume", run_id, "two")
            nursery.start_soon(bench.owner(run_id).run)
            await trio.sleep(1)
            again = await ask(bench, "run.pause", run_id, "one")
            await trio.sleep(30)
            assert bench.spawner.living == 1
            assert not bench.run_row(run_id).paused
            nursery.cancel_scope.cancel()
    assert again == dataclasses.replace(first, outcome=CommandOutcome.ADOPTED)


async def test_equal_pauses_at_the_same_time_have_one_winner(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    bench.children(bench.idling)
    replies: list[Reply] = []

    async def pause(run_id: "RunId", key: str) -> None:
        replies.append(await ask(bench, "run.pause", run_id, key))

    with trio.fail_after(60):
        run_id = await bench.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.owner(run_id).run)
            await trio.sleep(1)
            async with trio.open_nursery() as operators:
                for key in ("one", "two", "three"):
                    operators.start_soon(partial(pause, run_id, key))
    assert sorted(reply.outcome for reply in replies) == ["accepted", "adopted", "adopted"]
    verdicts = sorted(str(receipt(reply)["verdict"]) for reply in replies)
    assert verdicts == ["alreadyPaused", "alreadyPaused", "paused"]
    assert bench.rows("SELECT count(*) FROM events WHERE event_type = 'run.paused'") == [(1,)]
    assert bench.rows("SELECT count(*) FROM host_commands") == [(3,)]


async def test_pause_of_a_run_that_has_ended_is_refused_and_the_refusal_is_stored(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    bench.children(bench.working)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
        first = await ask(bench, "run.pause", run_id, "one")
        again = await ask(bench, "run.pause", run_id, "one")
    assert (first.outcome, receipt(first)["code"]) == (CommandOutcome.REJECTED, "RUN_ENDED")
    assert again == first
