"""Behaviour of admission: capacity, order, exact instants, and no spinning."""

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
from store.transaction import Change, Reading

if TYPE_CHECKING:
    from pi_workflows.protocol.ids import RunId
    from store.receipts import Reply
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock


@asynccontextmanager
async def scheduling(
    bench: "Bench", failures: list[TaskFailure] | None = None
) -> AsyncIterator[Scheduler]:
    """Admit runs inside the block, then hand off what is left."""
    noted = [] if failures is None else failures
    randomness = bench.world.randomness
    async with Supervisor(randomness=randomness, on_failure=noted.append) as owners:
        scheduler = Scheduler(bench.services, owners)
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            yield scheduler
            nursery.cancel_scope.cancel()
        await owners.stop_all()


def never() -> None:
    raise AssertionError("nobody asked the server to stop")


async def cancel(bench: "Bench", run_id: "RunId", *, key: str = "key-1") -> "Reply":
    request = ClientRequest(key, "client", "run.cancel", key, {}, run_id, None, bytes(32))
    return await RunControl(bench.services, never).cancel(request, RunCancel())


async def test_of_five_runs_four_children_live_at_once(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """The fifth run is admitted as soon as a place is free.

    Case: C45.
    """
    gate = trio.Event()

    async def wait(child: "RunnerEnd") -> ExitStatus:
        await gate.wait()
        return await child.work()

    bench.children(wait)
    with trio.fail_after(60):
        run_ids = [await bench.create() for _ in range(5)]
        async with scheduling(bench) as scheduler:
            await trio.sleep(5)
            assert bench.spawner.living == 4
            assert scheduler.active == 4
            gate.set()
            await trio.sleep(5)
            assert scheduler.active == 0
    assert bench.spawner.living_max == 4
    assert [bench.run_row(run_id).status for run_id in run_ids] == [RunStatus.COMPLETED] * 5


async def test_launch_under_way_counts_against_the_capacity(
    autojump_clock: Clock, bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case: C46."""
    gate = trio.Event()
    asked = 0
    spawn = type(bench.spawner).spawn

    async def slow_spawn(self: object, spec: object) -> object:
        nonlocal asked
        asked += 1
        await gate.wait()
        return await spawn(self, spec)  # type: ignore[arg-type]

    monkeypatch.setattr(type(bench.spawner), "spawn", slow_spawn)
    with trio.fail_after(60):
        for _ in range(6):
            await bench.create()
        async with scheduling(bench):
            await trio.sleep(5)
            assert asked == 4
            assert bench.spawner.living == 0
            gate.set()
            await trio.sleep(5)
    assert bench.spawner.living_max <= 4
    assert bench.rows("SELECT DISTINCT status FROM runs") == [("completed",)]


async def test_soonest_due_is_admitted_first_then_the_oldest(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    order: list[str] = []
    bench.limit(1)

    async def note(child: "RunnerEnd") -> ExitStatus:
        await child.launch()
        order.append(str(child.launched["runId"]))
        return ExitStatus(1, None)

    bench.children(note)
    with trio.fail_after(60):
        for name in ("run-c", "run-a", "run-b"):
            await bench.create(name)
            await trio.sleep(0.01)
        await bench.alter(
            "UPDATE run_queue SET available_at = available_at - 1000 WHERE run_id = 'run-b'"
        )
        async with scheduling(bench):
            await trio.sleep(0.5)
    assert order == ["run-b", "run-c", "run-a"]


async def test_run_that_is_due_later_is_admitted_at_its_exact_instant(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    began_at: list[float] = []

    async def note(child: "RunnerEnd") -> ExitStatus:
        began_at.append(trio.current_time())
        return await child.work()

    bench.children(note)
    with trio.fail_after(600):
        await bench.create()
        await bench.alter(
            "UPDATE run_queue SET error_code = 'runnerCrashed', available_at = updated_at + 90000"
        )
        asked_at = trio.current_time()
        async with scheduling(bench):
            await trio.sleep(200)
    (began,) = began_at
    assert began - asked_at == pytest.approx(90, abs=0.005)


async def test_run_is_admitted_with_the_commit_that_makes_it_due(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """No poll: at the instant of the commit the child lives."""
    bench.children(bench.idling)
    with trio.fail_after(60):
        async with scheduling(bench):
            await trio.sleep(13)
            await bench.create()
            await trio.testing.wait_all_tasks_blocked()
            assert trio.current_time() == 13
            assert bench.spawner.living == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET paused = 1",
        "UPDATE run_queue SET status = 'parked', error_code = 'workflowSourceChanged'",
        "UPDATE run_queue SET status = 'parked', error_code = 'runnerNoProgress'",
        "UPDATE run_queue SET status = 'parked', error_code = 'effectAmbiguous'",
        "UPDATE run_queue SET error_code = 'runnerCrashed', available_at = updated_at + 3600000",
    ],
)
async def test_run_that_must_not_be_worked_on_is_not_admitted(
    autojump_clock: Clock, bench: "Bench", change: str
) -> None:
    with trio.fail_after(3_000):
        await bench.create()
        if "parked" in change:
            await bench.alter("UPDATE runs SET status = 'running'")
        await bench.alter(change)
        async with scheduling(bench) as scheduler:
            await trio.sleep(1_000)
            assert scheduler.active == 0
    assert bench.spawner.spawned == []


async def test_refused_claim_is_tried_again_after_a_pause_and_does_not_spin(
    autojump_clock: Clock, bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []
    owner = "actors.scheduler.RunOwner"

    class Refused:
        def __init__(self, *_: object) -> None:
            pass

        async def run(self) -> bool:
            tries.append(trio.current_time())
            await trio.lowlevel.checkpoint()
            return False

    monkeypatch.setattr(owner, Refused)
    with trio.fail_after(60):
        run_id = await bench.create()
        async with scheduling(bench) as scheduler:
            await trio.sleep(9.5)
            assert len(tries) == 10
            await cancel(bench, run_id)
            await trio.sleep(2)
            await bench.create("another")
            await trio.testing.wait_all_tasks_blocked()
            assert set(scheduler._held_back) <= {"another"}, "what has lapsed is forgotten"
    tries = tries[:10]
    assert tries[-1] - tries[0] == pytest.approx(9, abs=0.1)


async def test_owner_that_fails_does_so_alone_and_its_run_is_tried_again(
    autojump_clock: Clock, bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []
    failures: list[TaskFailure] = []

    class Broken:
        def __init__(self, *_: object) -> None:
            pass

        async def run(self) -> bool:
            tries.append(trio.current_time())
            await trio.lowlevel.checkpoint()
            raise LookupError("a bug")

    monkeypatch.setattr("actors.scheduler.RunOwner", Broken)
    with trio.fail_after(60):
        run_id = await bench.create()
        async with scheduling(bench, failures):
            await trio.sleep(3.5)
    assert len(tries) == len(failures) == 4
    assert failures[0].key == run_id
    assert "a bug" in failures[0].text


async def test_crashing_child_is_started_again_with_growing_pauses_and_then_no_more(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    began_at: list[float] = []

    async def crash(child: "RunnerEnd") -> ExitStatus:
        began_at.append(trio.current_time())
        await child.ready()
        return ExitStatus(1, None)

    bench.children(crash)
    with trio.fail_after(3_000):
        run_id = await bench.create()
        async with scheduling(bench):
            await trio.sleep(1_000)
    assert [round(later - began_at[0], 1) for later in began_at] == [0, 1, 3]
    assert bench.queue_row(run_id).error_code == "runnerNoProgress"


async def test_cancel_needs_no_free_place_and_gives_one_back(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """With every place taken a queued and a running run are cancelled at once.

    Case: C48.
    """
    bench.children(bench.idling)
    with trio.fail_after(60):
        run_ids = [await bench.create() for _ in range(6)]
        async with scheduling(bench) as scheduler:
            await trio.sleep(1)
            assert bench.spawner.living == 4
            queued = await cancel(bench, run_ids[5], key="one")
            running = await cancel(bench, run_ids[0], key="two")
            await trio.testing.wait_all_tasks_blocked()
            assert trio.current_time() == 1
            assert bench.spawner.living == 4, "the fifth run has the place"
            assert scheduler.active == 4
    assert queued.receipt is not None
    assert running.receipt is not None
    assert (queued.receipt["verdict"], queued.receipt["cutOff"]) == ("won", {})
    assert running.receipt["verdict"] == "won"
    cut_off = running.receipt["cutOff"]
    assert isinstance(cut_off, dict)
    assert cut_off["nodeId"] == "first"
    for run_id in (run_ids[0], run_ids[5]):
        assert bench.run_row(run_id).status is RunStatus.CANCELLED
        assert bench.queue_row(run_id).status is QueueStatus.CANCELLED
    assert bench.run_row(run_ids[4]).status is RunStatus.RUNNING


async def test_cancel_at_any_moment_of_a_start_wins_and_leaves_nothing_open(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Whichever the store takes first, the cancel is not refused and every child is put away."""
    with trio.fail_after(60):
        for number in range(40):
            run_id = await bench.create()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.owner(run_id).run)
                for _ in range(number):
                    await trio.lowlevel.checkpoint()
                reply = await cancel(bench, run_id, key=f"key-{number}")
            assert reply.receipt is not None
            assert reply.receipt.get("verdict") in {"won", "lost"}, (number, reply)
            assert bench.run_row(run_id).finished_at is not None
            assert bench.services.claims.count == 0
    assert bench.rows("SELECT count(*) FROM run_workers WHERE finished_at IS NULL") == [(0,)]


async def test_cancel_while_a_node_runs_stops_its_child_and_marks_its_effect(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    async def act(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        await child.advance(
            child.finished("first"),
            child.started("second", node_type="action"),
            child.reserve("second", "mail.send", "manual"),
        )
        return await child.hang()

    bench.children(act)
    with trio.fail_after(60):
        run_id = await bench.create_with_effect("mail.send", "manual")
        async with scheduling(bench):
            await trio.sleep(1)
            reply = await cancel(bench, run_id)
            await trio.testing.wait_all_tasks_blocked()
            assert bench.spawner.living == 0
            again = await cancel(bench, run_id, key="another")
    assert reply.receipt is not None
    assert "mail.send" in str(reply.receipt["ambiguousEffects"])
    assert again.outcome == "adopted"
    assert again.receipt is not None
    assert again.receipt["verdict"] == "won"
    assert bench.rows("SELECT status FROM run_workers") == [("cancelled",)]
    assert bench.run_row(run_id).status is RunStatus.CANCELLED


async def test_place_of_a_stepped_clock_is_looked_at_again_within_a_minute(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """A run due in an hour by a clock that then jumps ahead is not slept past."""
    with trio.fail_after(5_000):
        run_id = await bench.create()
        await bench.alter(
            "UPDATE run_queue"
            " SET error_code = 'runnerCrashed', available_at = updated_at + 3600000"
        )
        async with scheduling(bench):
            await trio.sleep(5)
            bench.clock.stepped_ms = 4_000_000
            await trio.sleep(61)
            assert bench.run_row(run_id).status is RunStatus.COMPLETED


async def test_steps_of_served_runs_do_not_make_the_scheduler_look(
    autojump_clock: Clock, bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at its start, after the creation and at the end, whatever commits lie between."""
    looks: list[float] = []
    ask = run_queue.claimable

    def claimable(reading: Reading, limit: int) -> list[run_queue.ClaimableRow]:
        looks.append(trio.current_time())
        return ask(reading, limit)

    monkeypatch.setattr(run_queue, "claimable", claimable)
    heard: list[frozenset[Change]] = []
    bench.services.store.listen(heard.append)
    with trio.fail_after(60):
        async with scheduling(bench):
            run_id = await bench.create()
            await trio.sleep(30)
    assert bench.run_row(run_id).status is RunStatus.COMPLETED
    assert len(heard) > len(looks) + 3
    assert len(looks) == 3
