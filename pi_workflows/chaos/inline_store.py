"""The real store actor, driven without a loop: what shares a batch is decided by the caller."""

import hashlib
import random
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from actors.store_actor import StoreActor
from pi_workflows.chaos.standing_clock import StandingClock
from runtime.chaos.scenario import SimulatedTime
from runtime.chaos.subject import Answer
from runtime.exec_spawner import ExecSpawner
from runtime.processes import SystemProcessTable
from runtime.sync_points import InertSyncPoints, SyncPoints
from runtime.world import World
from store.batch import Command
from store.database import Writer
from store.errors import Fault, StoreDown
from store.transaction import IdSource, Reading

if TYPE_CHECKING:
    from actors.store_asking import Asking

ResultT = TypeVar("ResultT")


@final
class CountedIds:
    """Ids and tokens that depend only on how many were drawn before; see `IdSource`.

    Attributes:
        drawn: how many; setting it back repeats them.
    """

    def __init__(self) -> None:
        self.drawn = 0

    def new_uuid(self) -> str:
        """Return the next UUID of version 4."""
        return str(uuid.UUID(bytes=self.token_bytes(16), version=4))

    def token_bytes(self, count: int = 32) -> bytes:
        """Return the next bytes; anybody can guess them."""
        self.drawn += 1
        return hashlib.shake_128(b"%d" % self.drawn).digest(count)


@final
class _AtOnce:
    """Runs a COMMIT where it is asked for, without giving anybody a turn."""

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        return work()

    def close(self) -> None:
        """Nothing is held."""


def _nothing(_reply: object) -> None:
    """Care about no answer."""


@final
class _Pending:
    """Somebody who waits for a command; see `Asking`."""

    def __init__(self, command: Command[Any], answered: Callable[[object], None]) -> None:
        self._answered: Final = answered
        self.message: Final = command
        self.outcome: Answer | None = None

    def answer(self, reply: object) -> None:
        self._answered(reply)
        self.outcome = self.outcome or Answer(reply)

    def refuse(self, error: Exception) -> None:
        self.outcome = self.outcome or Answer(None, error)


@final
class InlineStore:
    """One store under one writer.

    Attributes:
        is_down: the store has failed and answers nothing more.
        answered: called with the reply at the instant at which a command is answered.
    """

    def __init__(
        self,
        writer: Writer,
        clock: SimulatedTime,
        ids: IdSource,
        sync_points: SyncPoints | None = None,
    ) -> None:
        """Take over an open writer; whoever closes it does so himself.

        Args:
            sync_points: what the store actor reaches; None means inert ones.
        """
        world = World(
            clock=StandingClock(clock),
            ids=ids,
            randomness=random.Random(0),  # noqa: S311 - nothing is drawn from it
            commits=_AtOnce(),
            spawner=ExecSpawner(),
            processes=SystemProcessTable(),
            sync_points=sync_points or InertSyncPoints(),
        )
        self._actor: Final = StoreActor(writer, world)
        self._writer: Final = writer
        self._clock: Final = clock
        self.is_down = False
        self.answered: Callable[[object], None] = _nothing

    def carry_out(self, commands: Sequence[Command[Any]]) -> list[Answer]:
        """Run commands as neighbours in one batch, in this order; answer each."""
        if self.is_down:
            return [Answer(None, StoreDown()) for _ in commands]
        pending = [_Pending(command, self.answered) for command in commands]
        taken: list[Asking] = [*pending]
        try:
            self._actor.carry_out(taken).send(None)
        except StopIteration:
            pass
        except Fault:
            self.is_down = True
        else:
            raise AssertionError("the store waits, and there is nobody to wait for")
        return [each.outcome or Answer(None, StoreDown()) for each in pending]

    def reading(self) -> Reading:
        """Return what asks for the committed state, at this instant."""
        return Reading(self._writer.connection, self._clock.wall_ms())
