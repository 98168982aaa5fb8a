"""Clients that ask for more than they take: raw connections to a simulated server."""

from contextlib import suppress
from typing import Final, final

import trio

from pi_workflows.chaos.simulated_world import HOME, SimulatedWorld
from pi_workflows.client.messages import Request
from pi_workflows.client.sans_io import Connection
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.paths import StatePaths
from runtime.simulation.chance import SeededIds
from runtime.simulation.network import SimulatedNetwork
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.streams import SimulatedStream
from store.chaos.watched import WatchedWriter
from store.errors import StateBusyError
from store.opening import connect_writer

_RECEIVE_BYTES: Final = 65_536
_ID_BYTES: Final = 128
"""In hexadecimal as long as an id may be: few frames fill a socket."""

_RETRY_S: Final = 0.25


@final
class Flooder:
    """One connection that does what no client of ours does.

    Attributes:
        asked: how many requests were taken as a whole.
    """

    def __init__(self, stream: SimulatedStream, ids: SeededIds) -> None:
        self._stream: Final = stream
        self._ids: Final = ids
        self._client_id: Final = self._id()
        self._connection = Connection()
        self.asked = 0

    async def greeted(self) -> None:
        """Wait for the hello."""
        while self._connection.hello is None:
            await self.take()

    async def ask(
        self, operation: str, payload: JsonObject | None = None, *, run_id: str | None = None
    ) -> int:
        """Send a request and return its size; read nothing."""
        request = Request(
            request_id=self._id(),
            client_id=self._client_id,
            operation=operation,
            idempotency_key=self._id(),
            payload=payload or {},
            run_id=run_id,
        )
        frame = self._connection.send(request)
        await self._stream.send_all(frame)
        self.asked += 1
        return len(frame)

    async def send(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        await self._stream.send_all(data)

    async def take(self) -> tuple[int, int]:
        """Return how many bytes have come, and how many answers are whole with them.

        Raises:
            trio.BrokenResourceError: the server has closed the connection.
        """
        data = await self._stream.receive_some(_RECEIVE_BYTES)
        if not data:
            raise trio.BrokenResourceError
        return len(data), len(self._connection.receive(data))

    async def leave(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    def _id(self) -> str:
        return self._ids.token_bytes(_ID_BYTES).hex()


async def flooder(world: SimulatedWorld) -> Flooder:
    """Return a connection of a process of its own, as soon as a server serves.

    Raises:
        trio.BrokenResourceError: the server has ended before it said hello.
    """
    process = world.machine.start("client", _wait_for_ever, is_elsewhere=True)
    network = SimulatedNetwork(world.machine.wires, process)
    ids = SeededIds(world.machine.chance.stream(f"ids of {process.identity}"))
    while True:
        try:
            connected = Flooder(await network.connect(StatePaths(HOME).socket), ids)
        except ConnectionRefusedError:
            await trio.sleep(_RETRY_S)
            continue
        await connected.greeted()
        return connected


async def lock_out(world: SimulatedWorld, for_s: float) -> None:
    """Hold the write lock of the database, as another program can: all commands have to wait.

    Nothing is held when there is no database, or when somebody writes just now.
    """
    storage = world.storage
    if not storage.paths.database.exists():
        return
    with world.book.quiet():
        other = WatchedWriter(connect_writer(storage.paths.database, vfs=storage.recording.vfs))
    try:
        other.keep_log()
        with suppress(StateBusyError):
            with world.book.quiet():
                other.begin_immediate()
            await trio.sleep(for_s)
    finally:
        with world.book.quiet():
            other.close()


async def _wait_for_ever(_: SimulatedProcess) -> int:
    await trio.sleep_forever()
    raise AssertionError
