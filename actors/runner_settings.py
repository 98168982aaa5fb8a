"""Hold the settings of a run against the chain of their changes, before its runner goes on."""

import trio

from actors.services import Services
from pi_workflows.protocol.definition import DefinitionSnapshot
from store.settings_chain import ChainBroken, ChainPlace, check_links, has_settings, replay


async def settings_problem(
    services: Services, run_id: str, definition: DefinitionSnapshot
) -> str | None:
    """Return why the settings of a run are not what their changes make of them; None if they are.

    The loop is given away between a few changes and the next: a run may have thousands. What is
    changed meanwhile goes through the server and needs no look.
    """
    if not has_settings(definition):
        return None
    place: ChainPlace | None = ChainPlace()
    try:
        with services.readers.reading() as reading:
            check_links(reading, run_id)
        while place is not None:
            with services.readers.reading() as reading:
                place = replay(reading, run_id, place)
            await trio.lowlevel.checkpoint()
    except ChainBroken as broken:
        return str(broken)
    return None
