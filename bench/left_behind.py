"""What a server that is gone has left: runs in its hands, at their first node, no process."""

import subprocess
import sys
import uuid
from functools import partial
from pathlib import Path
from typing import Final

from pi_workflows.authoring.loading import load_file
from pi_workflows.protocol.canonical import digest, digest_hex
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.ids import RunId, WorkerEpoch
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import ActorType, OwnerType, WorkerMessageOutcome
from runtime.clock import SystemClock
from runtime.identity import ProcessIdentity, identity_of
from runtime.world import SystemIdSource
from store import host, run_claiming, run_creation
from store.authority import Permit
from store.batch import Batch, run_alone
from store.blobs import Blob
from store.creation import create_database
from store.host import HostProcess
from store.leases import Owner
from store.opening import open_writer
from store.proposals import Message, StartAttempt
from store.resources import Actor
from store.run_creation import NewRun
from store.run_messages import advance_once
from store.state_dir import prepare_state_dir
from store.transaction import Transaction
from store.workers import Launch

_SERVER: Final = "server-that-is-gone"
_HOST: Final = Actor(ActorType.HOST, _SERVER)
_TOGETHER: Final = 50
"""Runs made in one transaction."""


def leave_runs_behind(home: Path, workflow: Path, count: int) -> None:
    """Make the state directory of `home` with so many runs of `workflow`, of one node, under way.

    Their server is a process that has ended.
    """
    paths = StatePaths(home)
    prepare_state_dir(paths.state_dir)
    clock = SystemClock()
    create_database(paths.database, now=clock.wall_ms())
    writer = open_writer(paths.database)
    try:
        batch = Batch(writer, SystemIdSource(), clock.wall_ms)
        gone = _ended_process()
        process = HostProcess(_SERVER, gone.pid, gone.start_identity)
        batch.claim = run_alone(batch, lambda tx: host.acquire(tx, process, holder_gone=True))
        left = _Left(home, workflow, batch.claim.epoch, clock.wall_ms())
        for first in range(0, count, _TOGETHER):
            numbers = range(first, min(first + _TOGETHER, count))
            run_alone(batch, partial(left.make, numbers))
    finally:
        writer.close()


class _Left:
    """Makes one run after the other."""

    def __init__(self, home: Path, workflow: Path, host_epoch: int, now_ms: int) -> None:
        source = workflow.read_bytes()
        definition = load_file(workflow, source)
        graph = definition.snapshot()
        self._home: Final = home
        self._workflow: Final = workflow
        self._source_hash: Final = digest_hex(source)
        self._name: Final = definition.name
        self._snapshot: Final = Blob.of_json(graph)
        self._definition: Final = DefinitionSnapshot.parse(graph)
        self._host_epoch: Final = host_epoch
        self._now_ms: Final = now_ms

    def make(self, numbers: range, tx: Transaction) -> None:
        """Create runs, claim them, bring a child of each into service and start its node."""
        for number in numbers:
            self._make(tx, number)

    def _make(self, tx: Transaction, number: int) -> None:
        run_id = RunId(f"run-{number:04d}")
        run_creation.create_run(tx, Permit(Actor(ActorType.CONTROL)), self._new_run(run_id))
        owner = Owner(OwnerType.HOST, _SERVER)
        claimed = run_claiming.claim_run(tx, Permit(_HOST), run_id, owner)
        permit = Permit(_HOST, claimed.claim)
        epoch = WorkerEpoch(f"runner-{number}")
        envelope = Blob.of_json({"run": run_id})
        generation = claimed.claim.generation
        launched = Launch(epoch, run_id, generation, self._host_epoch, envelope)
        run_claiming.launch(tx, permit, launched)
        ready = run_claiming.child_ready(tx, permit, run_id, epoch)
        permit = Permit(_HOST, claimed.claim, ready.revision)
        answered = advance_once(tx, permit, self._first_step(run_id, epoch))
        assert answered.outcome is WorkerMessageOutcome.ACCEPTED, answered.error

    def _new_run(self, run_id: RunId) -> NewRun:
        return NewRun(
            run_id=run_id,
            workflow_name=self._name,
            workflow_ref=str(self._workflow),
            project_path=str(self._home),
            source=SourceIdentity(SourceKind.FILE, str(self._workflow), self._source_hash),
            snapshot=self._snapshot,
            run_input=Blob.of_json(None),
            launch_options=Blob.of_json({}),
            title=None,
            origin_session_id=None,
        )

    def _first_step(self, run_id: RunId, epoch: WorkerEpoch) -> Message:
        node = self._definition.start_at
        started = StartAttempt(f"attempt-{uuid.uuid4()}", node, "compute", 1, self._now_ms, None)
        fingerprint = digest(run_id.encode())
        return Message(run_id, epoch, "m0", fingerprint, (started,), self._definition, _SERVER)


def _ended_process() -> ProcessIdentity:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = identity_of(process.pid)
    assert identity is not None
    process.communicate(b"\n")
    return identity
