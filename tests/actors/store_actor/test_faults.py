"""Behaviour of the store actor when the world fails, and at its end."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import apsw
import pytest
import trio
import trio.testing

from actors.store_actor import StoreActor
from store.damage import StateDamaged
from store.database import Writer
from store.errors import (
    EpochLost,
    OutcomeUnknown,
    StateBusyError,
    StateIncompatibleError,
    StoreDown,
)
from store.transaction import Transaction

if TYPE_CHECKING:
    from tests.actors.store_actor.conftest import Store

Clock = trio.testing.MockClock


@pytest.fixture
def other(store: "Store") -> Iterator[apsw.Connection]:
    """A connection of somebody else to the same file."""
    connection = apsw.Connection(str(store.path))
    yield connection
    connection.close()


async def test_foreign_write_lock_is_waited_for_on_the_loop_and_given_up_after_5_s(
    autojump_clock: Clock, store: "Store", other: apsw.Connection
) -> None:
    """Everything else goes on meanwhile, and the store serves again afterwards.

    Case: A27.
    """
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.1)
            ticks += 1

    with trio.fail_after(60):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            other.execute("BEGIN IMMEDIATE")
            began_at = trio.current_time()
            with pytest.raises(StateBusyError):
                await actor.do(store.insert, "one")
            assert 4.9 <= trio.current_time() - began_at <= 5.0
            assert ticks >= 48
            other.execute("ROLLBACK")
            assert await actor.do(store.insert, "two") == "two"
            nursery.cancel_scope.cancel()
    assert store.names() == {"two"}


async def test_lock_released_in_time_delays_the_command_and_nothing_else(
    autojump_clock: Clock, store: "Store", other: apsw.Connection
) -> None:
    """Case: A27."""
    with trio.fail_after(60):
        async with store.serving() as actor, trio.open_nursery() as nursery:
            other.execute("BEGIN IMMEDIATE")
            nursery.start_soon(actor.do, store.insert, "one")
            await trio.sleep(4.9)
            assert store.names() == set()
            other.execute("ROLLBACK")
            await trio.sleep(0.06)
            assert store.names() == {"one"}


async def test_nobody_waits_for_a_foreign_write_lock_in_the_turn_of_others(
    autojump_clock: Clock, store: "Store", other: apsw.Connection
) -> None:
    """Who came while another one waited is refused with him, and long work is not.

    Case: A27.
    """
    refused_at: list[float] = []
    done: list[str] = []

    async def ask(name: str) -> None:
        try:
            await store.actor.do(store.insert, name)
        except StateBusyError:
            refused_at.append(trio.current_time())

    async def insist(name: str) -> None:
        done.append(await store.actor.do_long(partial(store.insert, name=name)))

    with trio.fail_after(60):
        async with store.serving(), trio.open_nursery() as nursery:
            other.execute("BEGIN IMMEDIATE")
            began_at = trio.current_time()
            for number in range(20):
                nursery.start_soon(ask, f"n{number}")
            nursery.start_soon(insist, "long")
            await trio.sleep(3)
            nursery.start_soon(ask, "later")
            await trio.sleep(2)
            assert len(refused_at) == 21
            assert max(refused_at) - began_at <= 5.0
            other.execute("ROLLBACK")
    assert store.names() == {"long"}
    assert done == ["long"]


async def test_failed_commit_has_an_unknown_outcome_for_every_caller_and_ends_the_store(
    autojump_clock: Clock, store: "Store", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is answered from a guess; who comes later is told that nothing was executed."""
    errors: list[Exception] = []

    def fail(_: Writer) -> None:
        raise OutcomeUnknown

    async def ask(name: str) -> None:
        try:
            await store.actor.do(store.insert, name)
        except (OutcomeUnknown, StoreDown) as error:
            errors.append(error)

    async def serve() -> None:
        try:
            await store.actor.serve()
        except OutcomeUnknown as error:
            ended.append(error)

    ended: list[OutcomeUnknown] = []
    monkeypatch.setattr(Writer, "commit", fail)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ask, f"p{number}")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(serve)
        with pytest.raises(StoreDown):
            await store.actor.do(store.insert, "later")
    assert len(ended) == 1
    assert len(errors) == 20
    assert all(isinstance(error, OutcomeUnknown) for error in errors)
    assert len({id(error) for error in [*errors, *ended]}) == 21


async def test_store_whose_epoch_is_lost_writes_nothing_more(
    autojump_clock: Clock, store: "Store"
) -> None:
    claim = store.claim("server-1")
    store.actor.fence(claim)
    assert store.actor.claim == claim
    ended: list[EpochLost] = []

    async def serve() -> None:
        try:
            await store.actor.serve()
        except EpochLost as error:
            ended.append(error)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            assert await store.actor.do(store.insert, "mine") == "mine"
            store.claim("server-2")
            with pytest.raises(EpochLost):
                await store.actor.do(store.insert, "too late")
        with pytest.raises(StoreDown):
            await store.actor.do(store.insert, "much too late")
    assert len(ended) == 1
    assert store.names() == {"mine"}


