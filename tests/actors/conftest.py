"""A real store behind a real start-up, and children that follow scripts."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Concatenate, Final, ParamSpec, TypeAlias, TypeVar, cast

import pytest
import trio

from actors.run_owner import RunOwner
from actors.services import CONTROL
from actors.startup import Started, Startup
from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_bytes, digest_hex
from pi_workflows.protocol.frames import encode_frame, parse_canonical
from pi_workflows.protocol.ids import RunId
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.version import RUNNER_MESSAGE
from runtime.clock import WallMs
from runtime.line_stream import LineStream
from runtime.log import Log, LogFile
from runtime.process import ExitStatus
from runtime.processes import SystemProcessTable
from runtime.scripted_process import ScriptedSpawner
from runtime.sync_points import InertSyncPoints
from runtime.world import CommitExecutor, InlineCommitExecutor, SystemIdSource, World
from store import run_queue, runs
from store.authority import Permit
from store.blobs import Blob
from store.run_creation import NewRun, create_run
from store.runs import RunRow
from store.transaction import Reading, Transaction

P = ParamSpec("P")
T = TypeVar("T")

NOW: Final = 1_700_000_000_000


def graph(name: str = "tally", **effect: str) -> JsonObject:
    """A definition of two compute nodes; with an effect the second is an action."""
    second: JsonObject = {"id": "second", "type": "compute"}
    if effect:
        second = {"id": "second", "type": "action", "form": "function", "effect": dict(effect)}
    return {
        "schema": "pi-workflows.definition-snapshot.v1",
        "name": name,
        "startAt": "first",
        "maxSteps": 20,
        "nodes": [{"id": "first", "type": "compute"}, second],
        "edges": [{"from": "first", "to": "second"}],
        "mounts": [],
        "settings": None,
    }


class SteppedClock:
    """Wall time that goes with the loop's clock, plus whatever it was stepped by."""

    def __init__(self) -> None:
        self.stepped_ms = 0

    def wall_ms(self) -> WallMs:
        return WallMs(NOW + round(trio.current_time() * 1000) + self.stepped_ms)

    def monotonic(self) -> float:
        return trio.current_time()


class _Middle:
    def random(self) -> float:
        return 0.5


class _LetGo(Exception):
    """The child is not wanted any more."""


