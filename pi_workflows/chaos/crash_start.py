"""A server's real way to its database, step by step, with nobody else on the machine."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from actors.owning import Owning
from actors.starting_claim import StartingClaim
from actors.state_files import StateFiles
from pi_workflows.chaos.standing_clock import StandingClock
from runtime.chaos.scenario import SimulatedTime
from runtime.log import Log
from runtime.world import IdSource
from store.database import Writer
from store.host import HostProcess


class Step(StrEnum):
    """What a start has just done."""

    CREATED = "created"
    OPENED = "opened"
    EPOCH = "epoch taken"
    EXPIRED = "leases freed"
    RECOVERED = "recovered"


@final
class NoLog:
    """Drops every record."""

    def write(self, record: dict[str, object]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that owns its database."""

    writer: Writer
    claim: StartingClaim


def come_up(
    state: StateFiles,
    clock: SimulatedTime,
    ids: IdSource,
    number: int,
    reached: Callable[[Step, Writer | None], None],
) -> Serving:
    """Start a server as `actors.startup.Startup` does, without its lock, children and socket.

    Args:
        number: of the server; its predecessor is dead.
        reached: called after each step, with the writer once there is one. If it raises, the
            server is as good as killed: its files stay as they are.

    Raises:
        StoreError, ServerRefused: as the steps of `Owning`; the file is closed again.
    """
    standing = StandingClock(clock)
    owning = Owning(state, standing, ids, Log(NoLog(), standing, "crash"))
    owning.create()
    reached(Step.CREATED, None)
    writer = owning.open()
    try:
        reached(Step.OPENED, writer)
        owning.look_through(writer)
        process = HostProcess(f"server-{number}", number, f"boot:{number}:1")
        claim = owning.take_epoch(writer, process, holder_gone=True)
        reached(Step.EPOCH, writer)
        owning.expire(claim)
        reached(Step.EXPIRED, writer)
        owning.recover(writer, claim)
        reached(Step.RECOVERED, writer)
    except BaseException:
        writer.close()
        raise
    return Serving(writer, claim)
