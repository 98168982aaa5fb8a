"""The whole event log in its order, for comparing two databases and for checking one."""

from typing import Final, NamedTuple

from pi_workflows.protocol.ids import ResourceId
from store.transaction import Reading


class EventRow(NamedTuple):
    """One accepted change; whoever explores orders reads many of them at every step.

    Attributes:
        payload_hash: hexadecimal; None for an event without payload.
    """

    event_seq: int
    event_id: str
    resource_id: str
    resource_revision: int
    event_type: str
    actor_type: str
    actor_id: str | None
    lease_generation: int | None
    payload_hash: str | None
    recorded_at: int


SELECT_EVENTS: Final = """
    SELECT event_seq, event_id, resource_id, resource_revision, event_type, actor_type, actor_id,
           lease_generation, lower(hex(payload_hash)) AS payload_hash, recorded_at
      FROM events ORDER BY event_seq
"""

SELECT_EVENTS_OF_RESOURCE: Final = """
    SELECT event_seq, event_id, resource_id, resource_revision, event_type, actor_type, actor_id,
           lease_generation, lower(hex(payload_hash)) AS payload_hash, recorded_at
      FROM events WHERE resource_id = :resource_id ORDER BY resource_revision
"""

SELECT_EVENTS_AFTER: Final = """
    SELECT event_seq, event_id, resource_id, resource_revision, event_type, actor_type, actor_id,
           lease_generation, lower(hex(payload_hash)) AS payload_hash, recorded_at
      FROM events WHERE event_seq > :event_seq ORDER BY event_seq
"""

ROW_STATEMENTS: Final = {
    "SELECT_EVENTS": EventRow,
    "SELECT_EVENTS_OF_RESOURCE": EventRow,
    "SELECT_EVENTS_AFTER": EventRow,
}


def every_event(reading: Reading) -> list[EventRow]:
    """Return all events, oldest first; unbounded, so not for a live server's loop."""
    return reading.many(EventRow, SELECT_EVENTS, {})


def events_of(reading: Reading, resource: ResourceId) -> list[EventRow]:
    """Return all events of one resource, oldest first; unbounded like `every_event`."""
    return reading.many(EventRow, SELECT_EVENTS_OF_RESOURCE, {"resource_id": resource})


def events_after(reading: Reading, event_seq: int) -> list[EventRow]:
    """Return the events that were accepted later than this one, oldest first."""
    return reading.many(EventRow, SELECT_EVENTS_AFTER, {"event_seq": event_seq})
