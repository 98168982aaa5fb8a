"""A real database with claimed runs under a server's epoch, and the command that is measured.

The command is what a step of a run costs the store: `advance_once` with the end of one attempt
and the start of the next, two revisions with their events, in one savepoint.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from pi_workflows.protocol.canonical import JsonObject, digest
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.ids import RunId, WorkerEpoch, time_ordered
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import ActorType, OwnerType, StepOutcome, WorkerMessageOutcome
from runtime.clock import SystemClock, WallMs
from runtime.world import SystemIdSource
from store import blobs, host, leases, run_claiming, run_creation, updates
from store.authority import Claim, Permit
from store.batch import Batch, run_alone
from store.blobs import Blob
from store.creation import create_database
from store.database import Writer
from store.host import HostClaim, HostProcess
from store.leases import Owner
from store.opening import open_writer
from store.proposals import FinishAttempt, Message, StartAttempt, Transition
from store.resources import Actor
from store.run_creation import NewRun
from store.run_messages import Answered, advance_once
from store.state_dir import prepare_state_dir
from store.transaction import Transaction
from store.updates import NewUpdate
from store.wal import CheckpointMode, checkpoint
from store.workers import Launch

_SERVER: Final = "server-bench"
_HOST: Final = Actor(ActorType.HOST, _SERVER)
_NODE: Final = "work"
_GRAPH: Final[JsonObject] = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "endless",
    "startAt": _NODE,
    "maxSteps": 1_000_000_000,
    "nodes": [{"id": _NODE, "type": "compute"}],
    "edges": [{"from": _NODE, "to": _NODE}],
    "mounts": [],
    "settings": None,
}
DEFINITION: Final = DefinitionSnapshot.parse(_GRAPH)
_LOG_BYTES: Final = 20 * 1_048_576
_FILLER: Final = "x" * 250
_READINGS_PER_MS: Final = 4

Step = Callable[[Transaction], Answered]


class PacedClock:
    """A wall clock that goes on by being read, some hundred commands in 100 ms.

    A claim lapses by the wall clock. A machine that stands still for a while, or whose clock is
    set, must not end a measurement, and ids that are ordered by time shall still rise.
    """

    def __init__(self) -> None:
        self._readings = SystemClock().wall_ms() * _READINGS_PER_MS

    def wall_ms(self) -> WallMs:
        """Return milliseconds since the Unix epoch as of the start, one more at each 4th call."""
        self._readings += 1
        return WallMs(self._readings // _READINGS_PER_MS)

    def monotonic(self) -> float:
        """Return `trio.current_time()`; only callable inside a trio run."""
        return trio.current_time()


@dataclass(slots=True)
class PreparedRun:
    """A claimed run with a child in service, stepping through an endless graph.

    Attributes:
        clock: what its claim lapses by.
        steps: steps handed out so far.
        attempt_id: of the node that it is at.
    """

    run_id: RunId
    worker_epoch: WorkerEpoch
    claim: Claim
    revision: int
    clock: PacedClock
    steps: int = 0
    attempt_id: str = ""

    def next_step(self) -> Step:
        """Return the next command of the run, parsed and hashed as the server does beforehand.

        They must run in the order in which they were handed out, each once.
        """
        now_ms = self.clock.wall_ms()
        started = StartAttempt(
            f"attempt-{time_ordered(str(uuid.uuid4()), now_ms)}",
            _NODE,
            "compute",
            self.steps + 1,
            now_ms,
            None,
        )
        transitions: list[Transition] = [started]
        if self.steps:
            output: JsonObject = {"run": self.run_id, "step": self.steps, "filler": _FILLER}
            blob = Blob.of_json(output)
            transitions.insert(
                0,
                FinishAttempt(
                    self.attempt_id, _NODE, StepOutcome.OK, blob, output, None, None, None
                ),
            )
        message = Message(
            self.run_id,
            self.worker_epoch,
            f"m{self.steps}",
            digest(f"{self.run_id} {self.steps}".encode()),
            tuple(transitions),
            DEFINITION,
            _SERVER,
        )
        permit = Permit(_HOST, self.claim, self.revision)
        self.steps += 1
        self.revision += len(transitions)
        self.attempt_id = started.attempt_id

        def step(tx: Transaction) -> Answered:
            answered = advance_once(tx, permit, message)
            assert answered.outcome is WorkerMessageOutcome.ACCEPTED, answered.error
            return answered

        return step

    def publish(self, tx: Transaction, update: NewUpdate) -> None:
        """Store an update of the node that it is at."""
        permit = Permit(_HOST, self.claim, self.revision)
        updates.publish(tx, permit, self.run_id, update)
        self.revision += 1


@dataclass(slots=True)
class PreparedStore:
    """An open database; close it in the end.

    Attributes:
        batch: fenced by the epoch that was acquired.
        clock: what its claims lapse by.
    """

    writer: Writer
    batch: Batch
    claim: HostClaim
    clock: PacedClock
    runs: list[PreparedRun] = field(default_factory=list)

    def settle(self) -> None:
        """Renew all claims and move the log, so that every sample begins alike.

        The log keeps its size, as it does in a server that has run for a while.
        """
        run_alone(self.batch, self._renew_claims)
        checkpoint(self.writer.connection, CheckpointMode.PASSIVE)

    def grow_log(self) -> None:
        """Give the log more room than a sample needs; `settle` lets it begin anew."""
        filler = Blob.of_text("x" * _LOG_BYTES)
        run_alone(self.batch, lambda tx: blobs.put(tx, filler))

    def close(self) -> None:
        """Close the file."""
        self.writer.close()

    def _renew_claims(self, tx: Transaction) -> None:
        for run in self.runs:
            leases.renew_claim(tx, run.claim)


def prepare_store(folder: Path, runs: int) -> PreparedStore:
    """Create a database in `folder` and bring `runs` runs into service, each at its first node."""
    prepare_state_dir(folder)
    path = folder / "state.sqlite"
    clock = PacedClock()
    create_database(path, now=clock.wall_ms())
    writer = open_writer(path)
    batch = Batch(writer, SystemIdSource(), clock.wall_ms)
    process = HostProcess(_SERVER, 1, "bench")
    claim = run_alone(batch, lambda tx: host.acquire(tx, process, holder_gone=True))
    batch.claim = claim
    prepared = PreparedStore(writer, batch, claim, clock)
    batch.begin()
    for number in range(runs):
        run = _begin(prepared, number)
        batch.run(run.next_step())
        prepared.runs.append(run)
    batch.commit()
    return prepared


def _begin(store: PreparedStore, number: int) -> PreparedRun:
    batch = store.batch
    run_id = RunId(f"run-{number}")
    new = NewRun(
        run_id=run_id,
        workflow_name="endless",
        workflow_ref="endless",
        project_path="/bench",
        source=SourceIdentity(SourceKind.FILE, "/bench/endless.workflow.py", "ab" * 32),
        snapshot=Blob.of_json(_GRAPH),
        run_input=Blob.of_json(None),
        launch_options=Blob.of_json({}),
        title=None,
        origin_session_id=None,
    )
    asker = Permit(Actor(ActorType.CONTROL))
    batch.run(lambda tx: run_creation.create_run(tx, asker, new))
    owner = Owner(OwnerType.HOST, _SERVER)
    claimed = batch.run(lambda tx: run_claiming.claim_run(tx, Permit(_HOST), run_id, owner))
    permit = Permit(_HOST, claimed.claim)
    epoch = WorkerEpoch(f"runner-{number}")
    launch = Launch(
        epoch, run_id, claimed.claim.generation, store.claim.epoch, Blob.of_json({"run": run_id})
    )
    batch.run(lambda tx: run_claiming.launch(tx, permit, launch))
    ready = batch.run(lambda tx: run_claiming.child_ready(tx, permit, run_id, epoch))
    return PreparedRun(run_id, epoch, claimed.claim, ready.revision, store.clock)