class RunnerEnd:
    """The child's end of the runner protocol."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.lines: Final = LineStream(stream)
        self.launched: JsonObject = {}
        self.revision: int | None = None
        self.stopping = trio.Event()
        self._sent = 0

    async def launch(self) -> JsonObject:
        """Read the launch envelope."""
        line = await self.lines.receive()
        assert line is not None
        self.launched = parse_canonical(line)
        return self.launched

    def frame(
        self, operation: str, payload: JsonObject, *, message_id: str | None = None
    ) -> JsonObject:
        self._sent += message_id is None
        return {
            "schema": RUNNER_MESSAGE,
            "messageId": message_id or f"m{self._sent}",
            "operation": operation,
            "runId": self.launched["runId"],
            "generation": self.launched["generation"],
            "runnerEpoch": self.launched["runnerEpoch"],
            "expectedRevision": self.revision,
            "payload": payload,
        }

    async def send(self, frame: JsonObject) -> JsonObject:
        """Send a message and return the reply; its revision becomes the expected one."""
        await self.lines.send(encode_frame(frame))
        line = await self.lines.receive()
        if line is None:
            raise _LetGo
        reply = parse_canonical(line)
        if "revision" in reply:
            self.revision = cast("int", reply["revision"])
        return reply

    async def ask(
        self, operation: str, payload: JsonObject | None = None, *, message_id: str | None = None
    ) -> JsonObject:
        return await self.send(self.frame(operation, payload or {}, message_id=message_id))

    async def ready(self) -> JsonObject:
        """Say hello; return the command."""
        await self.launch()
        reply = await self.ask("runner.ready")
        if reply["outcome"] == "claimLost":
            raise _LetGo
        return cast("JsonObject", reply["result"])

    async def advance(self, *transitions: JsonObject) -> JsonObject:
        return await self.ask("run.advance", {"transitions": list(transitions)})

    async def go_on(self, *transitions: JsonObject) -> None:
        """Like `advance`; a child that is told `claimLost` ends."""
        if (await self.advance(*transitions))["outcome"] == "claimLost":
            raise _LetGo

    @property
    def epoch(self) -> str:
        return str(self.launched["runnerEpoch"])

    def attempt(self, node_id: str) -> str:
        """The id of this child's try of a node."""
        return f"attempt-{self.epoch}-{node_id}"

    def started(self, node_id: str, *, node_type: str = "compute") -> JsonObject:
        return {
            "type": "startAttempt",
            "attemptId": self.attempt(node_id),
            "nodeId": node_id,
            "nodeType": node_type,
            "visit": 1,
            "startedAt": NOW,
        }

    def finished(self, node_id: str) -> JsonObject:
        return {
            "type": "finishAttempt",
            "attemptId": self.attempt(node_id),
            "nodeId": node_id,
            "outcome": "ok",
            "output": {"node": node_id},
        }

    def reserve(self, node_id: str, effect_type: str, recovery: str) -> JsonObject:
        return {
            "type": "reserveEffect",
            "attemptId": self.attempt(node_id),
            "nodeId": node_id,
            "visit": 1,
            "effectType": effect_type,
            "recovery": recovery,
            "request": {"to": "somebody"},
        }

    def granted(self, reply: JsonObject) -> JsonObject:
        return cast("list[JsonObject]", cast("JsonObject", reply["result"])["transitions"])[-1]

    def settled(self, grant: JsonObject, outcome: str) -> JsonObject:
        identity = {name: grant[name] for name in ("effectId", "attemptNumber")}
        return {"type": "settleEffect", **identity, "outcome": outcome}

    async def leave(self, reason: str) -> ExitStatus:
        await self.ask("runner.exiting", {"reason": reason})
        return ExitStatus(0, None)

    async def work(self) -> ExitStatus:
        """Take the run from wherever it stands to its end, like a well-behaved child."""
        command = await self.ready()
        done = cast("int", command["stepCount"])
        for node_id in ("first", "second")[done:]:
            await self.go_on(self.started(node_id))
            await self.go_on(self.finished(node_id))
        await self.go_on({"type": "finishRun", "status": "completed"})
        return await self.leave("finished")

    async def idle(self) -> ExitStatus:
        """Start the first node, whose code never returns."""
        await self.ready()
        await self.advance(self.started("first"))
        return await self.hang()

    async def resolve(self) -> ExitStatus:
        """Play the resolver that finds the workflow `tally`."""
        request = await self.launch()
        source: JsonObject = {"kind": "file", "path": "/projects/one/tally.py", "hash": "ab" * 32}
        snapshot = graph()
        answer: JsonObject = {
            "outcome": "resolved",
            "workflowName": "tally",
            "workflowRef": request["workflow"],
            "source": source,
            "mounts": [],
            "definitionSnapshot": snapshot,
            "definitionDigest": digest_hex(canonical_bytes(snapshot)),
            "input": request["input"],
        }
        await self.lines.send(encode_frame(answer))
        return ExitStatus(0, None)

    async def hang(self) -> ExitStatus:
        """Do nothing until stopped."""
        await trio.sleep_forever()
        raise AssertionError


Script = Callable[[RunnerEnd], Awaitable[ExitStatus]]


async def _follow(script: Script, stream: trio.SocketStream) -> ExitStatus:
    try:
        return await script(RunnerEnd(stream))
    except (_LetGo, trio.BrokenResourceError):
        return ExitStatus(0, None)


