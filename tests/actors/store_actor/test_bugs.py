"""A bug in the store actor itself ends it, and whoever waits for an answer is told."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from actors.store_actor import INBOX_MAX, StoreActor
from store.batch import Batch
from store.errors import StoreDown
from store.transaction import Transaction

if TYPE_CHECKING:
    from tests.actors.store_actor.conftest import Store

Clock = trio.testing.MockClock

CALLERS = INBOX_MAX + 50
"""More than have room in the inbox."""


def bug(*_: object) -> None:
    raise ZeroDivisionError


async def serve_to_its_end(actor: StoreActor) -> None:
    with pytest.raises(ZeroDivisionError):
        await actor.serve()


class Callers:
    """Who waits for the actor, and who of them was told that it has stopped."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.names: list[str] = []
        self.told: list[str] = []
        self.scopes: dict[str, trio.CancelScope] = {}
        self._nursery = nursery

    async def ask(self, name: str, call: Callable[[], Awaitable[str]]) -> None:
        self.names.append(name)
        self._nursery.start_soon(self._ask, name, call)
        if len(self.names) >= INBOX_MAX:
            await trio.testing.wait_all_tasks_blocked()

    async def _ask(self, name: str, call: Callable[[], Awaitable[str]]) -> None:
        with trio.CancelScope() as self.scopes[name]:
            try:
                await call()
            except StoreDown:
                self.told.append(name)


@pytest.mark.parametrize("place", ["begin", "commit"])
async def test_nobody_waits_for_a_store_actor_that_ends_by_a_bug(
    autojump_clock: Clock, store: "Store", monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Neither who was taken, nor who waits in a lane or for room, nor who cannot be cancelled."""

    def insert_long(tx: Transaction) -> str:
        return store.insert(tx, "long")

    actor = store.actor
    monkeypatch.setattr(Batch, place, bug)
    store.commits.gate = trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            callers = Callers(nursery)
            for number in range(CALLERS):
                await callers.ask(f"p{number}", partial(actor.do, store.insert, f"p{number}"))
            await callers.ask("urgent", partial(actor.do_urgent, store.insert, "urgent"))
            await callers.ask("long", partial(actor.do_long, insert_long))
            nursery.start_soon(serve_to_its_end, actor)
            await trio.testing.wait_all_tasks_blocked()
            if place == "commit":
                assert callers.told == []
                callers.scopes["urgent"].cancel()  # Taken first: it waits for its outcome.
            store.commits.gate.set()
        with pytest.raises(StoreDown):
            await actor.do(store.insert, "later")
    assert sorted(callers.told) == sorted(callers.names)
    store.writer.rollback()
    assert store.names() == set()
