"""Mutable aggregates: one revision counter each, and one immutable event per revision."""

from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple, Self

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.ids import ResourceId, resource_id, time_ordered
from pi_workflows.protocol.states import ActorType, ResourceType
from store import blobs
from store.errors import StaleResourceError
from store.transaction import Change, Transaction


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change.

    Attributes:
        actor_id: None when the type says enough; never a token, never shown to clients.
    """

    actor_type: ActorType
    actor_id: str | None = None


class Happening(NamedTuple):
    """What one event row says."""

    event_type: str
    payload: JsonObject | None = None


INSERT_RESOURCE: Final = """
    INSERT INTO resources
           (resource_id, resource_type, aggregate_key, revision, created_at, updated_at)
    VALUES (:resource_id, :resource_type, :aggregate_key, 0, :now, :now)
"""

INSERT_FREE_LEASE: Final = """
    INSERT INTO leases (resource_id, generation) VALUES (:resource_id, 0)
"""

# Fenced on the revision that was read: two writers of one revision have one winner.
UPDATE_REVISION: Final = """
    UPDATE resources SET revision = revision + 1, updated_at = :now
     WHERE resource_id = :resource_id AND revision = :expected
"""

INSERT_EVENT: Final = """
    INSERT INTO events (event_id, resource_id, resource_revision, event_type, actor_type,
                        actor_id, lease_generation, payload_hash, recorded_at)
    VALUES (:event_id, :resource_id, :revision, :event_type, :actor_type,
            :actor_id, :lease_generation, :payload_hash, :now)
"""


def create(tx: Transaction, resource_type: ResourceType, aggregate_key: str) -> ResourceId:
    """Insert a resource at revision 0 with a free lease; the caller records its first event."""
    created = resource_id(resource_type, aggregate_key)
    tx.execute(
        INSERT_RESOURCE,
        {
            "resource_id": created,
            "resource_type": resource_type,
            "aggregate_key": aggregate_key,
            "now": tx.now,
        },
    )
    tx.execute(INSERT_FREE_LEASE, {"resource_id": created})
    return created


@dataclass(slots=True)
class Recorder:
    """Appends events to one resource; each one is the next revision.

    Attributes:
        revision: revision of the resource as this transaction stands.
        generation: lease generation that authorises the change; None when none does.
        adopted: True when something that was asked for is there already; it leaves no event.
    """

    tx: Transaction
    change: Change
    resource_id: ResourceId
    revision: int
    actor: Actor
    generation: int | None
    adopted: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert kind is not None or self.tx.changes or self.adopted, (
            "a protected write records an event or adopts"
        )

    def record(self, happening: Happening) -> int:
        """Raise the revision by one, write its event, and return the new revision.

        Raises:
            StaleResourceError: the revision moved since it was read.
            BlobConflictError: the payload's bytes are stored under another media type.
        """
        tx = self.tx
        payload_hash = None if happening.payload is None else blobs.put_json(tx, happening.payload)
        moved = tx.execute(
            UPDATE_REVISION,
            {"resource_id": self.resource_id, "expected": self.revision, "now": tx.now},
        )
        if moved != 1:
            raise StaleResourceError(expected=self.revision, found=None)
        self.revision += 1
        tx.execute(
            INSERT_EVENT,
            {
                "event_id": f"event-{time_ordered(tx.ids.new_uuid(), tx.now)}",
                "resource_id": self.resource_id,
                "revision": self.revision,
                "event_type": happening.event_type,
                "actor_type": self.actor.actor_type,
                "actor_id": self.actor.actor_id,
                "lease_generation": self.generation,
                "payload_hash": payload_hash,
                "now": tx.now,
            },
        )
        tx.changes.add(self.change)
        return self.revision


def run_event(event_type: str, payload: JsonObject | None = None) -> Happening:
    """An event about a whole run (A §4)."""
    return Happening(event_type, {"scope": "run", "payload": payload or {}})


def node_event(
    event_type: str, node_id: str, attempt_id: str, payload: JsonObject | None = None
) -> Happening:
    """An event about one attempt of one node (A §4)."""
    return Happening(
        event_type,
        {"scope": "node", "nodeId": node_id, "attemptId": attempt_id, "payload": payload or {}},
    )
