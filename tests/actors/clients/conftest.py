"""A gateway on a real Unix socket, and peers that speak the protocol byte by byte."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest
import trio

from actors.gateway import Gateway
from actors.operations import Operations
from actors.run_control import RunControl
from actors.server_views import ServerViews
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import encode_frame, parse_canonical
from pi_workflows.protocol.ids import RunId
from pi_workflows.protocol.states import ResourceType
from pi_workflows.protocol.version import CLIENT_PROTOCOL
from runtime.line_stream import LineStream
from runtime.listener import open_unix_listener
from store.transaction import Change, Transaction

if TYPE_CHECKING:
    from tests.actors.conftest import Bench

EVENT: Final = "event"
UPDATE_TITLE: Final = "UPDATE runs SET title = :title WHERE run_id = :run_id"


class Peer:
    """One connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream: Final = stream
        self.lines: Final = LineStream(stream)
        self.hello: JsonObject = {}
        self.events: Final[deque[JsonObject]] = deque()
        self._asked = 0

    def request(
        self,
        operation: str,
        payload: JsonObject | None = None,
        *,
        run_id: str | None = None,
        key: str | None = None,
        request_id: str | None = None,
    ) -> JsonObject:
        """Return a request with new ids, or with the given ones."""
        self._asked += 1
        message: JsonObject = {
            "schema": CLIENT_PROTOCOL,
            "type": "request",
            "requestId": request_id or f"request-{id(self)}-{self._asked}",
            "clientId": "client-1",
            "operation": operation,
            "idempotencyKey": key or f"key-{id(self)}-{self._asked}",
            "payload": payload or {},
        }
        return message if run_id is None else {**message, "runId": run_id}

    async def send(self, message: JsonObject) -> None:
        await self.lines.send(encode_frame(message))

    async def receive(self) -> JsonObject | None:
        """Return the next message; None when the server has closed the connection."""
        try:
            line = await self.lines.receive()
        except trio.BrokenResourceError:
            return None
        return None if line is None else parse_canonical(line)

    async def answer(self, request: JsonObject) -> JsonObject:
        """Send a request and return its response; events that come first are kept."""
        await self.send(request)
        while True:
            message = await self.receive()
            assert message is not None, "the server has closed the connection"
            if message["type"] == EVENT:
                self.events.append(message)
            else:
                assert message["requestId"] == request["requestId"]
                return message

    async def ask(
        self,
        operation: str,
        payload: JsonObject | None = None,
        *,
        run_id: str | None = None,
        key: str | None = None,
    ) -> JsonObject:
        return await self.answer(self.request(operation, payload, run_id=run_id, key=key))

    async def event(self) -> JsonObject:
        """Return the next event."""
        if self.events:
            return self.events.popleft()
        message = await self.receive()
        assert message is not None
        assert message["type"] == EVENT
        return message

    async def is_closed(self) -> bool:
        """Read to the end: whether the server closes the connection without a word."""
        return await self.receive() is None


@dataclass
class Front:
    """A bench with its gateway.

    Attributes:
        populations: numbers of clients the gateway reported.
        stopping: set when a client asked the server to stop.
    """

    bench: "Bench"
    gateway: Gateway
    views: ServerViews
    populations: list[int]
    stopping: trio.Event
    peers: list[Peer] = field(default_factory=list)

    async def connect(self) -> Peer:
        """Connect and read the hello."""
        peer = Peer(await trio.open_unix_socket(str(self.bench.paths.socket)))
        self.peers.append(peer)
        hello = await peer.receive()
        assert hello is not None, "the server has closed the connection"
        peer.hello = hello
        return peer

    async def show(self, run_id: RunId, *, title: str) -> None:
        """Change what a run shows, and let its viewers know."""

        def change(tx: Transaction) -> None:
            tx.execute(UPDATE_TITLE, {"run_id": run_id, "title": title})
            tx.changes.add(Change(ResourceType.RUN, run_id))

        await self.bench.services.store.do(change)


@asynccontextmanager
async def _open_front(bench: "Bench") -> AsyncIterator[Front]:
    services = bench.services
    stopping = trio.Event()
    populations: list[int] = []
    views = ServerViews(services)
    operations = Operations(services, RunControl(services, stopping.set), views)
    gateway = Gateway(services, operations, populations.append)
    front = Front(bench, gateway, views, populations, stopping)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(views.forget_unused)
        nursery.start_soon(gateway.run, open_unix_listener(bench.paths.socket))
        yield front
        for peer in front.peers:
            await trio.aclose_forcefully(peer.stream)
        nursery.cancel_scope.cancel()


@pytest.fixture
async def front(bench: "Bench") -> AsyncIterator[Front]:
    """A gateway that serves; the test asks for `autojump_clock` itself."""
    async with _open_front(bench) as opened:
        yield opened
