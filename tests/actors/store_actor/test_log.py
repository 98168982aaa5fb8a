"""Behaviour of the store actor towards the write-ahead log."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import itertools
from typing import TYPE_CHECKING

import trio
import trio.testing

from actors.store_actor import CHECKPOINT_FRAMES
from store.transaction import Transaction

if TYPE_CHECKING:
    from tests.actors.store_actor.conftest import Store

Clock = trio.testing.MockClock


def log_bytes(store: "Store") -> int:
    return store.path.with_name("state.sqlite-wal").stat().st_size


async def test_quiet_moment_moves_the_log_into_the_database_and_the_log_begins_anew(
    autojump_clock: Clock, store: "Store"
) -> None:
    with trio.fail_after(60):
        async with store.serving() as actor:
            for number in range(50):
                await actor.do(store.insert, f"p{number}")
            before = store.path.stat().st_size
            grown = log_bytes(store)
            commits = store.commits.count
            await trio.sleep(3)
            assert store.commits.count == commits + 1
            assert store.path.stat().st_size >= before
            await trio.sleep(30)
            assert store.commits.count == commits + 1, "nothing to move, nothing done"
            await actor.do(store.insert, "next")
            assert store.writer.wal_frames < 20
            assert log_bytes(store) == grown


async def test_busy_store_moves_its_log_too_and_so_bounds_it(
    autojump_clock: Clock, store: "Store"
) -> None:
    content = "x" * 4_000

    def fill(tx: Transaction, number: int) -> None:
        for part in range(200):
            store.insert(tx, f"{number}-{part}-{content}")

    frames: list[int] = []
    with trio.fail_after(60):
        async with store.serving() as actor:
            for number in range(12):
                await actor.do(fill, number)
                frames.append(store.writer.wal_frames)
    assert max(frames) < CHECKPOINT_FRAMES + 1_200
    assert sum(later < earlier for earlier, later in itertools.pairwise(frames)) >= 1


async def test_close_empties_the_log(autojump_clock: Clock, store: "Store") -> None:
    with trio.fail_after(10):
        async with store.serving() as actor:
            await actor.do(store.insert, "one")
            actor.stop()
        await actor.close()
    assert not store.path.with_name("state.sqlite-wal").exists()
    assert store.names() == {"one"}
