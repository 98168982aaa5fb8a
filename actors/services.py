"""What the server's actors share: the store, the readers, the world, and who this server is."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from actors.claims import ClaimRegistry
from actors.readers import Readers
from actors.store_actor import StoreActor
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.protocol.states import ActorType, OwnerType
from runtime.log import Log
from runtime.process import Spawner
from runtime.registry import ProcessRegistry
from runtime.template_spawner import TemplateSpawner
from runtime.world import World
from store.leases import Owner
from store.resources import Actor


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Which server this is.

    Attributes:
        server_id: also the owner id of every lease its actors hold.
        epoch: grows with every server that takes the database over.
        started_at: UTC epoch ms.
    """

    server_id: str
    epoch: int
    pid: int
    started_at: int

    @property
    def owner(self) -> Owner:
        """The owner of this server's leases."""
        return Owner(OwnerType.HOST, self.server_id)

    @property
    def host(self) -> Actor:
        """The actor of what the server does with a claim."""
        return Actor(ActorType.HOST, self.server_id)


CONTROL: Final = Actor(ActorType.CONTROL)
"""The actor of what a local client asks for."""

HUMAN: Final = Actor(ActorType.HUMAN)
"""The actor of what a person says with a direct command."""

SYSTEM: Final = Actor(ActorType.SYSTEM)
"""The actor of recovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Handed to every actor by the composition root.

    Attributes:
        template: Forks children; None where all of them are started as the World does it.
    """

    world: World
    paths: StatePaths
    identity: ServerIdentity
    store: StoreActor
    readers: Readers
    processes: ProcessRegistry
    log: Log
    capacity: int
    claims: ClaimRegistry = field(default_factory=ClaimRegistry)
    template: TemplateSpawner | None = None

    @property
    def spawner(self) -> Spawner:
        """What starts children."""
        return self.template or self.world.spawner

    @property
    def home(self) -> Path:
        """The user's home directory."""
        return self.paths.home
