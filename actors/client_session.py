"""Serve one connected client: requests in, responses and views out, a slow reader costs nobody.

What it guarantees:

- the hello goes first; a frame that is no request closes this connection and no other;
- responses are never dropped; views are coalesced: while one is being written, any number of
  changes make one more snapshot, built from what is then committed;
- a client that never reads blocks only its own writer; one that has left is let go, however much
  it has asked for;
- a request that is still worked on when the server stops is answered `unavailable`.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

import trio

from actors.client_replies import hello_of, response_to
from actors.client_requests import ClientRequest, parse_request
from actors.frame_turns import FrameTurns
from actors.operations import Operations
from actors.peers import Peer
from actors.services import Services
from actors.subscriptions import Subscription
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import FrameError, FrameTooLarge, encode_frame
from pi_workflows.protocol.states import CommandOutcome
from runtime.line_stream import LineStream
from store.errors import StoreError
from store.receipts import Reply
from store.transaction import Change

IN_FLIGHT_MAX: Final = 32
"""Requests of one connection that are worked on at a time; the next waits in the socket."""

SUBSCRIPTIONS_MAX: Final = 64

FRAME_S: Final = 30.0
"""From the first byte of a frame to its last."""

VIEW_PAUSE_S: Final = 0.05
"""A connection is sent views at most this often: faster shows nobody more and costs every step."""

_STOPPING: Final = Reply(
    CommandOutcome.UNAVAILABLE,
    receipt={"code": ErrorCode.SERVER_STOPPING.value},
    error="the server is stopping; ask again",
)


class ClientSession:
    """One connection and what it watches."""

    def __init__(
        self,
        services: Services,
        operations: Operations,
        stream: trio.abc.Stream,
        peer: Peer,
        turns: FrameTurns,
    ) -> None:
        """Serve `stream`, which is owned from now on, as one of its peer's connections."""
        self._peer: Final = peer
        self._turns: Final = turns
        self._services: Final = services
        self._operations: Final = operations
        self._lines: Final = LineStream(stream, services.world.sync_points, frame_s=FRAME_S)
        self._connection_id: Final = services.world.ids.new_uuid()
        self._log: Final = services.log.bind("client", connection=self._connection_id)
        self._responses: Final[deque[_Outgoing]] = deque()
        self._views_from = 0.0
        self._due: Final[OrderedDict[str, None]] = OrderedDict()
        self._watched: Final[dict[str, Subscription]] = {}
        self._work = trio.Event()
        self._quiet = trio.Event()
        self._is_writing = False
        self._is_gone = False
        self._is_refusing = False
        self._handling: Final[set[trio.CancelScope]] = set()
        self._slots: Final = trio.Semaphore(IN_FLIGHT_MAX, max_value=IN_FLIGHT_MAX)

    async def serve(self) -> None:
        """Serve until the client leaves, breaks the protocol, or the server stops."""
        try:
            async with trio.open_nursery() as nursery:
                hello = encode_frame(hello_of(self._connection_id))
                self._responses.append(_Outgoing(hello, frees_slot=False))
                nursery.start_soon(self._write, nursery.cancel_scope)
                await self._read(nursery)
                nursery.cancel_scope.cancel()
        finally:
            for _ in range(IN_FLIGHT_MAX - self._slots.value):
                self._peer.slots.release()
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

    def refuse(self) -> None:
        """Answer `unavailable` from now on, also to what is worked on: it is cancelled.

        A command that was executed before that still answers its outcome.
        """
        self._is_refusing = True
        for scope in self._handling:
            scope.cancel()

    async def idle(self) -> None:
        """Return once no request is worked on and every response is written."""
        while not self._is_gone and (
            self._slots.value < IN_FLIGHT_MAX or self._responses or self._is_writing
        ):
            self._quiet = trio.Event()
            await self._quiet.wait()

    async def _read(self, nursery: trio.Nursery) -> None:
        """Start a task per request; return when no more can come."""
        try:
            while (line := await self._lines.receive()) is not None:
                request = parse_request(await self._turns.parse(line, self._peer.parsing))
                await self._acquire_slot()
                nursery.start_soon(self._answer, request)
        except FrameError as error:
            self._log.warning("protocol_violation", error=str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def _acquire_slot(self) -> None:
        """Wait for room: of this connection, and of all connections of its process."""
        await self._slots.acquire()
        try:
            await self._peer.slots.acquire()
        except BaseException:
            self._slots.release()
            raise

    def _release_slot(self) -> None:
        self._slots.release()
        self._peer.slots.release()

    async def _answer(self, request: ClientRequest) -> None:
        reply = _STOPPING
        with trio.CancelScope() as scope:
            self._handling.add(scope)
            if not self._is_refusing:
                reply = await self._operations.handle(request, self)
        self._handling.discard(scope)
        message = response_to(request, reply)
        try:
            frame = encode_frame(message)
        except FrameTooLarge:
            frame = encode_frame(_too_large(request))
        self._responses.append(_Outgoing(frame, frees_slot=True))
        self._work.set()

    async def _write(self, session: trio.CancelScope) -> None:
        """Write responses as they come and views at their pace; end the session with the peer.

        A request's slot is free again only when its response is written, so a client that asks
        and never reads is asked to wait by its own socket.
        """
        try:
            while True:
                self._work = trio.Event()
                outgoing = self._next_outgoing()
                if outgoing is None:
                    self._quiet.set()
                    with trio.move_on_at(self._views_from if self._due else float("inf")):
                        await self._work.wait()
                    continue
                self._is_writing = True
                await self._lines.send(outgoing.frame)
                self._is_writing = False
                if outgoing.frees_slot:
                    self._release_slot()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._is_gone = True
            self._quiet.set()
            # Without a writer no slot is freed: the reader could wait for one for ever.
            session.cancel()

    def _next_outgoing(self) -> "_Outgoing | None":
        """Return what to write next: responses first, then views, built only now."""
        if self._responses:
            return self._responses.popleft()
        now = trio.current_time()
        while self._due and now >= self._views_from:
            subscription_id, _ = self._due.popitem(last=False)
            subscription = self._watched.get(subscription_id)
            if subscription is None:
                continue
            frame = self._view_frame(subscription)
            if frame is not None:
                if not self._due:
                    self._views_from = now + VIEW_PAUSE_S
                return _Outgoing(frame, frees_slot=False)
        return None

    def _view_frame(self, subscription: Subscription) -> bytes | None:
        """Return the event that brings the client up to date, or None.

        A view that cannot be built or does not fit is left out: a session that ended over it
        would be opened again by its client and end again.
        """
        try:
            with self._services.readers.reading() as reading:
                event = subscription.event(reading)
            return None if event is None else encode_frame(event)
        except (StoreError, FrameTooLarge) as error:
            self._log.error(
                "view_dropped", subscription=type(subscription).__name__, error=str(error)
            )
            return None


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """A frame to write; `frees_slot` when it answers a request."""

    frame: bytes
    frees_slot: bool


def _too_large(request: ClientRequest) -> JsonObject:
    refused = Reply(
        CommandOutcome.REJECTED,
        receipt={"code": "RESULT_TOO_LARGE"},
        error="the answer does not fit one frame",
    )
    return response_to(request, refused)
