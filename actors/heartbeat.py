"""Keep the server's own claim alive; losing it ends the server."""

import contextlib
from typing import Final

import trio

from actors.store_actor import StoreActor
from store import host
from store.errors import StateBusyError
from store.host import HostClaim

HEARTBEAT_S: Final = 10.0


async def keep_claim(store: StoreActor, claim: HostClaim) -> None:
    """Renew every 10 s, also a claim that expired while the machine slept, until cancelled.

    A beat that meets a foreign write lock is missed: the next one re-arms the claim.

    Raises:
        EpochLost: another server has taken over.
        StoreDown: the store has stopped.
    """
    while True:
        await trio.sleep(HEARTBEAT_S)
        with contextlib.suppress(StateBusyError):
            await store.do_urgent(host.heartbeat, claim)