async def test_schema_changed_underneath_ends_the_store(
    autojump_clock: Clock, store: "Store", other: apsw.Connection
) -> None:
    other.execute("CREATE TABLE stranger (id INTEGER)")

    async def serve() -> None:
        with pytest.raises(StateIncompatibleError):
            await store.actor.serve()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with pytest.raises(StateIncompatibleError):
                await store.actor.do(store.insert, "one")


async def test_stop_answers_what_was_taken_and_refuses_the_rest(
    autojump_clock: Clock, store: "Store"
) -> None:
    store.commits.gate = trio.Event()
    outcomes: dict[str, str] = {}

    async def ask(name: str) -> None:
        try:
            outcomes[name] = await store.actor.do(store.insert, name)
        except StoreDown:
            outcomes[name] = "refused"

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(store.actor.serve)
            nursery.start_soon(ask, "taken")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ask, "waiting")
            await trio.testing.wait_all_tasks_blocked()
            store.actor.stop()
            await trio.testing.wait_all_tasks_blocked()
            store.commits.gate.set()
        await ask("later")
    assert outcomes == {"taken": "taken", "waiting": "refused", "later": "refused"}
    assert store.names() == {"taken"}


async def test_cancelled_actor_finishes_its_batch_and_refuses_later_callers(
    autojump_clock: Clock, store: "Store"
) -> None:
    store.commits.gate = trio.Event()
    results: list[str] = []

    async def ask() -> None:
        results.append(await store.actor.do(store.insert, "one"))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery, trio.open_nursery() as serving:
            await serving.start(store.actor.serve)
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            serving.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
                store.commits.gate.set()
        with pytest.raises(StoreDown):
            await store.actor.do(store.insert, "two")
    assert results == ["one"]


async def test_command_that_destroys_the_transaction_harms_only_itself(
    autojump_clock: Clock, store: "Store"
) -> None:
    """Its neighbours run again, each alone, refused ones too: nobody was answered before."""
    store.commits.gate = trio.Event()
    outcomes: dict[str, str] = {}
    tries: list[str] = []

    def destroy(tx: Transaction, name: str) -> str:
        store.insert(tx, name)
        tx.connection.execute(
            "INSERT OR ROLLBACK INTO projects (project_id, canonical_path, created_at) "
            "VALUES ('same', 'same', 1)"
        )
        return name

    def refuse_once(tx: Transaction, name: str) -> str:
        tries.append(name)
        if len(tries) == 1:
            return store.refuse(tx, name)
        return store.insert(tx, name)

    async def ask(actor: StoreActor, command: Callable[..., str], name: str) -> None:
        try:
            outcomes[name] = await actor.do(command, name)
        except (store.refused, apsw.ConstraintError) as error:
            outcomes[name] = type(error).__name__

    with trio.fail_after(10):
        async with store.serving() as actor:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, actor, store.insert, "same")
                await trio.testing.wait_all_tasks_blocked()
                for command, name in (
                    (store.insert, "before"),
                    (refuse_once, "refused"),
                    (destroy, "destroyer"),
                    (store.insert, "after"),
                ):
                    nursery.start_soon(ask, actor, command, name)
                    await trio.testing.wait_all_tasks_blocked()
                store.commits.gate.set()
            assert await actor.do(store.insert, "later") == "later"
    assert outcomes == {
        "same": "same",
        "before": "before",
        "refused": "refused",
        "destroyer": "ConstraintError",
        "after": "after",
    }
    assert len(tries) == 3, "lightly, with savepoints, alone"
    assert store.names() == {"same", "before", "refused", "after", "later"}


async def test_command_cannot_end_the_transaction_of_its_neighbours(
    autojump_clock: Clock, store: "Store"
) -> None:
    def commit(tx: Transaction) -> None:
        store.insert(tx, "smuggled")
        tx.connection.execute("COMMIT")

    with trio.fail_after(10):
        async with store.serving() as actor:
            with pytest.raises(apsw.AuthError):
                await actor.do(commit)
            await actor.do(store.insert, "one")
    assert store.names() == {"one"}


@pytest.mark.parametrize("finder", ["a command", "a reader"])
async def test_damage_that_sqlite_finds_ends_the_store(
    autojump_clock: Clock, store: "Store", finder: str
) -> None:
    """Whoever meets it: nothing more is written to such a file.

    Case: D2.
    """
    ended: list[StateDamaged] = []

    def meet(tx: Transaction) -> None:
        store.insert(tx, "half")
        raise StateDamaged

    async def serve() -> None:
        try:
            await store.actor.serve()
        except StateDamaged as fault:
            ended.append(fault)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            assert await store.actor.do(store.insert, "before") == "before"
            if finder == "a command":
                with pytest.raises(StateDamaged):
                    await store.actor.do(meet)
            else:
                store.actor.end_damaged()
        with pytest.raises((StoreDown, StateDamaged)):
            await store.actor.do(store.insert, "later")
    assert len(ended) == 1
    assert store.names() == {"before"}
