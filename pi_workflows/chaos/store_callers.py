"""Callers of a store that stop waiting: before their command is taken, while it runs or commits.

They live in one process with the real store actor, as what a server does for its clients and its
runs. Wherever the store comes by, and whenever the loop gives somebody a turn, one of those who
wait may be cancelled; which one, and where, is a choice.
"""

import enum
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias, final

import trio

from actors.store_actor import StoreActor
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_state import SimulatedStateFiles
from pi_workflows.chaos.simulated_store import start_store
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.protocol.ids import resource_id
from pi_workflows.protocol.states import ResourceType
from runtime.chaos.outcome import PromiseBroken
from runtime.world import World
from store import resources
from store.authority import holding
from store.chaos.failing_commands import FAILURES, Failure, fail_after_writing
from store.errors import (
    Fault,
    OutcomeUnknown,
    StateBusyError,
    StoreDown,
    UnknownResourceError,
)
from store.transaction import Reading, Transaction

CALLERS: Final = 4
ASKED_EACH: Final = 10

_TURNS: Final = 48
"""How often the loop gives somebody a turn to stop waiting, beside the places of the store."""

_TURNS_BETWEEN: Final = 4
"""Turns of the loop, at most, between two commands of a caller."""

_WAYS: Final = ("do", "do_urgent", "insist", "do_long")
_WORKS: Final = "to make something"
_LOOKS: Final = "to look"
_FAILS: Final = "for what fails"

_END_S: Final = 60.0
"""Virtual time in which everybody has to be told; nothing here takes any."""

Command: TypeAlias = Callable[[Transaction], object]


class Told(enum.StrEnum):
    """How a command has ended for whoever asked for it."""

    ANSWERED = "answered"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    NOT_DONE = "not done"
    UNKNOWN = "outcome unknown"


_MAY_BE_THERE: Final = frozenset({Told.ANSWERED, Told.UNKNOWN})


@final
class StoreCallers:
    """The callers of one exploration, and what they were told.

    Attributes:
        told: how each command has ended, by its name.
    """

    def __init__(self) -> None:
        """Ask for nothing yet; `play` does."""
        self.told: Final[dict[str, Told]] = {}
        self._asked: Final[list[str]] = []
        self._shown: Final[dict[str, frozenset[str]]] = {}
        self._waiting: Final[dict[str, trio.CancelScope]] = {}
        self._ended = trio.Event()

    async def play(self, world: SimulatedWorld) -> None:
        """Start the process, and wait until every caller in it has come to an end, or should."""
        process = start_store(
            world, partial(self._serve, world), lambda point: self._strike(world, point)
        )
        self._ended = process.ended
        with trio.move_on_after(_END_S):
            await process.ended.wait()

    def check(self, seen: Seen) -> None:
        """Hold what was told so far against what is there.

        Raises:
            PromiseBroken: names the promise.
        """
        for name, told in self.told.items():
            is_there = _is_there(seen.reading, name)
            if told is Told.ANSWERED and not is_there and name not in self._shown:
                raise PromiseBroken(f"P1: {name} was answered and is not there")
            if is_there and told not in _MAY_BE_THERE:
                promise = {Told.CANCELLED: "P7", Told.NOT_DONE: "P6"}.get(told, "P2")
                raise PromiseBroken(f"{promise}: {name} is there, and was told: {told}")
        for name, shown in self._shown.items():
            gone = sorted(each for each in shown if not _is_there(seen.reading, each))
            if gone:
                raise PromiseBroken(f"P1: {name} was shown what is not there: {', '.join(gone)}")

    def check_all_told(self) -> None:
        """Require that nobody is left who has neither an answer nor his cancellation.

        Raises:
            PromiseBroken: somebody is.
        """
        left = [name for name in self._asked if name not in self.told]
        if left:
            raise PromiseBroken(f"P7: nobody has told what became of {', '.join(left)}")

    async def _serve(
        self, world: SimulatedWorld, ports: World, state: SimulatedStateFiles
    ) -> None:
        """Be the process: open the database, serve it, let the callers ask."""
        with world.book.quiet():  # How a start meets a failing disk is for other scenarios.
            state.prepare()
            state.create(ports.clock.wall_ms())
            store = StoreActor(state.open_writer(), ports)
            state.open_reader()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve_store, store)
            async with trio.open_nursery() as callers:
                turns = trio.CancelScope()
                nursery.start_soon(self._give_turns, world, turns)
                for number in range(CALLERS):
                    callers.start_soon(self._call, world, store, f"caller-{number}")
            turns.cancel()
            store.stop()

    async def _serve_store(self, store: StoreActor) -> None:
        try:
            await store.serve()
        except Fault:
            return  # Everybody who waited was told.

    async def _give_turns(self, world: SimulatedWorld, until: trio.CancelScope) -> None:
        with until:
            for _ in range(_TURNS):
                await trio.lowlevel.checkpoint()
                self._strike(world, "any turn")

    async def _call(self, world: SimulatedWorld, store: StoreActor, caller: str) -> None:
        for number in range(ASKED_EACH):
            name = f"{caller}-{number}"
            way: str = world.decide(f"{caller} uses", *_WAYS)
            how: str = world.decide(f"{caller} asks", _WORKS, _LOOKS, _FAILS)
            if how == _FAILS:
                how = world.decide(f"{caller} fails by", *Failure)
            self._asked.append(name)
            told = Told.CANCELLED
            with trio.CancelScope() as scope:
                self._waiting[name] = scope
                self._strike(world, "the door", name)
                command = self._command(how, name)
                told = await self._outcome(name, partial(_ask, store, way, command))
            self._waiting.pop(name, None)
            if self._ended.is_set():
                return  # The process is dead; nobody in it is told anything.
            self.told[name] = told
            world.machine.trace.note(caller, name, told)
            for _ in range(world.chance.randrange(_TURNS_BETWEEN)):
                await trio.lowlevel.checkpoint()

    def _command(self, how: str, name: str) -> Command:
        if how == _WORKS:
            return lambda tx: resources.create(tx, ResourceType.MAINTENANCE, name)
        if how == _LOOKS:
            return lambda tx: frozenset(each for each in self._asked if _is_there(tx, each))
        return lambda tx: fail_after_writing(tx, Failure(how), name)

    async def _outcome(self, name: str, ask: Callable[[], Awaitable[object]]) -> Told:
        try:
            answer = await ask()
        except OutcomeUnknown:
            return Told.UNKNOWN
        except (StoreDown, StateBusyError):
            return Told.NOT_DONE
        except FAILURES:
            return Told.REFUSED
        if isinstance(answer, frozenset):
            self._shown[name] = answer
        return Told.ANSWERED

    def _strike(self, world: SimulatedWorld, where: str, *whom: str) -> None:
        """Decide whether one of those who wait stops waiting here; `whom`: one of these."""
        waiting = whom or tuple(self._waiting)
        picked = world.book.ask("cancel", f"cancel at {where}", waiting) if waiting else None
        if picked is not None:
            world.book.enter("cancel", f"{picked} stops waiting at {where}")
            self._waiting.pop(picked).cancel()


async def _ask(store: StoreActor, way: str, command: Command) -> object:
    match way:
        case "do":
            return await store.do(command)
        case "do_urgent":
            return await store.do_urgent(command)
        case "insist":
            return await store.insist(command)
        case _:
            return await store.do_long(command)


def _is_there(reading: Reading, name: str) -> bool:
    try:
        holding(reading, resource_id(ResourceType.MAINTENANCE, name))
    except UnknownResourceError:
        return False
    return True
