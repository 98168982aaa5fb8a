"""Let a run go on that stands still: the one way out of a park that the scheduler never takes."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import EffectStatus, QueueStatus, RunStatus
from store import effect_rows, effects, run_queue, runs
from store.authority import Operation, Permit, holding, require_actor, revise
from store.errors import Rejected
from store.machines.queue import QueueMove
from store.resources import run_event
from store.run_queue import QueueRow
from store.runs import RunRow
from store.transaction import Reading, Transaction
from store.unresolved_effects import unresolved

_EFFECTS_READ: Final = 256
_UNDER_WAY: Final = frozenset({QueueStatus.STARTING, QueueStatus.RUNNING})


class RunEndedError(Rejected):
    """The run has ended; nothing moves it any more."""

    code: ClassVar[str] = ErrorCode.RUN_ENDED
    wire_names: ClassVar[Mapping[str, str]] = {"status": "status", "revision": "revision"}

    def __init__(self, run_id: str, status: RunStatus, revision: int) -> None:
        super().__init__(
            f"{run_id} has ended: it is {status}; look with: pi-workflows show {run_id}"
        )
        self.status = status
        self.revision = revision


class EffectAmbiguousError(Rejected):
    """An effect of the run may or may not have happened; going on could do it twice."""

    code: ClassVar[str] = ErrorCode.EFFECT_AMBIGUOUS
    wire_names: ClassVar[Mapping[str, str]] = {
        "effect_id": "effectId",
        "effect_type": "effectType",
        "node_id": "nodeId",
    }

    def __init__(self, effect: JsonObject, *, has_ended: bool = False) -> None:
        """Name the effect, as `unresolved_effects.unresolved` describes it, and the next command.

        Args:
            effect: what is unsettled.
            has_ended: its run has ended, so that it cannot be tried again.
        """
        self.effect_id = str(effect["effectId"])
        self.effect_type = str(effect["effectType"])
        self.node_id = effect.get("nodeId")
        where = f' of node "{self.node_id}"' if self.node_id is not None else ""
        super().__init__(
            f'nobody knows whether effect "{self.effect_type}"{where} happened; look there, then '
            f"say so: pi-workflows effects resolve {self.effect_id} "
            f"{'--applied|--rejected' if has_ended else '--applied|--rejected|--retry'} "
            "--reason TEXT"
        )


class ResumeVerdict(enum.StrEnum):
    """What a resume found (C §2)."""

    RESUMABLE = "resumable"
    ALREADY_RUNNING = "alreadyRunning"
    WAITING_FOR_INTERACTION = "waitingForInteraction"


@dataclass(frozen=True, slots=True)
class ResumeReply:
    """What became of a resume.

    Attributes:
        status: of the run, which a resume does not change.
        revision: of the run, as it now stands.
        adopted: True when there was nothing to do: somebody had resumed it, or it runs.
    """

    verdict: ResumeVerdict
    status: RunStatus
    revision: int
    adopted: bool


@dataclass(frozen=True, slots=True)
class AskedRow:
    """Whether an answer is awaited."""

    asked: bool


SELECT_ASKED: Final = """
    SELECT EXISTS (SELECT 1 FROM interactive_requests
                    WHERE run_id = :run_id AND status = 'pending') AS asked
"""

ROW_STATEMENTS: Final = {"SELECT_ASKED": AskedRow}


def resume_run(tx: Transaction, permit: Permit, run_id: str) -> ResumeReply:
    """Put a run that stands still back into the queue, due at once and without its error.

    Whatever parked it (a pause, a changed source, deaths without progress, a pause between two
    tries, a handoff) is forgotten, and an effect that waited for its next try is due. Only the
    number of deaths in a row stays: an explicit resume is one more try, and one more death
    without progress parks the run again.

    Race contract: of equal resumes the first one moves the run, the others adopt; a run that is
    queued or in somebody's hands is adopted as it is. After an end it is refused, naming the end.
    A run that waits for an answer keeps waiting.

    Raises:
        AuthorityError: only control resumes.
        RunUnknownError: no such run.
        RunEndedError: it has ended.
        EffectAmbiguousError: an effect of it has to be settled first.
        StaleResourceError: the run is not at the revision that the caller has seen.
        ClaimLostError: the run is owned, and the permit's claim is not its claim.
    """
    require_actor(permit.actor, Operation.RESUME_RUN)
    run = runs.require(tx, run_id)
    resource = run_resource_id(run_id)
    if run.terminal:
        raise RunEndedError(run_id, run.status, holding(tx, resource).revision)
    _require_settled_effects(tx, run)
    queued = run_queue.require(tx, run_id)
    verdict = _verdict(tx, run, queued)
    stands = queued.status is QueueStatus.PARKED and verdict is ResumeVerdict.RESUMABLE
    if not stands and not run.paused:
        return ResumeReply(verdict, run.status, holding(tx, resource).revision, adopted=True)
    with revise(tx, permit, resource, Operation.RESUME_RUN) as recorder:
        reason = "paused" if run.paused else queued.error_code
        recorder.record(run_event("run.resume_requested", {"reason": reason}))
        if run.paused:
            runs.set_unpaused(tx, run_id)
        if stands:
            for effect in effect_rows.unsettled(tx, resource):
                if effect.next_attempt_at is not None and effect.next_attempt_at > tx.now:
                    effects.make_due(tx, recorder, effect)
            run_queue.move(tx, queued, QueueMove.RESUME, available_at=tx.now)
            runs.touch(tx, run_id, detail=None)
    return ResumeReply(verdict, run.status, recorder.revision, adopted=False)


def _require_settled_effects(reading: Reading, run: RunRow) -> None:
    for effect in unresolved(reading, run.resource_id, limit=_EFFECTS_READ):
        if effect["status"] == EffectStatus.AMBIGUOUS:
            raise EffectAmbiguousError(effect)


def _verdict(reading: Reading, run: RunRow, queued: QueueRow) -> ResumeVerdict:
    if queued.status in _UNDER_WAY:
        return ResumeVerdict.ALREADY_RUNNING
    asked = reading.one(AskedRow, SELECT_ASKED, {"run_id": run.run_id})
    if asked is not None and asked.asked:
        return ResumeVerdict.WAITING_FOR_INTERACTION
    return ResumeVerdict.RESUMABLE
