"""Behaviour of the commit executors and of the production world."""

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from runtime.errors import CommitExecutorClosed
from runtime.world import (
    CommitExecutor,
    InlineCommitExecutor,
    ThreadCommitExecutor,
    production_world,
)


@pytest.fixture(params=[ThreadCommitExecutor, InlineCommitExecutor])
def commits(request: pytest.FixtureRequest) -> Iterator[CommitExecutor]:
    executor: CommitExecutor = request.param()
    yield executor
    executor.close()


async def test_result_comes_back_and_an_error_harms_nobody_else(commits: CommitExecutor) -> None:
    def fail() -> None:
        raise OSError("disk full")

    with trio.fail_after(120):
        assert await commits.run(lambda: 42) == 42
        with pytest.raises(OSError, match="disk full"):
            await commits.run(fail)
        with pytest.raises(SystemExit):
            await commits.run(sys.exit)
        assert await commits.run(lambda: "still there") == "still there"


async def test_work_runs_in_the_order_of_the_calls(commits: CommitExecutor) -> None:
    order: list[int] = []
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(commits.run, lambda number=number: order.append(number))
                await trio.lowlevel.checkpoint()
    assert order == list(range(20))


async def test_cancelled_caller_gets_the_outcome_of_work_handed_over(
    commits: CommitExecutor,
) -> None:
    outcomes: list[str] = []
    with trio.fail_after(120), trio.CancelScope() as scope:
        scope.cancel()
        outcomes.append(await commits.run(lambda: "committed"))
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert outcomes == ["committed"]


async def test_closed_executor_runs_nothing_more(commits: CommitExecutor) -> None:
    await commits.run(lambda: None)
    commits.close()
    commits.close()
    with pytest.raises(CommitExecutorClosed):
        await commits.run(lambda: None)


async def test_close_finishes_what_was_handed_over() -> None:
    commits = ThreadCommitExecutor()
    release, done = threading.Event(), threading.Event()

    def slow() -> None:
        assert release.wait(120)
        done.set()

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commits.run, slow)
            await trio.testing.wait_all_tasks_blocked()
            release.set()
            commits.close()
            assert done.is_set()


async def test_work_runs_in_one_thread_beside_the_loop_or_on_it() -> None:
    threaded, inline = ThreadCommitExecutor(), InlineCommitExecutor()
    threads = {await threaded.run(threading.current_thread) for _ in range(3)}
    threaded.close()
    (thread,) = threads
    assert thread.daemon
    assert not thread.is_alive()
    assert await inline.run(threading.current_thread) is threading.main_thread()


async def test_thread_that_cannot_be_started_is_its_caller_s_error_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever came later would otherwise wait for ever for a thread that does not exist."""
    commits = ThreadCommitExecutor()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            await commits.run(lambda: 1)
    with trio.fail_after(120):
        assert await commits.run(lambda: 2) == 2
    commits.close()


def test_interpreter_ends_although_nobody_closed_the_executor() -> None:
    code = textwrap.dedent("""
        import trio
        from runtime.world import production_world
        world = production_world()
        async def main():
            await world.commits.run(lambda: None)
            raise SystemExit(5)
        trio.run(main)
    """)
    ended = subprocess.run([sys.executable, "-c", code], timeout=120, check=False)
    assert ended.returncode == 5


async def test_production_world_supplies_fresh_ids_and_starts_no_thread_before_work() -> None:
    before = threading.active_count()
    world = production_world()
    assert threading.active_count() == before
    assert len({world.ids.new_uuid() for _ in range(100)}) == 100
    assert len(world.ids.token_bytes()) == 32
    assert 0 <= world.randomness.random() < 1
    world.commits.close()
