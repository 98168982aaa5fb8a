"""Behaviour of batches: their bounds, their one commit, and what a failure does to neighbours."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio
import trio.testing

from actors.batch_pace import BATCH_S, SLICE_S
from actors.store_actor import BATCH_MAX, PORTION_MAX, StoreActor
from store.transaction import Transaction

if TYPE_CHECKING:
    from tests.actors.store_actor.conftest import Store

Clock = trio.testing.MockClock


async def test_refusal_is_told_only_when_what_it_rests_on_is_durable(
    autojump_clock: Clock, store: "Store"
) -> None:
    """A neighbour in the same batch may have caused it, and its commit may still fail."""
    store.commits.gate = trio.Event()
    told: list[str] = []

    def refuse(tx: Transaction) -> None:
        raise store.refused("no")

    async def ask(actor: StoreActor) -> None:
        with contextlib.suppress(store.refused):
            await actor.do(refuse)
        told.append("refused")

    with trio.fail_after(10):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            nursery.start_soon(ask, actor)
            nursery.start_soon(actor.do, store.insert, "neighbour")
            await trio.testing.wait_all_tasks_blocked()
            assert told == []
            store.commits.gate.set()
    assert told == ["refused"]


async def test_failure_after_a_write_costs_its_neighbours_no_commit_of_their_own(
    autojump_clock: Clock, store: "Store"
) -> None:
    """The batch begins again, with a savepoint for each of its commands."""
    store.commits.gate = trio.Event()
    outcomes: list[str] = []

    async def ask(actor: StoreActor, command: Callable[..., str], name: str) -> None:
        try:
            outcomes.append(await actor.do(command, name))
        except store.refused:
            outcomes.append(f"not {name}")

    with trio.fail_after(10):
        async with store.serving() as actor:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, actor, store.insert, "first")
                await trio.testing.wait_all_tasks_blocked()
                for number in range(9):
                    command = store.refuse if number == 4 else store.insert
                    nursery.start_soon(ask, actor, command, f"p{number}")
                await trio.testing.wait_all_tasks_blocked()
                store.commits.gate.set()
            assert store.commits.count == 2
    assert sorted(outcomes) == sorted(["first", "not p4", *store.names() - {"first"}])
    assert len(store.names()) == 9


async def test_many_callers_share_few_commits_and_a_refused_one_harms_nobody(
    autojump_clock: Clock, store: "Store"
) -> None:
    refused: list[str] = []

    async def ask(actor: StoreActor, number: int) -> None:
        command = store.refuse if number % 3 == 0 else store.insert
        try:
            await actor.do(command, f"p{number}")
        except store.refused:
            refused.append(f"p{number}")

    with trio.fail_after(10):
        async with store.serving() as actor:
            async with trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(ask, actor, number)
            commits = store.commits.count
    assert len(refused) == 34
    assert store.names() == {f"p{number}" for number in range(100)} - set(refused)
    assert commits == 1


async def test_batch_is_bounded_by_count(autojump_clock: Clock, store: "Store") -> None:
    store.commits.gate = trio.Event()
    with trio.fail_after(10):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            for number in range(BATCH_MAX * 2):
                nursery.start_soon(actor.do, store.insert, f"p{number}")
            await trio.testing.wait_all_tasks_blocked()
            store.commits.gate.set()
        assert len(store.names()) == BATCH_MAX * 2
    assert store.commits.count >= 2


async def test_batch_is_bounded_by_its_time_on_the_loop(
    autojump_clock: Clock, store: "Store"
) -> None:
    """After 12 ms what waits goes into the next batch, so that a renewal comes soon."""
    store.commits.gate = trio.Event()
    nows: list[int] = []

    def slow(tx: Transaction) -> None:
        nows.append(tx.now)
        autojump_clock.jump(BATCH_S)

    with trio.fail_after(10):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(actor.do, slow)
            await trio.testing.wait_all_tasks_blocked()
            store.commits.gate.set()
    assert len(nows) == 5
    assert len(set(nows)) > 1, "not all of one batch"


async def test_many_that_wait_already_do_not_make_a_batch_longer_than_its_time(
    autojump_clock: Clock, store: "Store"
) -> None:
    """The clock is read again after each portion of them."""
    store.commits.gate = trio.Event()
    nows: list[int] = []

    def slow(tx: Transaction) -> None:
        nows.append(tx.now)
        autojump_clock.jump(BATCH_S / 4)

    with trio.fail_after(10):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(actor.do, slow)
            await trio.testing.wait_all_tasks_blocked()
            store.commits.gate.set()
    assert len(nows) == 100
    assert max(nows.count(now) for now in set(nows)) <= 1 + PORTION_MAX


async def test_long_batch_gives_others_a_turn_every_few_milliseconds(
    autojump_clock: Clock, store: "Store"
) -> None:
    """It is one batch all the same, with one commit."""
    store.commits.gate = trio.Event()
    seen: list[str] = []

    def slow(tx: Transaction) -> None:
        seen.append("command")
        autojump_clock.jump(SLICE_S * 1.5)

    async def other() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            if seen and seen[-1] != "turn":
                seen.append("turn")

    with trio.fail_after(10):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            nursery.start_soon(actor.do, slow)
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as callers:
                for _ in range(3):
                    callers.start_soon(actor.do, slow)
                await trio.testing.wait_all_tasks_blocked()
                callers.start_soon(other)
                store.commits.gate.set()
                while store.commits.count < 2:
                    await trio.lowlevel.checkpoint()
                callers.cancel_scope.cancel()
    assert seen.count("command") == 4
    batch = seen[seen.index("command", 1) :]
    # In which order tasks run within a turn of the loop is chance, so one of two is certain.
    assert "turn" in batch[: len(batch) - batch[::-1].index("command")]


async def test_commands_of_one_batch_share_one_instant(
    autojump_clock: Clock, store: "Store"
) -> None:
    store.commits.gate = trio.Event()
    nows: list[int] = []
    with trio.fail_after(10):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            nursery.start_soon(actor.do, lambda tx: nows.append(tx.now))
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                nursery.start_soon(actor.do, lambda tx: nows.append(tx.now))
            await trio.sleep(5)
            store.commits.gate.set()
    assert nows == [nows[0]] + [nows[0] + 5_000] * 3
