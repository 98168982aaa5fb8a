"""Accept clients, give each a session, and tell all of them what changed."""

from collections.abc import Callable
from typing import Final

import trio

from actors.client_session import ClientSession
from actors.operations import Operations
from actors.services import Services
from runtime.exception_groups import sole_error
from runtime.supervisor import describe_error
from store.transaction import Change

CLIENTS_MAX: Final = 256
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
            if len(self._sessions) >= CLIENTS_MAX:
                self._log.warning("too_many_clients", clients=len(self._sessions))
                await trio.aclose_forcefully(stream)
                continue
            session = ClientSession(self._services, self._operations, stream)
            self._sessions[session] = None
            self._population(len(self._sessions))
            nursery.start_soon(self._serve, session)

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

    async def _serve(self, session: ClientSession) -> None:
        try:
            await session.serve()
        except Exception as error:  # noqa: BLE001 - one client must not end the server
            self._log.error("session_failed", error=describe_error(sole_error(error)))
        finally:
            del self._sessions[session]
            self._population(len(self._sessions))
