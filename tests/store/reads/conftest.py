"""A store with runs in it, written by the real commands, for whatever reads them."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

import pytest

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.ids import EffectId, RunId, WorkerEpoch
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import (
    ActorType,
    EffectAttemptOutcome,
    OwnerType,
    RunStatus,
    StepOutcome,
    WorkerStatus,
)
from store import run_advance, run_cancelling, run_claiming, run_creation, workers
from store.authority import Claim, Permit
from store.blobs import Blob
from store.database import Reader, Writer
from store.leases import Owner
from store.opening import open_reader, open_writer
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
from store.run_creation import NewRun
from store.run_parking import Departure, park_run
from store.transaction import Reading, Transaction
from store.workers import Launch, WorkerEnd

if TYPE_CHECKING:
    from tests.store.conftest import StateFolder

P = ParamSpec("P")
T = TypeVar("T")

NOW: Final = 1_700_000_000_000
TICK_MS: Final = 10
SERVER: Final = "server-1"
KILLED: Final = WorkerEnd(WorkerStatus.CRASHED, signal="KILL")
HOST: Final = Actor(ActorType.HOST, SERVER)
ASKER: Final = Permit(Actor(ActorType.CONTROL))

# count, then check; a failed check counts again, a good one is reported.
GRAPH: Final[JsonObject] = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "tally",
    "startAt": "count",
    "maxSteps": 200,
    "nodes": [
        {
            "id": "check",
            "type": "shell",
            "form": "shell",
            "effect": {"type": "shell", "recovery": "manual"},
        },
        {"id": "count", "type": "compute"},
        {
            "id": "report",
            "type": "action",
            "form": "function",
            "effect": {"type": "report.write", "recovery": "idempotent"},
        },
    ],
    "edges": [
        {
            "from": "check",
            "switch": {
                "on": "$result.outcome",
                "cases": {"ok": "report", "failed": "count", "timed_out": "count"},
            },
        },
        {"from": "count", "to": "check"},
    ],
    "mounts": [],
    "settings": None,
}
NODE_EFFECTS: Final = {"check": ("shell", "manual"), "report": ("report.write", "idempotent")}
NODE_TYPES: Final = {"check": "shell", "count": "compute", "report": "action"}


@dataclass(slots=True)
class CountedIds:
    """Ids in a fixed order, so that documents can be compared with files."""

    issued: int = 0

    def new_uuid(self) -> str:
        self.issued += 1
        return str(uuid.UUID(int=self.issued))

    def token_bytes(self, count: int = 32) -> bytes:
        self.issued += 1
        return self.issued.to_bytes(count, "big")


@dataclass(slots=True)
class ScriptedStore:
    """A database whose clock moves ten milliseconds with each command.

    Attributes:
        now: UTC epoch ms of the next command and of every reading until then.
    """

    state: "StateFolder"
    now: int = NOW
    ids: CountedIds = field(default_factory=CountedIds)
    writer: Writer = field(init=False)
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Open the file for writing and for reading."""
        self.writer = open_writer(self.state.path)
        self.reader = open_reader(self.state.path)

    def do(
        self, command: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run one command in a transaction of its own."""
        self.writer.begin_immediate()
        tx = Transaction(self.writer.connection, self.now, self.writer, self.ids)
        try:
            done = command(tx, *args, **kwargs)
            self.writer.commit()
        finally:
            self.writer.rollback()
        self.now += TICK_MS
        return done

    def read(
        self, query: Callable[Concatenate[Reading, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run one query in a snapshot of its own, on a connection that cannot write."""
        with self.reader.snapshot() as connection:
            return query(Reading(connection, self.now), *args, **kwargs)

    def alter(self, *statements: str) -> None:
        """Change rows behind the commands' back, foreign keys and checks still holding."""
        self.writer.begin_immediate()
        for statement in statements:
            self.writer.connection.execute(statement)
        self.writer.commit()

    def create(
        self, run_id: str, *, project: str = "/projects/one", run_input: JsonValue = None
    ) -> "ScriptedRun":
        """Reserve a run of the graph."""
        snapshot = Blob.of_json(GRAPH)
        self.do(
            run_creation.create_run,
            ASKER,
            NewRun(
                run_id=RunId(run_id),
                workflow_name="tally",
                workflow_ref="tally",
                project_path=project,
                source=SourceIdentity(SourceKind.FILE, f"{project}/tally.workflow.py", "ab" * 32),
                snapshot=snapshot,
                run_input=Blob.of_json(run_input),
                launch_options=Blob.of_json({}),
                title=None,
                origin_session_id=None,
            ),
        )
        return ScriptedRun(self, RunId(run_id))

    def close(self) -> None:
        self.reader.close()
        self.writer.close()


@dataclass(slots=True)
class ScriptedRun:
    """One run and the hand of whoever owns it."""

    store: ScriptedStore
    run_id: RunId
    claim: Claim | None = None
    messages: int = 0
    children: int = 0
    visits: dict[str, int] = field(default_factory=dict)
    effect: tuple[EffectId, int] | None = None

    @property
    def permit(self) -> Permit:
        return Permit(HOST, self.claim)

    @property
    def worker_epoch(self) -> WorkerEpoch:
        return WorkerEpoch(f"{self.run_id}-child-{self.children}")

    def begin(self) -> "ScriptedRun":
        """Claim the run and bring its child into service."""
        store = self.store
        owner = Owner(OwnerType.HOST, SERVER)
        claimed = store.do(run_claiming.claim_run, Permit(HOST), self.run_id, owner)
        self.claim = claimed.claim
        self.children += 1
        launched = Launch(
            self.worker_epoch, self.run_id, claimed.claim.generation, 1, Blob.of_json({})
        )
        store.do(run_claiming.launch, self.permit, launched)
        store.do(run_claiming.child_ready, self.permit, self.run_id, self.worker_epoch)
        return self

    def advance(self, *transitions: Transition) -> Advanced:
        """Send one runner message."""
        self.messages += 1
        message = Message(
            run_id=self.run_id,
            worker_epoch=self.worker_epoch,
            message_id=f"m{self.messages}",
            fingerprint=bytes(32),
            transitions=transitions,
            definition=DefinitionSnapshot.parse(GRAPH),
            owner_id=SERVER,
        )
        return self.store.do(run_advance.advance, self.permit, message)

    def start(self, node_id: str, *, detail: str | None = None) -> str:
        """Start the next visit of a node, its effect reserved; return the attempt's id."""
        visit = self.visits[node_id] = self.visits.get(node_id, 0) + 1
        attempt_id = f"attempt-{self.run_id}-{node_id}-{visit}"
        started = StartAttempt(
            attempt_id, node_id, NODE_TYPES[node_id], visit, self.store.now, detail
        )
        self.advance(started)
        if node_id in NODE_EFFECTS:
            effect_type, recovery = NODE_EFFECTS[node_id]
            payload = Blob.of_json({"request": {"visit": visit}, "recovery": recovery})
            granted = self.advance(
                ReserveEffect(attempt_id, node_id, visit, effect_type, recovery, payload)
            ).grants[0]
            assert granted is not None
            self.effect = (granted.effect_id, granted.attempt_number)
        return attempt_id

    def step(
        self,
        node_id: str,
        output: JsonValue = None,
        *,
        error: str | None = None,
        outcome: StepOutcome = StepOutcome.FAILED,
        receipt: JsonObject | None = None,
    ) -> None:
        """Start a node and finish it: ok with `output`, or `outcome` with `error`."""
        attempt_id = self.start(node_id)
        ended = StepOutcome.OK if error is None else outcome
        settled: list[Transition] = []
        if self.effect is not None:
            applied = ended is StepOutcome.OK
            settled.append(
                SettleEffect(
                    *self.effect,
                    EffectAttemptOutcome.APPLIED if applied else EffectAttemptOutcome.REJECTED,
                    Blob.of_json(output) if applied else None,
                    None if error is None else Blob.of_text(error),
                )
            )
            self.effect = None
        finished = FinishAttempt(
            attempt_id=attempt_id,
            node_id=node_id,
            outcome=ended,
            output=Blob.of_json(output) if error is None else None,
            output_value=output if error is None else None,
            error=None if error is None else Blob.of_text(error),
            error_text=error,
            receipt=None if receipt is None else Blob.of_json(receipt),
        )
        self.advance(*settled, finished)

    def complete(self, output: JsonValue) -> None:
        """End the run with the output of its last step."""
        self.advance(FinishRun(RunStatus.COMPLETED, Blob.of_json(output), None))

    def fail(self, error: str) -> None:
        """End the run as its last step's failure demands."""
        self.advance(FinishRun(RunStatus.FAILED, None, Blob.of_text(error)))

    def lose_child(self, end: WorkerEnd = KILLED) -> None:
        """Let the child die without progress: its end is recorded and the run parked."""
        store = self.store
        store.do(workers.end, self.worker_epoch, end)
        store.do(park_run, self.permit, self.run_id, Departure.DIED_WITHOUT_PROGRESS)

    def cancel(self, reason: str) -> None:
        """Cancel the run, which nobody owns."""
        self.store.do(run_cancelling.cancel_run, ASKER, self.run_id, reason)

    def work(self) -> "ScriptedRun":
        """Go through the whole graph once, with a failed check on the way, to the end."""
        self.begin()
        self.step("count", {"lines": 1})
        self.step(
            "check",
            error="exit code 1",
            receipt={"actionType": "shell", "command": "wc", "args": ["-l"], "exitCode": 1},
        )
        self.step("count", {"lines": 2})
        self.step("check", "2 lines", receipt={"actionType": "shell", "exitCode": 0})
        self.step("report", {"path": "report.md"}, receipt={"actionType": "function"})
        self.complete({"path": "report.md"})
        return self


@pytest.fixture
def scripted(state: "StateFolder") -> Iterator[ScriptedStore]:
    """An empty store; closed after the test."""
    store = ScriptedStore(state)
    yield store
    store.close()


@pytest.fixture
def worked(scripted: ScriptedStore) -> ScriptedStore:
    """A store with a run that has ended, one at work, one that lost its child, one cancelled."""
    scripted.create("done").work()
    scripted.create("live").begin().start("count")
    lost = scripted.create("lost").begin()
    lost.step("count", 1)
    lost.start("check")
    lost.lose_child()
    scripted.create("cancelled").cancel("enough")
    return scripted
