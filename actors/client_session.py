"""Serve one connected client: requests in, responses and views out, a slow reader costs nobody.

What it guarantees:

- the hello goes first; a frame that is no request closes this connection and no other;
- responses are never dropped; views are coalesced: while one is being written, any number of
  changes make one more snapshot, built from what is then committed;
- a client that never reads blocks only its own writer.
"""

from collections import OrderedDict, deque
from typing import Final

import trio

from actors.client_requests import ClientRequest, parse_request
from actors.operations import Operations
from actors.services import Services
from actors.subscriptions import Subscription
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import (
    FrameError,
    FrameTooLarge,
    encode_frame,
    parse_canonical,
)
from pi_workflows.protocol.states import CommandOutcome
from pi_workflows.protocol.version import CLIENT_PROTOCOL, PACKAGE_VERSION
from runtime.line_stream import LineStream
from runtime.log import Log
from store.receipts import Reply
from store.transaction import Change

IN_FLIGHT_MAX: Final = 32
"""Requests of one connection that are worked on at a time; the next waits in the socket."""

SUBSCRIPTIONS_MAX: Final = 64

ERROR_CHARS_MAX: Final = 2_048


class ClientSession:
    """One connection and what it watches."""

    def __init__(
        self, services: Services, operations: Operations, stream: trio.SocketStream
    ) -> None:
        self._services: Final = services
        self._operations: Final = operations
        self._lines: Final = LineStream(stream, services.world.sync_points)
        self._connection_id: Final = services.world.ids.new_uuid()
        self._log: Log = services.log.bind("client", connection=self._connection_id)
        self._responses: Final[deque[bytes]] = deque()
        self._due: Final[OrderedDict[str, None]] = OrderedDict()
        self._watched: Final[dict[str, Subscription]] = {}
        self._work = trio.Event()
        self._quiet = trio.Event()
        self._is_writing = False
        self._slots: Final = trio.Semaphore(IN_FLIGHT_MAX, max_value=IN_FLIGHT_MAX)

    async def serve(self) -> None:
        """Serve until the client leaves, breaks the protocol, or the server stops."""
        try:
            async with trio.open_nursery() as nursery:
                self._push(
                    {
                        "schema": CLIENT_PROTOCOL,
                        "type": "hello",
                        "connectionId": self._connection_id,
                        "packageVersion": PACKAGE_VERSION,
                    }
                )
                nursery.start_soon(self._write)
                await self._read(nursery)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True, deadline=0):
                await self._lines.aclose()

    def notice(self, changes: frozenset[Change]) -> None:
        """Mark the views that these changes concern; called on the loop after each COMMIT."""
        for subscription_id, subscription in self._watched.items():
            if subscription.concerned(changes):
                self._due[subscription_id] = None
                self._work.set()

    def watch(self, subscription: Subscription) -> bool:
        """Install a subscription, replacing one of its id, and send its first view.

        Returns:
            False when this connection watches as much as it may.
        """
        known = subscription.subscription_id in self._watched
        if not known and len(self._watched) >= SUBSCRIPTIONS_MAX:
            return False
        self._watched[subscription.subscription_id] = subscription
        self._due[subscription.subscription_id] = None
        self._work.set()
        return True

    def unwatch(self, subscription_id: str) -> None:
        """Remove a subscription of any kind; an unknown one is no error."""
        self._watched.pop(subscription_id, None)
        self._due.pop(subscription_id, None)

    async def idle(self) -> None:
        """Return once no request is worked on and every response is written."""
        while self._slots.value < IN_FLIGHT_MAX or self._responses or self._is_writing:
            self._quiet = trio.Event()
            await self._quiet.wait()

    async def _read(self, nursery: trio.Nursery) -> None:
        """Start a task per request; return when no more can come."""
        try:
            while (line := await self._lines.receive()) is not None:
                request = parse_request(parse_canonical(line))
                await self._slots.acquire()
                nursery.start_soon(self._answer, request)
        except FrameError as error:
            self._log.warning("protocol_violation", error=str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def _answer(self, request: ClientRequest) -> None:
        try:
            reply = await self._operations.handle(request, self)
            self._push(_response(request, reply))
        finally:
            self._slots.release()
            self._work.set()

    def _push(self, message: JsonObject) -> None:
        try:
            frame = encode_frame(message)
        except FrameTooLarge:
            frame = encode_frame(_too_large(message))
        self._responses.append(frame)
        self._work.set()

    async def _write(self) -> None:
        try:
            while True:
                frame = self._next_frame()
                self._is_writing = frame is not None
                if frame is None:
                    self._quiet.set()
                    self._work = trio.Event()
                    await self._work.wait()
                else:
                    await self._lines.send(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._is_writing = False
            self._responses.clear()
            self._quiet.set()

    def _next_frame(self) -> bytes | None:
        """Return what to write next: responses first, then views, built only now."""
        if self._responses:
            return self._responses.popleft()
        while self._due:
            subscription_id, _ = self._due.popitem(last=False)
            subscription = self._watched.get(subscription_id)
            if subscription is None:
                continue
            with self._services.readers.reading() as reading:
                event = subscription.event(reading)
            if event is not None:
                return encode_frame(event)
        return None


def _response(request: ClientRequest, reply: Reply) -> JsonObject:
    response: JsonObject = {
        "schema": CLIENT_PROTOCOL,
        "type": "response",
        "requestId": request.request_id,
        "outcome": reply.outcome.value,
    }
    if reply.revision is not None:
        response["revision"] = reply.revision
    if reply.receipt is not None:
        response["receipt"] = reply.receipt
    if reply.error is not None:
        response["error"] = reply.error[:ERROR_CHARS_MAX]
    return response


def _too_large(message: JsonObject) -> JsonObject:
    return {
        "schema": CLIENT_PROTOCOL,
        "type": "response",
        "requestId": message.get("requestId", ""),
        "outcome": CommandOutcome.REJECTED.value,
        "receipt": {"code": "RESULT_TOO_LARGE"},
        "error": "the answer does not fit one frame",
    }
