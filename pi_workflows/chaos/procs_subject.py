"""The store as one process of the pool has it: a writer, a reader, and an actor of a scene.

The points are those of the store actor, in its order; a transaction is begun, tried without
savepoints and committed as there (`store.batch`). The write lock is waited for at a point.
"""

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Final, cast, final

from pi_workflows.chaos.answers import words_of
from pi_workflows.chaos.live_state import refuse_live_state
from pi_workflows.chaos.procs_results import told
from pi_workflows.chaos.scene import (
    AnswerLost,
    Command,
    Me,
    Outcome,
    Scene,
    Sending,
    StoreQuery,
    StoreWork,
)
from pi_workflows.protocol.canonical import JsonObject
from runtime.chaos.acting import Acting, Request
from runtime.chaos.guard import Guard
from runtime.chaos.procs_child import GivenUp, Stand
from runtime.chaos.scenario import Scenario
from runtime.chaos.subject import Answer
from runtime.simulation.chance import Chance, SeededIds
from runtime.sync_points import SyncPoint
from store.batch import Batch, TransactionDied
from store.database import Reader, Writer
from store.errors import StateBusyError
from store.opening import connect_writer, open_reader
from store.transaction import Reading, SavepointNeeded

ALL_POINTS: Final = frozenset(
    {
        SyncPoint.COMMAND_BEFORE_BEGIN,
        SyncPoint.COMMAND_AFTER_BEGIN,
        SyncPoint.COMMAND_AFTER_COMMAND,
        SyncPoint.COMMAND_BEFORE_COMMIT,
        SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY,
    }
)
"""Where a process can stand in a command."""

FEWEST_POINTS: Final = ALL_POINTS - {SyncPoint.COMMAND_AFTER_COMMAND}
"""Without the one from which nothing but the next point can be reached, and nothing differs: for
every order of a scenario, where each point multiplies their number."""


def place_of(request_point: str, point: SyncPoint) -> str:
    """Return the name of a place: `claim after_begin`."""
    return f"{request_point} {point.value.partition('.')[2]}"


@final
class StoreSubject:
    """A `runtime.chaos.procs_child.Subject`; made before the processes are, it opens nothing."""

    def __init__(self, scenario: Scenario[Scene], points: Collection[SyncPoint]) -> None:
        self._scenario: Final = scenario
        self._points: Final = frozenset(points)
        self._path: Path | None = None
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._batch: Batch | None = None

    def open(self, place: str) -> None:
        """Use another database from now on; each connection is opened when it is needed.

        Raises:
            ScenarioRefused: it is the live one.
        """
        for connection in (self._writer, self._reader):
            if connection is not None:
                connection.close()
        self._writer = self._reader = None
        self._path = Path(place)
        refuse_live_state(self._path)

    def actor(self, name: str, stand: Stand, guard: Guard) -> Acting:
        """Return an actor of a fresh scene; its ids are a function of its name."""
        scene = Scene()
        self._scenario.body(scene)
        for plan in scene.actors:
            if name in plan.names:
                number = plan.names.index(name)
                break
        else:
            raise AssertionError(f"the scenario has declared no {name} this time")
        ids = SeededIds(Chance(0).stream(f"ids of {name}"))
        self._batch = Batch(self._open_writer(), ids, stand.wall_ms)
        return Acting(name, plan.body(Me(name, number, stand, stand.choices)), guard)

    def carry_out(self, request: Request, stand: Stand) -> object:
        """Carry out what an actor has asked for."""
        match request.work:
            case StoreWork(command=command):
                return self._write(request.point, command, stand)
            case StoreQuery(query=query):
                stand.at(request.point)
                with self._open_reader().snapshot() as connection:
                    return query(Reading(connection, stand.now_ms))
            case Sending(target=target, key=key, generation=generation):
                stand.at(request.point)
                fact: JsonObject = {"target": target, "key": key, "generation": generation}
                return stand.ask(outside=request.point, **fact)["answer"]
            case None if request.wake_at_ms is not None:
                stand.at(request.point, wakeAtMs=request.wake_at_ms)
            case None:
                stand.at(request.point)
            case work:
                raise AssertionError(f"an actor asks for {work!r}")
        return None

    def told(self, request: Request, result: object, error: Exception | None) -> JsonObject:
        """Return an answer in words; of a command also its result, if it has one."""
        words = words_of(request.work, Answer(result, error))
        facts: JsonObject = {"words": words.result, "generation": words.generation}
        if error is None and isinstance(request.work, StoreWork):
            facts["result"] = told(result)
        return facts

    def excuses(self, error: BaseException) -> bool:
        """An actor may end with what it cannot know."""
        return isinstance(error, Outcome)

    def _write(self, point: str, command: Command[Any], stand: Stand) -> object:
        """Run a command; once more if its answer was to arrive, and the request to come twice."""
        answer, how = self._transact(point, command, stand)
        if how == "duplicate":
            self._transact(point, command, stand)
        if how == "drop":
            raise AnswerLost
        return answer()

    def _transact(
        self, point: str, command: Command[Any], stand: Stand
    ) -> tuple[Callable[[], object], str]:
        """Run a command in a transaction of its own; return its answer, and what becomes of it."""
        batch = self._batch
        assert batch is not None, "an actor has begun"
        try:
            try:
                return self._run(batch.run_lightly, point, command, stand)
            except SavepointNeeded:
                batch.abandon()
                stand.note(freed=True)
            return self._run(batch.run, point, command, stand)
        except GivenUp:
            batch.abandon()
            raise

    def _run(
        self,
        run: Callable[[Command[Any]], object],
        point: str,
        command: Command[Any],
        stand: Stand,
    ) -> tuple[Callable[[], object], str]:
        batch = cast("Batch", self._batch)
        self._reach(SyncPoint.COMMAND_BEFORE_BEGIN, point, stand)
        while True:
            try:
                batch.begin()
            except StateBusyError:
                stand.at(f"{point} busy", busy=True)
            else:
                break
        self._reach(SyncPoint.COMMAND_AFTER_BEGIN, point, stand)
        try:
            answer = partial(_return, run(command))
        except TransactionDied as died:
            stand.note(freed=True)
            return partial(_raise, died.cause), "go"
        except Exception as error:  # noqa: BLE001 - every error of a command is its caller's
            answer = partial(_raise, error)
        self._reach(SyncPoint.COMMAND_AFTER_COMMAND, point, stand)
        self._reach(SyncPoint.COMMAND_BEFORE_COMMIT, point, stand)
        batch.commit()
        stand.note(freed=True, committed=True)
        return answer, self._reach(SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY, point, stand)

    def _reach(self, point: SyncPoint, request_point: str, stand: Stand) -> str:
        if point not in self._points:
            return "go"
        return stand.at(place_of(request_point, point))

    def _open_writer(self) -> Writer:
        if self._writer is None:
            assert self._path is not None, "a process opens before it acts"
            self._writer = connect_writer(self._path)
            self._writer.keep_log()
        return self._writer

    def _open_reader(self) -> Reader:
        if self._reader is None:
            assert self._path is not None, "a process opens before it acts"
            self._reader = open_reader(self._path)
        return self._reader


def _return(result: object) -> object:
    return result


def _raise(error: BaseException) -> object:
    raise error
