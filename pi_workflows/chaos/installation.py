"""What there is before a simulation begins, and what may befall it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from actors.store_actor import StoreActor
from pi_workflows.chaos.fault_book import FaultBook
from pi_workflows.chaos.process_faults import VICTIMS
from pi_workflows.chaos.simulated_runner import SpeaksAs, StandIns, as_itself
from pi_workflows.chaos.wire_faults import WireFaults
from pi_workflows.runner.messages import Call
from runtime.chaos.guard import Guard
from runtime.world import World
from store.database import Writer

CAPACITY: Final = 4

_WORK_S_MAX: Final = 2.0


def some_work(_: Call, drawn: float) -> float:
    """Let a piece of user code take up to two seconds, most of them much less."""
    return _WORK_S_MAX * drawn**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What there is before a scenario begins.

    Attributes:
        workflows: source text of workflow files by name.
        capacity: how many runners a server may have at a time.
        work_s: how long a piece of user code takes, given a number drawn from [0, 1).
        victims: who may be killed or stopped by a fault.
        speaks_as: for whom a runner says that it speaks, given who it is.
        stand_ins: functions that play nodes.
        store: makes the owner of a server's writing connection.
        read_s: how long a child that reads the whole file holds its snapshot.
    """

    workflows: dict[str, str] = field(default_factory=dict)
    capacity: int = CAPACITY
    work_s: Callable[[Call, float], float] = some_work
    victims: frozenset[str] = VICTIMS
    speaks_as: SpeaksAs = as_itself
    stand_ins: StandIns = field(default_factory=dict)
    store: Callable[[Writer, World], StoreActor] = StoreActor
    read_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Exposure:
    """What may befall a world.

    Attributes:
        book: the faults that may still happen.
        wires: those of its connections.
        guard: up while code of the scenario or of a workflow runs.
    """

    book: FaultBook
    wires: WireFaults
    guard: Guard