class Bench:
    """A started server's parts, without its front."""

    def __init__(self, started: Started) -> None:
        self.services = started.services
        self.world = self.services.world
        self.paths = self.services.paths
        self.clock = cast("SteppedClock", self.world.clock)
        self.spawner = cast("ScriptedSpawner", self.world.spawner)
        self._runs = 0

    working = staticmethod(RunnerEnd.work)
    """The script of a well-behaved child."""
    idling = staticmethod(RunnerEnd.idle)
    """The script of a child whose user code never returns."""
    hanging = staticmethod(RunnerEnd.hang)
    """The script of a child that never says a word."""
    resolving = staticmethod(RunnerEnd.resolve)
    """The script of a resolver that finds its workflow."""

    def children(self, *scripts: Script) -> None:
        """Let the next children follow these scripts, the last one again and again."""
        self.spawner.scripts = [partial(_follow, script) for script in scripts]

    async def create(
        self,
        run_id: str | None = None,
        *,
        snapshot: JsonObject | None = None,
        run_input: JsonValue = "three lines",
    ) -> RunId:
        """Reserve a run."""
        self._runs += 1
        identity = RunId(run_id or f"run-{self._runs}")
        new = NewRun(
            run_id=identity,
            workflow_name="tally",
            workflow_ref="tally",
            project_path="/projects/one",
            source=SourceIdentity(SourceKind.FILE, "/projects/one/tally.workflow.py", "ab" * 32),
            snapshot=Blob.of_json(snapshot or graph()),
            run_input=Blob.of_json(run_input),
            launch_options=Blob.of_json({}),
            title=None,
            origin_session_id=None,
        )
        await self.services.store.do(create_run, Permit(CONTROL), new)
        return identity

    async def create_with_effect(self, effect_type: str, recovery: str) -> RunId:
        """Reserve a run whose second node acts on the outside world."""
        return await self.create(snapshot=graph(type=effect_type, recovery=recovery))

    def limit(self, capacity: int) -> None:
        """Let so many runs be served at a time."""
        self.services = replace(self.services, capacity=capacity)

    def owner(self, run_id: RunId) -> RunOwner:
        return RunOwner(self.services, run_id)

    def read(
        self, query: Callable[Concatenate[Reading, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        with self.services.readers.reading() as reading:
            return query(reading, *args, **kwargs)

    def run_row(self, run_id: RunId) -> RunRow:
        return self.read(runs.require, run_id)

    def queue_row(self, run_id: RunId) -> run_queue.QueueRow:
        return self.read(run_queue.require, run_id)

    def rows(self, sql: str, bindings: dict[str, str] | None = None) -> list[tuple[object, ...]]:
        """What a statement of the test's own finds."""
        with self.services.readers.reading() as reading:
            return list(reading.connection.execute(sql, bindings or {}))

    async def alter(self, sql: str) -> None:
        """Change rows behind the commands' back."""

        def change(tx: Transaction) -> None:
            tx.connection.execute(sql)

        await self.services.store.do(change)


@pytest.fixture
def home() -> Iterator[Path]:
    """A home with a short path, in memory if it can be: there are thousands of commits."""
    memory = Path("/dev/shm")  # noqa: S108 - a private folder is made inside
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def commits() -> Iterator[CommitExecutor]:
    executor = InlineCommitExecutor()
    yield executor
    executor.close()


@pytest.fixture
def spawner(nursery: trio.Nursery) -> ScriptedSpawner:
    return ScriptedSpawner(nursery, [partial(_follow, RunnerEnd.work)])


@pytest.fixture
def world(clock: SteppedClock, commits: CommitExecutor, spawner: ScriptedSpawner) -> World:
    return World(
        clock=clock,
        ids=SystemIdSource(),
        randomness=_Middle(),
        commits=commits,
        spawner=spawner,
        processes=SystemProcessTable(),
        sync_points=InertSyncPoints(),
    )


Begin: TypeAlias = Callable[[AsyncExitStack], Awaitable[Started]]


@pytest.fixture
def begin(home: Path, world: World) -> Begin:
    """Bring a server up to where its front would begin; the stack takes it down."""

    async def beginning(undo: AsyncExitStack) -> Started:
        paths = StatePaths(home)
        file = LogFile(paths.logs / "server.log")
        undo.callback(file.close)
        return await Startup(world, paths, Log(file, world.clock, "server"), 4).run(undo)

    return beginning


@pytest.fixture
def make_bench() -> type[Bench]:
    """For servers that are started in another way."""
    return Bench


@pytest.fixture
async def bench(begin: Begin) -> AsyncIterator[Bench]:
    """A started server; the test asks for `autojump_clock` too, for only a test's own counts."""
    async with AsyncExitStack() as undo:
        begun = await begin(undo)
        async with trio.open_nursery() as serving:
            await serving.start(begun.services.store.serve)
            yield Bench(begun)
            begun.services.store.stop()
