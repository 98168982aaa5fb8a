"""A whole server in the test's own loop, its children scripted."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import apsw
import pytest
import trio
import trio.testing

from actors.serving import Server
from actors.startup import Started
from pi_workflows.client.asynchronous import LiveClient, unix_connector
from pi_workflows.protocol.paths import StatePaths
from runtime.exception_groups import sole_error

if TYPE_CHECKING:
    from tests.actors.conftest import Bench


@dataclass
class Running:
    """A server and how it ended.

    Attributes:
        failure: why it ended; None while it runs and after an orderly end.
        ended: set with its end.
    """

    paths: StatePaths
    bench: "Bench"
    server: Server
    ended: trio.Event
    failure: BaseException | None = None

    def steal_epoch(self) -> None:
        """Let another server take the database over."""
        connection = apsw.Connection(str(self.paths.database))
        connection.execute("UPDATE workflow_host_state SET epoch = epoch + 1")
        connection.close()

    def client(self) -> LiveClient:
        return LiveClient(unix_connector(self.paths.socket))

    async def serve(self, undo: AsyncExitStack) -> None:
        try:
            async with undo:
                await self.server.run()
        except BaseException as raised:
            self.failure = sole_error(raised)
            if not isinstance(self.failure, Exception):
                raise
        finally:
            self.ended.set()


Start: TypeAlias = Callable[..., AbstractAsyncContextManager[Running]]
Begin: TypeAlias = Callable[[AsyncExitStack], Awaitable[Started]]


@pytest.fixture
def start(begin: Begin, make_bench: Callable[[Started], "Bench"]) -> Start:
    """Start a server inside a block; its end is awaited or forced when the block is left."""

    @asynccontextmanager
    async def running(*, idle_exit_ms: int | None = None) -> AsyncIterator[Running]:
        async with trio.open_nursery() as nursery:
            undo = AsyncExitStack()
            started = await begin(undo)
            services = started.services
            server = Server(started, services.log, idle_exit_ms)
            bench = make_bench(started)
            found = Running(services.paths, bench, server, trio.Event())
            nursery.start_soon(found.serve, undo)
            await trio.testing.wait_all_tasks_blocked()
            yield found
            nursery.cancel_scope.cancel()

    return running
