"""A store actor with its file, and commands for it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import pytest
import trio
import trio.testing

from actors.store_actor import StoreActor
from runtime.world import CommitExecutor, InlineCommitExecutor, World
from store import host
from store.batch import Batch, run_alone
from store.creation import create_database
from store.errors import (
    Rejected,
)
from store.host import HostClaim, HostProcess
from store.opening import open_reader, open_writer
from store.transaction import Transaction

Clock = trio.testing.MockClock
Result = TypeVar("Result")

NOW: Final = 1_700_000_000_000
INSERT: Final = (
    "INSERT INTO projects (project_id, canonical_path, created_at) VALUES (:id, :id, 1)"
)


class Refused(Rejected):
    code = "REFUSED"


def insert(tx: Transaction, name: str) -> str:
    tx.execute(INSERT, {"id": name})
    return name


def refuse(tx: Transaction, name: str) -> str:
    insert(tx, name)
    raise Refused("not this one")


class CountedCommits:
    """Counts commits and can hold them up."""

    def __init__(self, executor: CommitExecutor) -> None:
        self._executor = executor
        self.count = 0
        self.gate: trio.Event | None = None

    async def run(self, work: Callable[[], Result]) -> Result:
        self.count += 1
        if self.gate is not None:
            with trio.CancelScope(shield=True):
                await self.gate.wait()
        return await self._executor.run(work)

    def close(self) -> None:
        self._executor.close()


class Store:
    """A store actor with its file."""

    refused = Refused
    insert = staticmethod(insert)
    refuse = staticmethod(refuse)

    def __init__(self, path: Path, world: World, commits: CountedCommits) -> None:
        self.path = path
        self.world = world
        self.commits = commits
        self.writer = open_writer(path)
        self.actor = StoreActor(self.writer, world)

    def names(self) -> set[str]:
        """The projects that are durable: a reader of its own sees them."""
        reader = open_reader(self.path)
        with reader.snapshot() as connection:
            found = {str(row[0]) for row in connection.execute("SELECT project_id FROM projects")}
        reader.close()
        return found

    def claim(self, holder: str) -> HostClaim:
        """Take the server's claim in the name of `holder`."""
        batch = Batch(self.writer, self.world.ids, self.world.clock.wall_ms)
        process = HostProcess(holder, 10, f"linux-proc-start:{holder}")
        return run_alone(batch, partial(host.acquire, process=process, holder_gone=True))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[StoreActor]:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.actor.serve)
            yield self.actor
            nursery.cancel_scope.cancel()


@pytest.fixture(params=[InlineCommitExecutor])
def commits(request: pytest.FixtureRequest) -> Iterator[CountedCommits]:
    executor = CountedCommits(request.param())
    yield executor
    executor.close()


@pytest.fixture
def store(home: Path, world: World, commits: CountedCommits) -> Iterator[Store]:
    path = home / "state.sqlite"
    home.chmod(0o700)
    assert create_database(path, now=NOW)
    opened = Store(path, replace(world, commits=commits), commits)
    yield opened
    if not opened.writer.closed:
        opened.writer.close()
