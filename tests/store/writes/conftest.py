"""A store whose commands go through real batches, under a clock and ids that the test owns."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import pytest

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.ids import EffectId, RunId, WorkerEpoch, effect_id, run_resource_id
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import (
    ActorType,
    EffectAttemptOutcome,
    OwnerType,
    RunStatus,
    StepOutcome,
    WorkerStatus,
)
from store import (
    effects,
    recovery,
    run_advance,
    run_cancelling,
    run_claiming,
    run_messages,
    workers,
)
from store.authority import Claim, Permit
from store.batch import Batch, run_alone
from store.blobs import Blob
from store.database import Writer
from store.leases import Owner
from store.opening import open_writer
from store.proposals import (
    Advanced,
    FinishAttempt,
    FinishRun,
    Message,
    ReserveEffect,
    SettleEffect,
    StartAttempt,
    Transition,
)
from store.resources import Actor
from store.rows import SqlValue, scalar
from store.run_creation import NewRun, create_run
from store.run_messages import Answered
from store.run_parking import Departure, park_run
from store.transaction import Transaction
from store.workers import Launch, WorkerEnd

if TYPE_CHECKING:
    from tests.store.conftest import StateFolder

P = ParamSpec("P")
T = TypeVar("T")
Dump = dict[str, list[tuple[Any, ...]]]

NOW: Final = 1_700_000_000_000
SERVER: Final = "server-1"
HOST: Final = Actor(ActorType.HOST, SERVER)
CONTROL: Final = Permit(Actor(ActorType.CONTROL))
SYSTEM: Final = Permit(Actor(ActorType.SYSTEM))

# fetch, then send; a failed send fetches again, a good one is noted down.
GRAPH: Final[JsonObject] = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "courier",
    "startAt": "fetch",
    "maxSteps": 6,
    "nodes": [
        {"id": "fetch", "type": "compute"},
        {
            "id": "note",
            "type": "action",
            "effect": {"type": "note.write", "recovery": "idempotent"},
        },
        {"id": "send", "type": "action", "effect": {"type": "mail.send", "recovery": "manual"}},
    ],
    "edges": [
        {"from": "fetch", "to": "send"},
        {
            "from": "send",
            "switch": {"on": "$result.outcome", "cases": {"ok": "note", "failed": "fetch"}},
        },
    ],
    "mounts": [],
    "settings": None,
}
DEFINITION: Final = DefinitionSnapshot.parse(GRAPH)


@dataclass(slots=True)
class CountedIds:
    """Ids in a fixed order."""

    issued: int = 0

    def new_uuid(self) -> str:
        self.issued += 1
        return str(uuid.UUID(int=self.issued))

    def token_bytes(self, count: int = 32) -> bytes:
        self.issued += 1
        return self.issued.to_bytes(count, "big")


@dataclass(slots=True)
class WriteStore:
    """An open database that only commands change.

    Attributes:
        now: UTC epoch ms that the next batch reads.
    """

    state: "StateFolder"
    now: int = NOW
    ids: CountedIds = field(default_factory=CountedIds)
    writer: Writer = field(init=False)
    batch: Batch = field(init=False)

    def __post_init__(self) -> None:
        self.writer = open_writer(self.state.path)
        self.batch = Batch(self.writer, self.ids, lambda: self.now)

    def do(
        self, command: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run one command in a batch of its own."""
        return run_alone(self.batch, lambda tx: command(tx, *args, **kwargs))

    def alter(self, *statements: str) -> None:
        """Change rows behind the commands' back, foreign keys and checks still holding."""
        with self.writer.connection as connection:
            connection.execute(";".join(statements))

    def rows(self, sql: str, **bindings: str | int) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.writer.connection.execute(sql, bindings).fetchall()

    def value(self, sql: str, **bindings: str | int) -> SqlValue:
        """Return the one value of a query."""
        return scalar(self.writer.connection, sql, bindings)

    def dump(self) -> Dump:
        """Return every row of every table."""
        names = self.rows("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        return {name: self.rows(f"SELECT * FROM {name}") for (name,) in names}  # noqa: S608

    def new_run(self, run_id: str, *, origin_session_id: str | None = None) -> NewRun:
        """Describe a run of the graph."""
        return NewRun(
            run_id=RunId(run_id),
            workflow_name="courier",
            workflow_ref="courier",
            project_path="/projects/one",
            source=SourceIdentity(SourceKind.FILE, "/projects/one/courier.workflow.py", "ab" * 32),
            snapshot=Blob.of_json(GRAPH),
            run_input=Blob.of_json({"to": "somebody"}),
            launch_options=Blob.of_json({}),
            title=None,
            origin_session_id=origin_session_id,
        )

    def create(self, run_id: str = "run-1", graph: JsonObject = GRAPH) -> "WrittenRun":
        """Reserve a run of the graph."""
        new = replace(self.new_run(run_id), snapshot=Blob.of_json(graph))
        self.do(create_run, CONTROL, new)
        return WrittenRun(self, run_id, DefinitionSnapshot.parse(graph))

    def recover(self) -> None:
        """Do what a starting server does to the runs of its dead predecessor."""
        self.do(recovery.close_predecessor, SYSTEM)
        for (run_id,) in self.rows(recovery.SELECT_UNDER_WAY):
            self.do(recovery.recover_run, SYSTEM, run_id)


@dataclass(slots=True)
class WrittenRun:
    """One run, the hand of whoever owns it, and the words of its child."""

    store: WriteStore
    run_id: str
    definition: DefinitionSnapshot = DEFINITION
    held: Claim | None = None
    children: int = 0
    messages: int = 0

    @property
    def claim(self) -> Claim:
        assert self.held is not None
        return self.held

    @property
    def permit(self) -> Permit:
        return Permit(HOST, self.held)

    @property
    def worker_epoch(self) -> WorkerEpoch:
        return WorkerEpoch(f"{self.run_id}-child-{self.children}")

    @property
    def status(self) -> tuple[str, str]:
        """Status of the run and of its queue row."""
        (found,) = self.store.rows(
            "SELECT r.status, q.status FROM runs AS r JOIN run_queue AS q USING (run_id)"
            " WHERE r.run_id = :run_id",
            run_id=self.run_id,
        )
        return found[0], found[1]

    @property
    def revision(self) -> int:
        return int(self.column("SELECT revision FROM resources WHERE resource_id = :id")[0])

    @property
    def expires_at(self) -> int | None:
        (found,) = self.column("SELECT expires_at FROM leases WHERE resource_id = :id")
        return None if found is None else int(found)

    def column(self, sql: str) -> list[Any]:
        """Return the first column of a query about the run's resource `:id`."""
        return [row[0] for row in self.store.rows(sql, id=run_resource_id(self.run_id))]

    def events(self) -> list[str]:
        """Return the types of the run's own events, oldest first."""
        return self.column(
            "SELECT event_type FROM events WHERE resource_id = :id ORDER BY resource_revision"
        )

    def effects(self) -> list[tuple[str, str]]:
        """Return type and status of the effects that the run sources, oldest first."""
        return self.store.rows(
            "SELECT effect_type, status FROM effects WHERE source_resource_id = :id"
            " ORDER BY created_at, rowid",
            id=run_resource_id(self.run_id),
        )

    def take(self, server: str = SERVER) -> Claim:
        """Claim the run."""
        owner = Owner(OwnerType.HOST, server)
        self.held = self.store.do(run_claiming.claim_run, Permit(HOST), self.run_id, owner).claim
        return self.held

    def launch(self) -> None:
        """Record the launch of a child."""
        self.children += 1
        launched = Launch(
            self.worker_epoch, self.run_id, self.claim.generation, 1, Blob.of_json({})
        )
        self.store.do(run_claiming.launch, self.permit, launched)

    def ready(self) -> run_claiming.ReadyRun:
        """Let the child say hello."""
        return self.store.do(run_claiming.child_ready, self.permit, self.run_id, self.worker_epoch)

    def begin(self) -> "WrittenRun":
        """Claim the run and bring its child into service."""
        self.take()
        self.launch()
        self.ready()
        return self

    def end_child(self) -> None:
        """Record that the child has ended."""
        self.store.do(workers.end, self.worker_epoch, WorkerEnd(WorkerStatus.EXITED))

    def message(self, *transitions: Transition, message_id: str | None = None) -> Message:
        """Make a runner message; its fingerprint follows from what it says."""
        self.messages += 1
        return Message(
            run_id=RunId(self.run_id),
            worker_epoch=self.worker_epoch,
            message_id=message_id or f"m{self.messages}",
            fingerprint=Blob.of_text(repr(transitions)).blob_hash,
            transitions=transitions,
            definition=self.definition,
            owner_id=SERVER,
        )

    def advance(self, *transitions: Transition, permit: Permit | None = None) -> Advanced:
        """Apply transitions as one message."""
        message = self.message(*transitions)
        return self.store.do(run_advance.advance, permit or self.permit, message)

    def answer(self, message: Message) -> Answered:
        """Send a message the way a run owner does."""
        return self.store.do(run_messages.advance_once, self.permit, message)

    def started(self, node_id: str, *, visit: int = 1) -> StartAttempt:
        """Propose a try of a node, under a new attempt id."""
        node = self.definition.nodes[node_id]
        attempt_id = f"attempt-{self.store.ids.new_uuid()}"
        return StartAttempt(attempt_id, node_id, node.node_type, visit, self.store.now, None)

    def finished(
        self,
        start: StartAttempt,
        output: JsonValue = None,
        *,
        outcome: StepOutcome = StepOutcome.OK,
        error: str = "it did not work",
    ) -> FinishAttempt:
        """Propose the end of a try: `output` if it is ok, else `error`."""
        succeeded = outcome is StepOutcome.OK
        return FinishAttempt(
            start.attempt_id,
            start.node_id,
            outcome,
            Blob.of_json(output) if succeeded else None,
            output if succeeded else None,
            None if succeeded else Blob.of_text(error),
            None if succeeded else error,
            None,
        )

    def reserved(self, start: StartAttempt, request: JsonValue = "please") -> ReserveEffect:
        """Propose the effect that the node of a try declares."""
        node = self.definition.nodes[start.node_id]
        assert node.effect_type is not None
        assert node.effect_recovery is not None
        payload = Blob.of_json({"request": request, "recovery": node.effect_recovery})
        return ReserveEffect(
            start.attempt_id,
            start.node_id,
            start.visit,
            node.effect_type,
            node.effect_recovery,
            payload,
        )

    def effect_of(self, start: StartAttempt) -> EffectId:
        """Return the id of the effect of a try."""
        effect_type = self.definition.nodes[start.node_id].effect_type
        assert effect_type is not None
        key = effects.action_key(self.run_id, effect_type, start.node_id, start.visit)
        return effect_id(run_resource_id(self.run_id), effect_type, key)

    def settled(
        self, start: StartAttempt, outcome: EffectAttemptOutcome, *, number: int = 1
    ) -> SettleEffect:
        """Propose how the effect of a try ended."""
        result = Blob.of_json({"done": True}) if outcome is EffectAttemptOutcome.APPLIED else None
        return SettleEffect(self.effect_of(start), number, outcome, result, None)

    def work(self, start: StartAttempt) -> None:
        """Go through a try that succeeds."""
        self.advance(start)
        output: JsonObject = {"from": start.node_id}
        if self.definition.nodes[start.node_id].effect_type is None:
            self.advance(self.finished(start, output))
            return
        self.advance(self.reserved(start))
        settled = self.settled(start, EffectAttemptOutcome.APPLIED)
        self.advance(settled, self.finished(start, output))

    def act(self, node_id: str = "send", *, visit: int = 1) -> StartAttempt:
        """Start a try and reserve its effect: the callback may be acting now."""
        start = self.started(node_id, visit=visit)
        self.advance(start, self.reserved(start))
        return start

    def completed(self) -> FinishRun:
        """Propose the end that the good path has."""
        return FinishRun(RunStatus.COMPLETED, Blob.of_json({"from": "note"}), None)

    def walk(self) -> "WrittenRun":
        """Go the good path to its last step."""
        self.begin()
        for node_id in ("fetch", "send", "note"):
            self.work(self.started(node_id))
        return self

    def park(self, departure: Departure = Departure.HANDED_OFF) -> None:
        """Record the end of the child and give the run up."""
        self.end_child()
        self.store.do(park_run, self.permit, self.run_id, departure)

    def cancel(
        self, reason: str | None = "enough", *, permit: Permit = CONTROL
    ) -> run_cancelling.CancelReply:
        """Cancel the run; without a claim unless `permit` has one."""
        return self.store.do(run_cancelling.cancel_run, permit, self.run_id, reason)


@pytest.fixture
def store(state: "StateFolder") -> Iterator[WriteStore]:
    """An empty store; closed after the test."""
    opened = WriteStore(state)
    yield opened
    opened.writer.close()


@pytest.fixture
def run(store: WriteStore) -> WrittenRun:
    """A queued run."""
    return store.create()
