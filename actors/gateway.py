"""Accept clients, give each a session, and tell all of them what changed."""

from collections.abc import Callable
from typing import Final

import trio

from actors.client_session import ClientSession
from actors.frame_turns import FrameTurns
from actors.operations import Operations
from actors.peers import Peer, Peers
from actors.refused_client import refuse_client
from actors.services import Services
from runtime.exception_groups import sole_error
from runtime.listener import peer_process
from runtime.supervisor import describe_error
from store.transaction import Change

REFUSING_MAX: Final = 32
"""Connections beyond a quota that are told so at a time; more are closed without a word."""

DRAIN_S: Final = 1.0
"""How long answers that are due may take to be written when the server stops."""

REFUSE_S: Final = 1.0
"""How long it may then take to end what is worked on and to answer `unavailable`."""

_ACCEPT_PAUSE_S: Final = 0.1


class Gateway:
    """The listener and the sessions behind it."""

    def __init__(
        self, services: Services, operations: Operations, population: Callable[[int], None]
    ) -> None:
        """`population` is told how many clients there are whenever that changes."""
        self._services: Final = services
        self._operations: Final = operations
        self._population: Final = population
        self._peers: Final = Peers()
        self._turns: Final = FrameTurns(services.world.clock)
        self._refusing = 0
        self._sessions: Final[dict[ClientSession, None]] = {}
        """In the order of their connection, so that what is done to all has one order."""
        self._accepting: Final = trio.CancelScope()
        self._log: Final = services.log.bind("gateway")
        services.store.listen(self._changed)

    async def run(self, listener: trio.abc.Listener[trio.abc.Stream]) -> None:
        """Serve until cancelled; after `drain` nobody new.

        Raises:
            OSError: never for one connection; only when listening itself is impossible.
        """
        async with trio.open_nursery() as nursery:
            async with listener:
                with self._accepting:
                    await self._accept(listener, nursery)
            await trio.sleep_forever()

    async def _accept(
        self, listener: trio.abc.Listener[trio.abc.Stream], nursery: trio.Nursery
    ) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                self._log.warning("accept_failed", error=str(error))
                await trio.sleep(_ACCEPT_PAUSE_S)
                continue
            admitted = self._peers.admit(peer_process(stream))
            if isinstance(admitted, str):
                nursery.start_soon(self._refuse, stream, admitted)
                continue
            session = ClientSession(
                self._services, self._operations, stream, admitted, self._turns
            )
            self._sessions[session] = None
            self._population(len(self._sessions))
            nursery.start_soon(self._serve, session, admitted)

    async def drain(self) -> None:
        """Accept nobody, let due answers be written, then give up what is worked on; bounded."""
        self._accepting.cancel()
        with trio.move_on_after(DRAIN_S):
            await self._all_idle()
        for session in self._sessions:
            session.refuse()
        with trio.move_on_after(REFUSE_S):
            await self._all_idle()

    async def _all_idle(self) -> None:
        for session in tuple(self._sessions):
            await session.idle()

    def _changed(self, changes: frozenset[Change]) -> None:
        for session in self._sessions:
            session.notice(changes)

    async def _refuse(self, stream: trio.abc.Stream, reason: str) -> None:
        """Tell a client that is one too many why it is not served, if there are not many such."""
        if self._refusing >= REFUSING_MAX:
            await trio.aclose_forcefully(stream)
            return
        self._refusing += 1
        try:
            self._log.warning("client_refused", clients=len(self._sessions), reason=reason)
            await refuse_client(self._services, stream, reason)
        finally:
            self._refusing -= 1

    async def _serve(self, session: ClientSession, peer: Peer) -> None:
        try:
            await session.serve()
        except Exception as error:  # noqa: BLE001 - one client must not end the server
            self._log.error("session_failed", error=describe_error(sole_error(error)))
        finally:
            del self._sessions[session]
            self._peers.dismiss(peer)
            self._population(len(self._sessions))
