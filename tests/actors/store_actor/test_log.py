"""Behaviour of the store actor towards the write-ahead log."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import itertools
from typing import TYPE_CHECKING

import apsw
import pytest
import trio
import trio.testing

from actors import store_actor
from actors.store_actor import (
    CHECKPOINT_FRAMES,
    IDLE_BEFORE_CHECKPOINT_MAX_S,
    StoreActor,
)
from store import wal
from store.errors import StorageFault, StoreDown
from store.opening import open_reader
from store.transaction import Transaction
from store.wal import Checkpoint, CheckpointMode

if TYPE_CHECKING:
    from tests.actors.store_actor.conftest import Store

Clock = trio.testing.MockClock


def log_bytes(store: "Store") -> int:
    return store.path.with_name("state.sqlite-wal").stat().st_size


def frames_left(store: "Store") -> int:
    """Frames that only the log holds, as a checkpoint that moves nothing counts them."""
    frames, copied = store.writer.connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)
    return frames - copied


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


async def test_log_that_a_reader_holds_is_moved_in_a_quiet_moment_after_it_left(
    autojump_clock: Clock, store: "Store"
) -> None:
    """Nothing has to be written for it."""
    reader = open_reader(store.path)
    with trio.fail_after(300):
        async with store.serving() as actor:
            await actor.do(store.insert, "one")
            with reader.snapshot() as view:
                view.execute("SELECT count(*) FROM projects").fetchall()
                await actor.do(store.insert, "two")
                await trio.sleep(30)
                assert frames_left(store) > 0
            await trio.sleep(IDLE_BEFORE_CHECKPOINT_MAX_S)
            assert frames_left(store) == 0
            commits = store.commits.count
            await trio.sleep(100)
            assert store.commits.count == commits
    reader.close()


async def test_log_that_piles_up_behind_a_reader_is_called_crowded_until_it_has_been_moved(
    autojump_clock: Clock, store: "Store"
) -> None:
    store.actor = StoreActor(store.writer, store.world, checkpoint_frames=20, log_frames_max=100)
    reader = open_reader(store.path)
    with trio.fail_after(300):
        async with store.serving() as actor:
            await actor.do(store.insert, "first")
            number = 0
            with reader.snapshot() as view:
                view.execute("SELECT count(*) FROM projects").fetchall()
                while not actor.is_log_crowded.value:
                    number += 1
                    assert store.writer.wal_frames < 150
                    await actor.do(store.insert, f"p{number}")
                assert store.writer.wal_frames >= 100
            await trio.sleep(3)
            assert not actor.is_log_crowded.value
            assert frames_left(store) == 0
    reader.close()


async def test_checkpoints_of_a_busy_store_are_slices_of_bounded_size(
    autojump_clock: Clock, store: "Store", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal waits behind one of them."""
    store.actor = StoreActor(store.writer, store.world, checkpoint_frames=50)
    slices: list[int] = []

    def measured(connection: apsw.Connection, mode: CheckpointMode) -> Checkpoint:
        done = wal.checkpoint(connection, mode)
        slices.append(done.copied)
        return done

    monkeypatch.setattr(store_actor, "checkpoint", measured)
    batch: list[int] = [0]
    with trio.fail_after(60):
        async with store.serving() as actor:
            for number in range(200):
                before = store.writer.wal_frames
                await actor.do(store.insert, f"p{number}")
                batch.append(store.writer.wal_frames - before)
    assert len(slices) >= 4
    assert max(slices) < 50 + max(batch)


async def test_renewal_that_came_during_a_checkpoint_is_the_next_thing_that_runs(
    autojump_clock: Clock, store: "Store"
) -> None:
    """It waits for one slice and not for the commands that came before it."""
    order: list[str] = []

    def noted(tx: Transaction, name: str) -> None:
        store.insert(tx, name)
        order.append(name)

    with trio.fail_after(60):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            await actor.do(store.insert, "first")
            store.commits.gate = trio.Event()
            await trio.sleep(3)  # The quiet moment: the checkpoint hangs in the disk.
            for number in range(100):
                nursery.start_soon(actor.do, noted, f"p{number}")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(actor.do_urgent, noted, "renewal")
            await trio.testing.wait_all_tasks_blocked()
            assert order == []
            store.commits.gate.set()
    assert order[0] == "renewal"
    assert len(order) == 101


async def test_log_is_cut_to_its_limit_when_it_begins_anew(
    autojump_clock: Clock, store: "Store"
) -> None:
    """A long reader leaves a large file behind only until the next commit."""
    limit = 1_000_000
    store.writer.connection.authorizer, kept = None, store.writer.connection.authorizer
    store.writer.connection.pragma("journal_size_limit", limit)
    store.writer.connection.authorizer = kept

    def fill(tx: Transaction) -> None:
        for part in range(500):
            store.insert(tx, f"{part}-{'x' * 4_000}")

    with trio.fail_after(60):
        async with store.serving() as actor:
            await actor.do(fill)
            assert log_bytes(store) > limit
            await trio.sleep(3)
            await actor.do(store.insert, "next")
            assert log_bytes(store) <= limit


async def test_failing_checkpoint_ends_the_store_and_the_log_keeps_everything(
    autojump_clock: Clock, store: "Store", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is answered has its answer, who comes later is refused, the next start looks."""

    def fail(_connection: apsw.Connection, _mode: CheckpointMode) -> Checkpoint:
        raise StorageFault("FullError")

    monkeypatch.setattr(store_actor, "checkpoint", fail)
    ended: list[StorageFault] = []

    async def serve() -> None:
        try:
            await store.actor.serve()
        except StorageFault as fault:
            ended.append(fault)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            await store.actor.do(store.insert, "one")
        assert len(ended) == 1
        with pytest.raises(StoreDown):
            await store.actor.do(store.insert, "two")
        with pytest.raises(StorageFault):
            await store.actor.close()
    assert log_bytes(store) > 0
    assert store.names() == {"one"}


async def test_close_of_a_file_that_still_has_to_be_looked_at_leaves_the_log(
    autojump_clock: Clock, store: "Store"
) -> None:
    """By it the next start knows that the look is owed."""
    store.actor.owe_check()
    with trio.fail_after(10):
        async with store.serving() as actor:
            await actor.do(store.insert, "one")
            actor.stop()
        await actor.close()
    assert log_bytes(store) > 0
    assert store.names() == {"one"}


async def test_close_empties_the_log(autojump_clock: Clock, store: "Store") -> None:
    with trio.fail_after(10):
        async with store.serving() as actor:
            await actor.do(store.insert, "one")
            actor.stop()
        await actor.close()
    assert not store.path.with_name("state.sqlite-wal").exists()
    assert store.names() == {"one"}
