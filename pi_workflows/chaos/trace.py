"""The accepted events of a database, as the last part of a simulation's trace."""

from pathlib import Path

from runtime.simulation.trace import Trace
from store.errors import StateIncompatibleError, StorageFault, StoreCorrupt
from store.event_log import every_event
from store.opening import open_reader
from store.transaction import Reading


def note_events(database: Path, trace: Trace) -> None:
    """Append every event, in its order, with all its fields: even its id comes from the seed.

    Does nothing when there is no database yet. One that is damaged is noted as such: what is wrong
    with it is said by whoever looks at the state in the end.
    """
    if not database.exists():
        return
    try:
        _note_every_event(database, trace)
    except (StateIncompatibleError, StoreCorrupt, StorageFault) as unreadable:
        trace.note("database", "cannot be read", type(unreadable).__name__)


def _note_every_event(database: Path, trace: Trace) -> None:
    reader = open_reader(database)
    try:
        with reader.snapshot() as connection:
            for event in every_event(Reading(connection, 0)):
                trace.note("database", event.event_type, repr(tuple(event)))
    finally:
        reader.close()
