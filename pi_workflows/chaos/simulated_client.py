"""A client of a simulated server: the protocol's sans-IO core over a stream in memory."""

from collections.abc import Callable
from typing import Final, final

import trio

from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.client.errors import ConnectionLost
from pi_workflows.client.messages import Request, Response
from pi_workflows.client.sans_io import Connection, Reply, reply_of
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.protocol.states import CommandOutcome
from runtime.simulation.chance import SeededIds
from runtime.simulation.machine import Machine
from runtime.simulation.network import SimulatedNetwork
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.streams import SimulatedStream
from store.damage import StateDamaged

RETRY_S: Final = 0.25
"""Pause before a command is sent again after its connection was lost."""

REPLY_S: Final = 120.0
"""How long one sending waits for its reply before the connection is given up."""

COMMANDS: Final = frozenset(
    {
        "run.start",
        "run.pause",
        "run.resume",
        "run.cancel",
        "run.restart",
        "run.changeSettings",
        "effect.resolve",
    }
)
"""What leaves a receipt: the same key is answered the same way ever after."""

_AGAIN: Final = {outcome: frozenset({outcome}) for outcome in CommandOutcome} | {
    CommandOutcome.ACCEPTED: frozenset({CommandOutcome.ACCEPTED, CommandOutcome.ADOPTED})
}
"""How a repetition of what was answered so is answered."""

_RECEIVE_BYTES: Final = 65_536


@final
class SimulatedClient:
    """Sends one command at a time, again and again with the same key, until it is answered.

    Attributes:
        acknowledged: every accepted command: its operation and its receipt, in order.
    """

    def __init__(
        self,
        machine: Machine,
        process: SimulatedProcess,
        paths: StatePaths,
        repeats: Callable[[str], bool] = lambda _: False,
        told_of_damage: Callable[[], None] = lambda: None,
    ) -> None:
        """Describe a client.

        Args:
            process: owns the connections.
            repeats: says whether an operation that was answered is sent once more.
            told_of_damage: called for each answer that says that the file is damaged; the server
                is about to end then, so the command is sent again.
        """
        self._repeats: Final = repeats
        self._told_of_damage: Final = told_of_damage
        self._network: Final = SimulatedNetwork(machine.wires, process)
        self._paths: Final = paths
        self._ids: Final = SeededIds(machine.chance.stream(f"ids of {process.identity}"))
        self._client_id: Final = self._ids.token_bytes(16).hex()
        self._stream: SimulatedStream | None = None
        self._connection = Connection()
        self.acknowledged: Final[list[tuple[str, JsonObject]]] = []

    async def call(
        self, operation: str, payload: JsonObject | None = None, *, run_id: str | None = None
    ) -> Reply:
        """Carry out one command however many servers it takes; bound it from outside.

        Raises:
            Refused: the server says no.
        """
        key = self._ids.token_bytes(16).hex()

        def request() -> Request:
            return Request(
                request_id=self._ids.token_bytes(16).hex(),
                client_id=self._client_id,
                operation=operation,
                idempotency_key=key,
                payload=payload or {},
                run_id=run_id,
            )

        response = await self._answered(request)
        reply = reply_of(response)
        self.acknowledged.append((operation, reply.receipt))
        if operation in COMMANDS and self._repeats(operation):
            again = await self._answered(request)
            if again.outcome not in _AGAIN[response.outcome] or again.receipt != response.receipt:
                raise InvariantBroken(
                    f"{operation} was answered {response.outcome} {response.receipt}, and its"
                    f" repetition {again.outcome} {again.receipt}",
                    "P6",
                )
        return reply

    async def _answered(self, request: Callable[[], Request]) -> Response:
        """Send until it is answered."""
        while True:
            response = await self._try(request())
            if response is not None and response.receipt.get("code") == StateDamaged.code:
                self._told_of_damage()
            elif response is not None and response.outcome is not CommandOutcome.UNAVAILABLE:
                return response
            await self.leave()
            await trio.sleep(RETRY_S)

    async def leave(self) -> None:
        """Close the connection, if there is one."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.aclose()

    async def _try(self, request: Request) -> Response | None:
        """Send once; None when no reply came, so that nobody knows what has happened."""
        with trio.move_on_after(REPLY_S):
            try:
                stream = await self._connected()
                await stream.send_all(self._connection.send(request))
                while True:
                    for message in await self._receive(stream):
                        if isinstance(message, Response):
                            return message
            except (OSError, trio.BrokenResourceError, ConnectionLost):
                return None
        return None

    async def _connected(self) -> SimulatedStream:
        if self._stream is None:
            self._connection = Connection()
            self._stream = await self._network.connect(self._paths.socket)
            while self._connection.hello is None:
                await self._receive(self._stream)
        return self._stream

    async def _receive(self, stream: SimulatedStream) -> list[object]:
        data = await stream.receive_some(_RECEIVE_BYTES)
        if not data:
            raise ConnectionLost("the server closed the connection")
        return list(self._connection.receive(data))
