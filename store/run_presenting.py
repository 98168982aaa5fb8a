"""Store how the end of a run is to be presented: after the end, and without any power over it."""

from dataclasses import dataclass
from typing import ClassVar, Final

from pi_workflows.protocol.ids import WorkerEpoch, run_resource_id
from pi_workflows.protocol.states import RunStatus, WorkerStatus
from store import blobs
from store.authority import Operation, Permit, holding, require_actor, revise
from store.blobs import Blob
from store.errors import Rejected, RunUnknownError
from store.resources import run_event
from store.transaction import Reading, Transaction, affected_one

PROMPT_BYTES_MAX: Final = 65_536
"""Largest presentation instructions, in bytes of UTF-8."""

_PRESENTED: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.TIMED_OUT})


class PresentationRefused(Rejected):
    """The instructions do not come from the child that ended the run, or come a second time."""

    code: ClassVar[str] = "PRESENTATION_REFUSED"


@dataclass(frozen=True, slots=True)
class SpeakerRow:
    """A run, and the child that speaks for it; its fields are None when there is no such child."""

    status: RunStatus
    prompt_hash: bytes | None
    lease_generation: int
    worker_status: WorkerStatus | None
    worker_generation: int | None


SELECT_SPEAKER: Final = """
    SELECT r.status, r.presentation_prompt_hash AS prompt_hash, l.generation AS lease_generation,
           w.status AS worker_status, w.generation AS worker_generation
      FROM runs AS r
      JOIN leases AS l ON l.resource_id = r.resource_id
      LEFT JOIN run_workers AS w ON w.worker_epoch = :worker_epoch AND w.run_id = r.run_id
     WHERE r.run_id = :run_id
"""

UPDATE_PRESENTATION: Final = """
    UPDATE runs SET presentation_prompt_hash = :prompt_hash, updated_at = :now
     WHERE run_id = :run_id AND presentation_prompt_hash IS NULL
"""

ROW_STATEMENTS: Final = {"SELECT_SPEAKER": SpeakerRow}


def present_run(
    tx: Transaction, permit: Permit, run_id: str, worker_epoch: WorkerEpoch, text: Blob
) -> int:
    """Store the presentation instructions of a run that its own child has just ended.

    The terminal commit has freed the claim, so the child's own row is the authority: it is of
    this run, still open, and of the newest generation there ever was. Nobody can claim a run that
    has ended, so there is exactly one such child, and none after its end is recorded.

    Race contract: the first text wins; the same text again adopts, another one is refused. The
    status, the output and the error of the run are not touched.

    Returns:
        The run's revision.

    Raises:
        AuthorityError: only the server presents.
        RunUnknownError: no such run.
        PresentationRefused: the run has not ended or was cancelled, the child did not end it or
            has ended itself, or another text is stored.
    """
    require_actor(permit.actor, Operation.PRESENT_RUN)
    speaker = _speaker(tx, run_id, worker_epoch)
    if speaker.prompt_hash is not None:
        if speaker.prompt_hash != text.blob_hash:
            raise PresentationRefused("the run has presentation instructions already")
        return holding(tx, run_resource_id(run_id)).revision
    with revise(tx, permit, run_resource_id(run_id), Operation.PRESENT_RUN) as recorder:
        affected_one(
            tx.execute(
                UPDATE_PRESENTATION,
                {"run_id": run_id, "prompt_hash": blobs.put(tx, text), "now": tx.now},
            )
        )
        return recorder.record(run_event("presentation_stored"))


def _speaker(reading: Reading, run_id: str, worker_epoch: WorkerEpoch) -> SpeakerRow:
    bindings = {"run_id": run_id, "worker_epoch": worker_epoch}
    speaker = reading.one(SpeakerRow, SELECT_SPEAKER, bindings)
    if speaker is None:
        raise RunUnknownError(run_id)
    if speaker.status not in _PRESENTED:
        raise PresentationRefused(f"a run that is {speaker.status} is not presented")
    live = speaker.worker_status is WorkerStatus.RUNNING
    if not live or speaker.worker_generation != speaker.lease_generation:
        raise PresentationRefused("only the child that ended the run says how to present it")
    return speaker
