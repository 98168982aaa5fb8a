"""Who is admitted, who is not, and what never waits for a place."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from actors.client_requests import ClientRequest, RunCancel
from actors.run_control import RunControl
from actors.scheduler import Scheduler
from pi_workflows.protocol.states import QueueStatus, RunStatus
from runtime.process import ExitStatus
from runtime.supervisor import Supervisor, TaskFailure
from store import run_queue

if TYPE_CHECKING:
    from pi_workflows.protocol.ids import RunId
    from store.receipts import Reply
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock

LATER = "UPDATE run_queue SET error_code = 'runnerCrashed', available_at = updated_at + 3600000"


@asynccontextmanager
async def scheduling(bench: "Bench") -> AsyncIterator[Scheduler]:
    """Admit runs inside the block, then hand off what is left."""
    failures: list[TaskFailure] = []
    randomness = bench.world.randomness
    async with Supervisor(randomness=randomness, on_failure=failures.append) as owners:
        scheduler = Scheduler(bench.services, owners)
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            yield scheduler
            nursery.cancel_scope.cancel()
        await owners.stop_all()
    assert failures == []


def never() -> None:
    raise AssertionError("nobody asked the server to stop")


async def ask(bench: "Bench", operation: str, run_id: "RunId") -> "Reply":
    key = f"{operation} {run_id}"
    request = ClientRequest(key, "client", operation, key, {}, run_id, None, bytes(32))
    control = RunControl(bench.services, never)
    if operation == "run.resume":
        return await control.resume(request)
    return await control.cancel(request, RunCancel())


@pytest.mark.parametrize("asked", [True, False])
async def test_run_that_waits_without_an_answer_is_not_admitted(
    autojump_clock: Clock, bench: "Bench", *, asked: bool
) -> None:
    """With a pending request, and waiting for anything else; nor is one that asks and runs."""

    async def start(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        return await child.leave("stopped")

    bench.children(start)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
        if asked:
            await bench.alter(
                "INSERT INTO interactive_requests (request_id, run_id, attempt_id,"
                " target_session_id, kind, contract_hash, revision, status, created_at,"
                " updated_at) SELECT 'r', a.run_id, attempt_id, 's', 'agent', input_hash, 1,"
                " 'pending', 1, 1 FROM node_attempts AS a JOIN runs USING (run_id)"
            )
        else:
            await bench.alter("UPDATE runs SET status = 'waiting'")
        async with scheduling(bench) as scheduler:
            await trio.sleep(5)
            assert scheduler.active == 0
    assert bench.queue_row(run_id).status is QueueStatus.PARKED


async def test_equally_old_runs_are_admitted_in_the_order_of_their_ids(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    order: list[str] = []

    async def note(child: "RunnerEnd") -> ExitStatus:
        await child.launch()
        order.append(str(child.launched["runId"]))
        return ExitStatus(1, None)

    bench.limit(1)
    bench.children(note)
    with trio.fail_after(60):
        for name in ("run-c", "run-a", "run-b"):
            await bench.create(name)
        await bench.alter("UPDATE run_queue SET available_at = 1, created_at = 1")
        async with scheduling(bench):
            await trio.sleep(0.5)
    assert order == ["run-a", "run-b", "run-c"]


async def test_nothing_but_an_admission_waits_for_the_only_place(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Renewal, cancel, resume and the orderly end, while one run holds the only place.

    Case: C48.
    """
    bench.limit(1)
    bench.children(bench.idling)
    with trio.fail_after(600):
        busy, queued, parked = [await bench.create() for _ in range(3)]
        await bench.alter("UPDATE run_queue SET available_at = 1 WHERE run_id = 'run-1'")
        await bench.alter("UPDATE runs SET paused = 1 WHERE run_id = 'run-3'")
        async with scheduling(bench) as scheduler:
            await trio.sleep(100)
            leases = "SELECT generation, expires_at FROM leases WHERE owner_id IS NOT NULL"
            ((generation, expires_at),) = bench.rows(leases)
            assert generation == 1
            assert isinstance(expires_at, int)
            assert expires_at > bench.clock.wall_ms(), "renewed several times over"
            for operation, run_id in (("run.resume", parked), ("run.cancel", queued)):
                assert (await ask(bench, operation, run_id)).outcome == "accepted"
            assert trio.current_time() == 100
            assert scheduler.active == 1
        assert trio.current_time() == pytest.approx(100, abs=3)
    assert bench.run_row(queued).status is RunStatus.CANCELLED
    assert bench.queue_row(parked).status is QueueStatus.QUEUED
    assert bench.queue_row(busy).status is QueueStatus.PARKED, "handed off at once"


async def test_run_is_admitted_by_the_commit_that_lets_it_go_on(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    bench.children(bench.idling)
    with trio.fail_after(60):
        run_id = await bench.create()
        await bench.alter("UPDATE runs SET paused = 1")
        async with scheduling(bench):
            await trio.sleep(13)
            assert bench.spawner.living == 0
            await ask(bench, "run.resume", run_id)
            await trio.testing.wait_all_tasks_blocked()
            assert trio.current_time() == 13
            assert bench.spawner.living == 1


async def test_recheck_admits_at_once_what_a_stepped_clock_has_made_due(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    bench.children(bench.idling)
    with trio.fail_after(60):
        await bench.create()
        await bench.alter(LATER)
        async with scheduling(bench) as scheduler:
            await trio.sleep(5)
            bench.clock.stepped_ms = 4_000_000
            scheduler.recheck()
            await trio.testing.wait_all_tasks_blocked()
            assert trio.current_time() == 5
            assert bench.spawner.living == 1


async def test_steps_of_a_served_run_and_an_idle_queue_cost_the_scheduler_nothing(
    autojump_clock: Clock, bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks when a run comes and when one goes, however many steps lie between."""
    looked = 0
    claimable = run_queue.claimable

    def counted(*arguments: object) -> object:
        nonlocal looked
        looked += 1
        return claimable(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(run_queue, "claimable", counted)
    bench.children(bench.working)
    with trio.fail_after(4_000):
        async with scheduling(bench):
            await trio.sleep(1)
            assert looked == 1
            await bench.create()
            await trio.sleep(3_000)
    assert bench.rows("SELECT count(*) FROM events WHERE event_type = 'node_started'") == [(2,)]
    assert looked == 3
