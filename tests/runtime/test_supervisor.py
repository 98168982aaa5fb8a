"""Behaviour of supervision: restart, back off, escalate, stop."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from runtime.backoff import Backoff
from runtime.errors import SupervisionFailed
from runtime.supervisor import (
    DIAGNOSTIC_CHARS_MAX,
    Intensity,
    Restart,
    SupervisedTask,
    Supervisor,
    TaskFailure,
)

Clock = trio.testing.MockClock


class _Middle:
    def random(self) -> float:
        return 0.5


class _Bench:
    """A supervisor, what it reported, and when its task started."""

    def __init__(
        self,
        clock: Clock,
        *,
        intensity: Intensity | None = None,
        fatal: tuple[type[Exception], ...] = (),
    ) -> None:
        self.clock = clock
        self.failures: list[TaskFailure] = []
        self.started_at: list[float] = []
        self.supervisor = Supervisor(
            randomness=_Middle(),
            on_failure=self.failures.append,
            intensity=intensity,
            backoff=Backoff(initial_ms=1_000, delay_ms_max=5_000),
            fatal=fatal,
        )

    def task(
        self, run: Callable[[], Awaitable[None]], restart: Restart, key: str = "task"
    ) -> SupervisedTask:
        async def recorded() -> None:
            self.started_at.append(self.clock.current_time())
            await run()

        return SupervisedTask(key=key, run=recorded, restart=restart)


async def _fail() -> None:
    raise ValueError("broken")


async def _end() -> None:
    await trio.lowlevel.checkpoint()


async def test_temporary_task_fails_alone_with_one_bounded_diagnostic(
    autojump_clock: Clock,
) -> None:
    bench = _Bench(autojump_clock)

    async def fail_at_length() -> None:
        raise ValueError("x" * 10_000)

    async with bench.supervisor as supervisor:
        supervisor.start(bench.task(fail_at_length, Restart.TEMPORARY))
        supervisor.start(bench.task(_end, Restart.TEMPORARY, "other"))
    (failure,) = bench.failures
    assert failure.key == "task"
    assert failure.restart_in_ms is None
    assert len(failure.text) == DIAGNOSTIC_CHARS_MAX
    assert failure.text.startswith("ValueError: xxx")
    assert "test_supervisor.py:" in failure.text


async def test_transient_task_is_restarted_after_errors_only_with_growing_delays(
    autojump_clock: Clock,
) -> None:
    bench = _Bench(autojump_clock)

    async def fail_three_times() -> None:
        if len(bench.started_at) <= 3:
            await _fail()

    async with bench.supervisor as supervisor:
        supervisor.start(bench.task(fail_three_times, Restart.TRANSIENT))
    first = bench.started_at[0]
    assert [at - first for at in bench.started_at] == [0, 1, 3, 7]
    assert [failure.restart_in_ms for failure in bench.failures] == [1_000, 2_000, 4_000]


async def test_permanent_task_is_restarted_after_its_normal_end_too(autojump_clock: Clock) -> None:
    bench = _Bench(autojump_clock)
    async with bench.supervisor as supervisor:
        supervisor.start(bench.task(_end, Restart.PERMANENT))
        await trio.sleep(3.5)
        await supervisor.stop("task")
    assert len(bench.started_at) == 3
    assert isinstance(bench.failures[0].error, SupervisionFailed)


async def test_too_many_restarts_in_the_window_escalate_as_one_bare_error(
    autojump_clock: Clock,
) -> None:
    bench = _Bench(autojump_clock, intensity=Intensity(restarts_max=2, window_s=60))

    async def supervise() -> None:
        async with bench.supervisor as supervisor:
            supervisor.start(bench.task(_fail, Restart.TRANSIENT))
            supervisor.start(bench.task(trio.sleep_forever, Restart.PERMANENT, "sibling"))
            await trio.sleep_forever()

    with pytest.raises(SupervisionFailed, match="ValueError: broken") as caught:
        await supervise()
    assert caught.value.key == "task"
    assert isinstance(caught.value.__cause__, ValueError)
    assert len(bench.failures) == 2


async def test_failures_spread_wider_than_the_window_never_escalate(autojump_clock: Clock) -> None:
    bench = _Bench(autojump_clock, intensity=Intensity(restarts_max=1, window_s=60))

    async def fail_now_and_then() -> None:
        if len(bench.started_at) > 10:
            return
        await trio.sleep(61)
        await _fail()

    async with bench.supervisor as supervisor:
        supervisor.start(bench.task(fail_now_and_then, Restart.TRANSIENT))
    assert len(bench.started_at) == 11
    assert {failure.restart_in_ms for failure in bench.failures} == {1_000}


async def test_first_failure_escalates_when_no_restart_is_allowed(autojump_clock: Clock) -> None:
    bench = _Bench(autojump_clock, intensity=Intensity(restarts_max=0))
    with pytest.raises(SupervisionFailed):
        async with bench.supervisor as supervisor:
            supervisor.start(bench.task(_fail, Restart.PERMANENT))
    assert len(bench.started_at) == 1
    assert bench.failures == []


@pytest.mark.parametrize("restart", list(Restart))
async def test_fatal_error_escalates_at_once_as_itself(
    autojump_clock: Clock, restart: Restart
) -> None:
    bench = _Bench(autojump_clock, fatal=(ValueError,))

    async def fail_in_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(_fail)

    with pytest.raises(ValueError, match="broken"):
        async with bench.supervisor as supervisor:
            supervisor.start(bench.task(fail_in_a_nursery, restart))


async def test_error_in_a_tasks_own_nursery_is_reported_unwrapped(autojump_clock: Clock) -> None:
    bench = _Bench(autojump_clock)

    async def fail_in_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_fail)

    async with bench.supervisor as supervisor:
        supervisor.start(bench.task(fail_in_a_nursery, Restart.TEMPORARY))
    assert isinstance(bench.failures[0].error, ValueError)


async def test_error_in_the_body_leaves_bare_and_cancels_the_tasks(autojump_clock: Clock) -> None:
    bench = _Bench(autojump_clock)

    async def supervise() -> None:
        async with bench.supervisor as supervisor:
            supervisor.start(bench.task(trio.sleep_forever, Restart.PERMANENT))
            await trio.testing.wait_all_tasks_blocked()
            raise LookupError

    with pytest.raises(LookupError):
        await supervise()
    assert bench.failures == []


async def test_stop_ends_a_task_or_its_wait_for_a_restart_without_a_diagnostic(
    autojump_clock: Clock,
) -> None:
    bench = _Bench(autojump_clock)
    async with bench.supervisor as supervisor:
        supervisor.start(bench.task(trio.sleep_forever, Restart.PERMANENT))
        supervisor.start(bench.task(_fail, Restart.TRANSIENT, "failing"))
        await trio.testing.wait_all_tasks_blocked()
        assert supervisor.keys() == {"task", "failing"}
        await supervisor.stop("failing")
        await supervisor.stop("task")
        await supervisor.stop("unknown")
        assert not supervisor.is_running("task")
        supervisor.start(bench.task(trio.sleep_forever, Restart.PERMANENT))
        await supervisor.stop_all()
        assert supervisor.keys() == frozenset()
    assert [failure.key for failure in bench.failures] == ["failing"]


async def test_cancellation_from_outside_passes_through_and_restarts_nothing(
    autojump_clock: Clock,
) -> None:
    bench = _Bench(autojump_clock)
    with trio.move_on_after(5) as scope:
        async with bench.supervisor as supervisor:
            supervisor.start(bench.task(trio.sleep_forever, Restart.PERMANENT))
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert len(bench.started_at) == 1
    assert bench.failures == []


async def test_failure_while_being_stopped_is_reported_and_the_cancellation_goes_on(
    autojump_clock: Clock,
) -> None:
    bench = _Bench(autojump_clock)

    async def fail_while_ending() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                await _fail()

    async with bench.supervisor as supervisor:
        supervisor.start(bench.task(fail_while_ending, Restart.PERMANENT))
        await trio.testing.wait_all_tasks_blocked()
        await supervisor.stop("task")
    assert len(bench.started_at) == 1
    assert [type(failure.error) for failure in bench.failures] == [ValueError]
