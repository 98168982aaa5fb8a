"""The look at a file that was too large to be looked through before it is served (README 18)."""

from typing import Final

import trio

from actors.errors import DatabaseDamaged
from actors.heavy_reads import HeavyReads, ReadFailed
from actors.services import Services

RETRY_S: Final = 60.0
"""Between two tries of a look that no child could finish."""


async def check_soundness(services: Services) -> None:
    """Look through the file in a child, beside the server's work, until a look is finished.

    The look is owed until then: a server that ends first, even in order, leaves the log in place,
    and by it the next one knows that it has to look.

    Cancelled: nothing but the child has to end.

    Raises:
        DatabaseDamaged: what is found ends the server; the next one finds it again.
    """
    heavy = HeavyReads(services)
    while True:
        try:
            is_sound = await heavy.is_sound()
        except ReadFailed as error:
            services.log.warning("quick_check_failed", code=str(error.code), error=str(error))
            await trio.sleep(RETRY_S)
            continue
        if not is_sound:
            raise DatabaseDamaged
        services.store.check_passed()
        services.log.info("quick_check_passed")
        return
