"""Runner children as rows: one per launch, and every message they were answered."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from pi_workflows.protocol.ids import WorkerEpoch
from pi_workflows.protocol.states import WorkerMessageOutcome, WorkerStatus
from store import blobs
from store.transaction import Reading, Transaction


class AnsweredRow(NamedTuple):
    """A message that was answered before."""

    request_fingerprint: bytes
    outcome: WorkerMessageOutcome
    accepted_revision: int | None
    result_hash: bytes | None
    error_hash: bytes | None


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """How a child ended, recorded once.

    Attributes:
        exit_code: None when a signal ended it or its end was never seen.
        diagnostic: bounded tail of its output; None when there is nothing to say.
    """

    status: WorkerStatus
    exit_code: int | None = None
    signal: str | None = None
    diagnostic: str | None = None


SELECT_ANSWERED: Final = """
    SELECT request_fingerprint, outcome, accepted_revision, result_hash, error_hash
      FROM worker_messages
     WHERE worker_epoch = :worker_epoch AND message_id = :message_id
"""

INSERT_WORKER: Final = """
    INSERT INTO run_workers (worker_epoch, run_id, generation, host_epoch, launch_envelope_hash,
                             status, started_at)
    VALUES (:worker_epoch, :run_id, :generation, :host_epoch, :launch_envelope_hash,
            'starting', :now)
"""

UPDATE_WORKER_PROCESS: Final = """
    UPDATE run_workers SET pid = :pid, process_start_identity = :identity
     WHERE worker_epoch = :worker_epoch AND status = 'starting'
"""

UPDATE_WORKER_READY: Final = """
    UPDATE run_workers SET status = 'running', ready_at = :now
     WHERE worker_epoch = :worker_epoch AND status = 'starting'
"""

# A child has one end: whoever records it second changes nothing.
UPDATE_WORKER_ENDED: Final = """
    UPDATE run_workers
       SET status = :status, finished_at = :now, exit_code = :exit_code, signal = :signal,
           diagnostic_hash = :diagnostic_hash
     WHERE worker_epoch = :worker_epoch AND finished_at IS NULL
"""

UPDATE_WORKERS_ORPHANED: Final = """
    UPDATE run_workers SET status = 'orphaned', finished_at = :now
     WHERE finished_at IS NULL
"""

INSERT_ANSWERED: Final = """
    INSERT INTO worker_messages (worker_epoch, message_id, request_fingerprint, outcome,
                                 accepted_revision, result_hash, error_hash, completed_at)
    VALUES (:worker_epoch, :message_id, :fingerprint, :outcome, :accepted_revision,
            :result_hash, :error_hash, :now)
"""


ROW_STATEMENTS: Final = {"SELECT_ANSWERED": AnsweredRow}


@dataclass(frozen=True, slots=True)
class Launch:
    """The facts of one child, fixed before it is spawned.

    Attributes:
        generation: lease generation under which the child may propose.
        host_epoch: epoch of the server that launches it.
    """

    worker_epoch: WorkerEpoch
    run_id: str
    generation: int
    host_epoch: int
    envelope: blobs.Blob


def insert(tx: Transaction, launch: Launch) -> None:
    """Record a launch before the spawn; a unique index refuses a second live child of the run."""
    tx.execute(
        INSERT_WORKER,
        {
            "worker_epoch": launch.worker_epoch,
            "run_id": launch.run_id,
            "generation": launch.generation,
            "host_epoch": launch.host_epoch,
            "launch_envelope_hash": blobs.put(tx, launch.envelope),
            "now": tx.now,
        },
    )


def attach(tx: Transaction, worker_epoch: WorkerEpoch, pid: int, identity: str) -> None:
    """Record which exact process the child is."""
    tx.execute(
        UPDATE_WORKER_PROCESS, {"worker_epoch": worker_epoch, "pid": pid, "identity": identity}
    )


def ready(tx: Transaction, worker_epoch: WorkerEpoch) -> None:
    """Record that the child said hello."""
    tx.execute(UPDATE_WORKER_READY, {"worker_epoch": worker_epoch, "now": tx.now})


def end(tx: Transaction, worker_epoch: WorkerEpoch, how: WorkerEnd) -> bool:
    """Record the child's end; False when it was recorded before."""
    diagnostic = blobs.Blob.of_text(how.diagnostic) if how.diagnostic else None
    changed = tx.execute(
        UPDATE_WORKER_ENDED,
        {
            "worker_epoch": worker_epoch,
            "status": how.status,
            "exit_code": how.exit_code,
            "signal": how.signal,
            "diagnostic_hash": blobs.put_optional(tx, diagnostic),
            "now": tx.now,
        },
    )
    return changed == 1


def orphan_all(tx: Transaction) -> int:
    """At start: close every child of earlier servers; return how many there were."""
    return tx.execute(UPDATE_WORKERS_ORPHANED, {"now": tx.now})


def answered(reading: Reading, worker_epoch: WorkerEpoch, message_id: str) -> AnsweredRow | None:
    """Return the stored answer to a message; None when it is new."""
    return reading.one(
        AnsweredRow, SELECT_ANSWERED, {"worker_epoch": worker_epoch, "message_id": message_id}
    )


class Answer(NamedTuple):
    """What a runner message was answered."""

    outcome: WorkerMessageOutcome
    accepted_revision: int | None
    result_hash: bytes | None = None
    error_hash: bytes | None = None


def store_answer(
    tx: Transaction,
    worker_epoch: WorkerEpoch,
    message_id: str,
    fingerprint: bytes,
    answer: Answer,
) -> None:
    """Store the answer with the change it answers."""
    tx.execute(
        INSERT_ANSWERED,
        {
            "worker_epoch": worker_epoch,
            "message_id": message_id,
            "fingerprint": fingerprint,
            "outcome": answer.outcome,
            "accepted_revision": answer.accepted_revision,
            "result_hash": answer.result_hash,
            "error_hash": answer.error_hash,
            "now": tx.now,
        },
    )
