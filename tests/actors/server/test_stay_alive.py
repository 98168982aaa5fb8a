"""What keeps a server alive that ends when nobody needs it, and what does not."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING

import trio
import trio.testing

from runtime.process import ExitStatus

if TYPE_CHECKING:
    from tests.actors.conftest import RunnerEnd
    from tests.actors.server.conftest import Start

Clock = trio.testing.MockClock
QUEUE = "SELECT status, error_code FROM run_queue"
CRASH = ExitStatus(1, None)


async def die(child: "RunnerEnd") -> ExitStatus:
    await child.ready()
    return CRASH


async def die_after_a_step(child: "RunnerEnd") -> ExitStatus:
    await child.ready()
    await child.advance(child.started("first"))
    await child.advance(child.finished("first"))
    return CRASH


async def die_in_an_effect(child: "RunnerEnd") -> ExitStatus:
    await child.ready()
    await child.advance(child.started("first"))
    await child.advance(
        child.finished("first"),
        child.started("second", node_type="action"),
        child.reserve("second", "mail.send", "manual"),
    )
    return CRASH


async def test_run_that_made_no_progress_keeps_nobody_waiting(
    autojump_clock: Clock, start: "Start"
) -> None:
    """Only a person's command lets it go on, and that starts the server again."""
    with trio.fail_after(10_000):
        async with start(idle_exit_ms=600_000) as running:
            running.bench.children(die)
            await running.bench.create()
            await trio.sleep(60)
            assert running.bench.rows(QUEUE) == [("parked", "runnerNoProgress")]
            await running.ended.wait()
            assert running.failure is None
            assert 600 <= trio.current_time() < 660


async def test_run_with_an_effect_of_unknown_outcome_keeps_nobody_waiting(
    autojump_clock: Clock, start: "Start"
) -> None:
    with trio.fail_after(10_000):
        async with start(idle_exit_ms=600_000) as running:
            running.bench.children(die_in_an_effect)
            await running.bench.create_with_effect("mail.send", "manual")
            await trio.sleep(60)
            assert running.bench.rows(QUEUE) == [("parked", "effectAmbiguous")]
            await running.ended.wait()
            assert running.failure is None
            assert 600 <= trio.current_time() < 660


async def test_run_in_hand_keeps_the_server(autojump_clock: Clock, start: "Start") -> None:
    """However long its node computes, within its deadline."""
    with trio.fail_after(10_000):
        async with start(idle_exit_ms=600_000) as running:
            running.bench.children(running.bench.idling)
            await running.bench.create()
            await trio.sleep(800)
            assert not running.ended.is_set()
            assert running.bench.spawner.living == 1
            running.server.stopping.set()
            await running.ended.wait()
            assert running.failure is None


async def test_run_between_two_runners_keeps_the_server(
    autojump_clock: Clock, start: "Start"
) -> None:
    """Parked until an instant: a wake that only this server can keep."""
    with trio.fail_after(10_000):
        async with start(idle_exit_ms=100) as running:
            running.bench.children(die_after_a_step, running.bench.working)
            await running.bench.create()
            await trio.sleep(0.5)
            assert running.bench.rows(QUEUE) == [("parked", "runnerCrashed")]
            await running.ended.wait()
            assert running.failure is None
            assert 1 <= trio.current_time() < 3
        async with start() as running:
            assert running.bench.rows("SELECT status FROM runs") == [("completed",)]
            running.server.stopping.set()
            await running.ended.wait()
