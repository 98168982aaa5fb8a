"""What one process of the pool has: a store, a reader, and an actor of a scene."""

from collections.abc import Collection
from pathlib import Path
from typing import Final, final

from pi_workflows.chaos.answers import words_of
from pi_workflows.chaos.live_state import refuse_live_state
from pi_workflows.chaos.procs_store import ProcessStore, WaitingWriter
from pi_workflows.chaos.scene import Me, Outcome, Scene, Sending, StoreQuery, StoreWork
from pi_workflows.chaos.scene_stage import declared
from pi_workflows.protocol.canonical import JsonObject
from runtime.chaos.acting import Acting, Request
from runtime.chaos.guard import Guard
from runtime.chaos.own_code import OwnCode
from runtime.chaos.procs_child import Stand
from runtime.chaos.scenario import Scenario
from runtime.chaos.subject import Answer
from runtime.simulation.chance import Chance, SeededIds
from runtime.sync_points import SyncPoint
from store.database import Reader
from store.opening import open_reader
from store.transaction import Reading


@final
class StoreSubject:
    """A `runtime.chaos.procs_child.Subject`; made before the processes are, it opens nothing."""

    def __init__(self, scenario: Scenario[Scene], points: Collection[SyncPoint]) -> None:
        self.guard: Guard = Guard(OwnCode.at(scenario.place))
        self._scenario: Final = scenario
        self._points: Final = frozenset(points)
        self._path: Path | None = None
        self._writer: WaitingWriter | None = None
        self._reader: Reader | None = None
        self._store: ProcessStore | None = None

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
        scene = declared(self._scenario)
        for plan in scene.actors:
            if name in plan.names:
                number = plan.names.index(name)
                break
        else:
            raise AssertionError(f"the scenario has declared no {name} this time")
        ids = SeededIds(Chance(0).stream(f"ids of {name}"))
        self._store = ProcessStore(self._open_writer(), ids, stand, self._points)
        return Acting(name, plan.body(Me(name, number, stand, stand.choices)), guard)

    def carry_out(self, request: Request, stand: Stand) -> object:
        """Carry out what an actor has asked for."""
        match request.work:
            case StoreWork(command=command):
                assert self._store is not None, "an actor has begun"
                return self._store.carry_out(request.point, command)
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
        """Return an answer in words."""
        words = words_of(request.work, Answer(result, error))
        return {"words": words.result, "generation": words.generation}

    def excuses(self, error: BaseException) -> bool:
        """An actor may end with what it cannot know."""
        return isinstance(error, Outcome)

    def _open_writer(self) -> WaitingWriter:
        if self._writer is None:
            assert self._path is not None, "a process opens before it acts"
            self._writer = WaitingWriter.connected(self._path)
        return self._writer

    def _open_reader(self) -> Reader:
        if self._reader is None:
            assert self._path is not None, "a process opens before it acts"
            self._reader = open_reader(self._path)
        return self._reader
