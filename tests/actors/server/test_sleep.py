"""The machine sleeps, or its wall clock is set: what is taken up again, and what is lost."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from store import host
from store.transaction import Reading

if TYPE_CHECKING:
    from tests.actors.server.conftest import Running, Start

Clock = trio.testing.MockClock
GENERATION = "SELECT generation, owner_id IS NOT NULL FROM leases JOIN runs USING (resource_id)"
WORKERS = "SELECT status FROM run_workers ORDER BY started_at, finished_at IS NULL"
DUE_IN_A_MINUTE = """
    UPDATE run_queue SET error_code = 'runnerCrashed', available_at = updated_at + 60000
"""
EXPIRY = "SELECT expires_at FROM leases JOIN runs USING (resource_id)"


def server_row(running: "Running") -> host.HostRow:
    with running.bench.services.readers.reading() as reading:
        return host.current(Reading(reading.connection, 0))


async def stop(running: "Running") -> None:
    running.server.stopping.set()
    await running.ended.wait()
    assert running.failure is None


@pytest.mark.parametrize("monotonic", ["stands still", "goes on"])
async def test_sleep_of_ten_minutes_keeps_the_epoch_and_costs_the_run_its_generation(
    autojump_clock: Clock, start: "Start", monotonic: str
) -> None:
    """The next beat finds it, long before the run's own renewal is due.

    Case: C5, C55.
    """
    with trio.fail_after(10_000):
        async with start() as running:
            bench = running.bench
            bench.children(bench.idling, bench.working)
            await trio.sleep(9)
            await bench.create()
            await trio.sleep(0.5)
            assert bench.rows(GENERATION) == [(1, 1)]
            if monotonic == "stands still":
                bench.clock.stepped_ms += 600_000
            else:
                autojump_clock.jump(600)
            await trio.sleep(1)
            assert bench.rows(WORKERS) == [("claimLost",), ("exited",)]
            assert bench.rows(GENERATION) == [(2, 0)]
            assert bench.rows("SELECT status FROM runs") == [("completed",)]
            row = server_row(running)
            assert (row.epoch, row.host_id) == (1, bench.services.identity.server_id)
            assert row.expires_at is not None
            assert row.expires_at > bench.clock.wall_ms() + 28_000
            await stop(running)


@pytest.mark.parametrize("step_s", [-3_600, -6, -4, 4, 6, 19])
async def test_step_of_the_wall_clock_that_no_lease_outlives_costs_nothing(
    autojump_clock: Clock, start: "Start", step_s: int
) -> None:
    """An expiry that was acknowledged is never taken back."""
    with trio.fail_after(10_000):
        async with start() as running:
            bench = running.bench
            bench.children(bench.idling)
            await trio.sleep(9)
            await bench.create()
            await trio.sleep(0.5)
            before = bench.rows(EXPIRY)
            bench.clock.stepped_ms += step_s * 1000
            await trio.sleep(60)
            assert bench.rows(GENERATION) == [(1, 1)]
            assert bench.rows(WORKERS) == [("running",)]
            assert bench.rows(EXPIRY) >= before
            assert bench.spawner.living == 1
            await stop(running)


async def test_wake_looks_again_at_runs_that_wait_for_an_instant(
    autojump_clock: Clock, start: "Start"
) -> None:
    """Their instant has passed while the machine slept, and no timer of ours has noticed."""
    with trio.fail_after(10_000):
        async with start() as running:
            bench = running.bench
            bench.children(bench.working)
            await bench.services.store.do(lambda _: None)
            run_id = await bench.create()
            assert bench.run_row(run_id).status == "queued"
            await bench.alter(DUE_IN_A_MINUTE)
            await trio.sleep(1)
            assert bench.rows("SELECT status FROM runs") == [("queued",)]
            bench.clock.stepped_ms += 600_000
            await trio.sleep(10)
            assert bench.rows("SELECT status FROM runs") == [("completed",)]
            await stop(running)


async def test_process_that_stood_still_notices_it(autojump_clock: Clock, start: "Start") -> None:
    """Both clocks went on without it, as after SIGSTOP; a lease that still holds is kept."""
    with trio.fail_after(10_000):
        async with start() as running:
            await trio.sleep(9.5)
            autojump_clock.jump(20)
            await trio.sleep(1)
            log = (running.paths.logs / "server.log").read_text()
            assert '"event":"woke","wallGapS":0,"lateS":20,"runs":0' in log
            await stop(running)
