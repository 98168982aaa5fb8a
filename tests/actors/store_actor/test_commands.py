"""Behaviour of the store actor: answers, batches, lanes, cancellation."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import contextlib
import random
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from actors.store_actor import INBOX_MAX, StoreActor
from pi_workflows.protocol.states import ResourceType
from runtime.world import ThreadCommitExecutor
from store.transaction import Change, LongWork, Transaction

if TYPE_CHECKING:
    from tests.actors.store_actor.conftest import Store

Clock = trio.testing.MockClock
threaded = pytest.mark.parametrize("commits", [ThreadCommitExecutor], indirect=True)


@threaded
async def test_answer_is_given_only_when_it_is_durable(store: "Store") -> None:
    with trio.fail_after(10):
        async with store.serving() as actor:
            assert await actor.do(store.insert, "one") == "one"
            assert store.names() == {"one"}
            store.commits.gate = trio.Event()
            answered = []

            async def ask() -> None:
                answered.append(await actor.do(store.insert, "two"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                assert answered == []
                assert store.names() == {"one"}
                store.commits.gate.set()
            assert store.names() == {"one", "two"}


@threaded
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_cancelled_means_not_executed(store: "Store", seed: int) -> None:
    """Whatever the moment: nothing of it is written, or its caller has the result."""
    chance = random.Random(seed)  # noqa: S311 - a seed to repeat a failure with
    returned: set[str] = set()
    scopes: list[trio.CancelScope] = []

    async def ask(actor: StoreActor, name: str) -> None:
        with trio.CancelScope() as scope:
            scopes.append(scope)
            if chance.random() < 0.1:
                scope.cancel()
            returned.add(await actor.do(store.insert, name))

    with trio.fail_after(20):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(ask, actor, f"p{number}")
                if chance.random() < 0.2:
                    await trio.lowlevel.checkpoint()
                if scopes and chance.random() < 0.6:
                    chance.choice(scopes).cancel()
    assert store.names() == returned
    assert 20 < len(returned) < 300


async def test_caller_cancelled_while_its_batch_commits_gets_the_outcome(
    autojump_clock: Clock, store: "Store"
) -> None:
    store.commits.gate = trio.Event()
    results: list[str] = []
    with trio.fail_after(10):
        async with store.serving() as actor, trio.open_nursery() as nursery:

            async def ask() -> None:
                with trio.CancelScope() as scope:
                    scopes.append(scope)
                    results.append(await actor.do(store.insert, "one"))

            scopes: list[trio.CancelScope] = []
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            scopes[0].cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert results == []
            store.commits.gate.set()
    assert results == ["one"]
    assert not scopes[0].cancelled_caught


async def test_urgent_commands_run_before_those_that_wait_already(
    autojump_clock: Clock, store: "Store"
) -> None:
    store.commits.gate = trio.Event()
    order: list[str] = []

    def note(tx: Transaction, name: str) -> None:
        order.append(name)

    with trio.fail_after(10):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            nursery.start_soon(actor.do, note, "first")
            await trio.testing.wait_all_tasks_blocked()
            for number in range(3):
                nursery.start_soon(actor.do, note, f"normal {number}")
                await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(actor.do_urgent, note, "renewal")
            await trio.testing.wait_all_tasks_blocked()
            store.commits.gate.set()
    assert order == ["first", "renewal", "normal 0", "normal 1", "normal 2"]


async def test_full_inbox_does_not_hold_up_urgent_commands(
    autojump_clock: Clock, store: "Store"
) -> None:
    store.commits.gate = trio.Event()
    order: list[str] = []

    def note(tx: Transaction, name: str) -> None:
        order.append(name)

    with trio.fail_after(10):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            for number in range(INBOX_MAX + 50):
                nursery.start_soon(actor.do, note, f"normal {number}")
            await trio.testing.wait_all_tasks_blocked()
            taken = len(order)
            nursery.start_soon(actor.do_urgent, note, "renewal")
            await trio.testing.wait_all_tasks_blocked()
            store.commits.gate.set()
    assert order[taken] == "renewal"
    assert len(order) == INBOX_MAX + 51


async def test_listeners_hear_of_accepted_commands_once_they_are_durable(
    autojump_clock: Clock, store: "Store"
) -> None:
    heard: list[tuple[frozenset[Change], set[str]]] = []

    def changing(tx: Transaction, name: str, *, fails: bool = False) -> None:
        store.insert(tx, name)
        tx.changes.add(Change(ResourceType.EFFECT, name))
        if fails:
            raise store.refused("no")

    async def ask(actor: StoreActor, name: str) -> None:
        with contextlib.suppress(store.refused):
            await actor.do(changing, name, fails=name == "no")

    store.actor.listen(lambda changes: heard.append((changes, store.names())))
    with trio.fail_after(10):
        async with store.serving() as actor:
            await actor.do(store.insert, "changes nothing that anybody watches")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, actor, "yes")
                nursery.start_soon(ask, actor, "no")
    changed = frozenset[Change]().union(*(changes for changes, _ in heard))
    assert changed == {Change(ResourceType.EFFECT, "yes")}
    for changes, names in heard:
        assert {change.aggregate_key for change in changes} <= names


@threaded
async def test_long_command_leaves_the_loop_to_others_and_is_answered_when_durable(
    store: "Store",
) -> None:
    """It holds the commit thread, which waits for the loop here: on the loop it could not end."""
    from_thread: list[str] = []

    def long(tx: Transaction) -> str:
        tx.take_long()
        trio.from_thread.run_sync(lambda: from_thread.append("the loop goes on"), trio_token=token)
        return store.insert(tx, "long")

    token = trio.lowlevel.current_trio_token()
    with trio.fail_after(10):
        async with store.serving() as actor:
            assert await actor.do_long(long) == "long"
            assert store.names() == {"long"}
    assert from_thread == ["the loop goes on"]


async def test_long_command_among_short_ones_runs_alone_and_none_is_lost(
    autojump_clock: Clock, store: "Store"
) -> None:
    patient: list[bool] = []

    def look(tx: Transaction, name: str) -> str:
        patient.append(tx.may_take_long)
        return store.insert(tx, name)

    store.commits.gate = trio.Event()
    with trio.fail_after(10):
        async with store.serving() as actor:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(actor.do, look, "first")
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(actor.do, look, "short")
                nursery.start_soon(actor.do_long, lambda tx: look(tx, "long"))
                nursery.start_soon(actor.do_long, lambda tx: look(tx, "longer"))
                nursery.start_soon(actor.do, look, "last")
                await trio.testing.wait_all_tasks_blocked()
                store.commits.gate.set()
            assert store.names() == {"first", "short", "long", "longer", "last"}
    assert sorted(patient) == [False, False, False, True, True]


async def test_long_command_that_is_refused_writes_nothing(
    autojump_clock: Clock, store: "Store"
) -> None:
    def refuse(tx: Transaction) -> None:
        store.insert(tx, "refused")
        raise store.refused("no")

    with trio.fail_after(10):
        async with store.serving() as actor:
            with pytest.raises(store.refused):
                await actor.do_long(refuse)
            with pytest.raises(LongWork):
                await actor.do(lambda tx: tx.take_long())
            await actor.do(store.insert, "kept")
    assert store.names() == {"kept"}
