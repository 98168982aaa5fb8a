"""Pause a run at once: it leaves its owner's hands in the commit that says so."""

import enum
from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import AttemptStatus, QueueStatus, RunStatus
from store import active_time, attempts, effect_rows, leases, run_queue, runs
from store.attempts import AttemptRow
from store.authority import Operation, Permit, holding, require_actor, revise
from store.effect_rows import EffectRow
from store.resources import Recorder, run_event
from store.run_parking import park_paused
from store.run_resuming import RunEndedError
from store.runs import RunRow
from store.transaction import Reading, Transaction

_UNDER_WAY: Final = frozenset({QueueStatus.STARTING, QueueStatus.RUNNING})
_AT_WORK: Final = frozenset({AttemptStatus.PENDING, AttemptStatus.RUNNING})


class PauseVerdict(enum.StrEnum):
    """What a pause found (C §2)."""

    PAUSED = "paused"
    ALREADY_PAUSED = "alreadyPaused"


@dataclass(frozen=True, slots=True)
class PauseReply:
    """What became of a pause.

    Attributes:
        status: of the run; a pause changes it only where an effect became ambiguous.
        revision: of the run, as it now stands.
        cut_off: the try that was under way and will run again; None when there was none.
        ambiguous: effects of the run whose outcome is unknown.
    """

    verdict: PauseVerdict
    status: RunStatus
    revision: int
    cut_off: AttemptRow | None
    ambiguous: tuple[EffectRow, ...]

    @property
    def adopted(self) -> bool:
        """True when the run was paused before; nothing was done again."""
        return self.verdict is PauseVerdict.ALREADY_PAUSED


def pause_run(tx: Transaction, permit: Permit, run_id: str) -> PauseReply:
    """Keep a run from going on until it is resumed, from any state but an end.

    One that is in somebody's hands is taken out of them in this transaction: the try under way
    becomes `interrupted` and is worth nothing, an effect that was applying goes by its recovery
    kind, the queue row is parked, the lease freed. The caller stops the child after the commit;
    whatever it still says is refused. One that is queued, parked or waiting stays where it is
    and is not claimed.

    Race contract: the pause and a step of the runner are two commits, and the first one counts:
    a step that was recorded before stays, one that comes after is refused. Of equal pauses the
    first one acts, the others adopt. After an end it is refused, naming the end.

    Raises:
        AuthorityError: only control pauses.
        RunUnknownError: no such run.
        RunEndedError: it has ended.
        StaleResourceError: the run is not at the revision that the caller has seen.
        ClaimLostError: the run is owned, and the permit's claim is not its claim.
    """
    require_actor(permit.actor, Operation.PAUSE_RUN)
    run = runs.require(tx, run_id)
    resource = run_resource_id(run_id)
    if run.terminal:
        raise RunEndedError(run_id, run.status, holding(tx, resource).revision)
    if run.paused:
        revision = holding(tx, resource).revision
        return _reply(tx, PauseVerdict.ALREADY_PAUSED, run, revision, None)
    with revise(tx, permit, resource, Operation.PAUSE_RUN) as recorder:
        cut_off = _stop(tx, recorder, run)
    return _reply(tx, PauseVerdict.PAUSED, runs.require(tx, run_id), recorder.revision, cut_off)


def _stop(tx: Transaction, recorder: Recorder, run: RunRow) -> AttemptRow | None:
    """Write the pause and what follows from it; return the try that is cut off."""
    in_hand = run_queue.require(tx, run.run_id).status in _UNDER_WAY
    if in_hand and recorder.generation is None:
        # The owner's claim has lapsed: the next generation fences it off, whatever it does.
        leases.take(tx, recorder, leases.inline_owner(recorder.actor))
    attempt = attempts.unfinished(tx, run.run_id)
    cut_off = attempt if attempt is not None and attempt.status in _AT_WORK else None
    recorder.record(run_event("run.paused"))
    runs.set_paused(tx, run.run_id)
    active_time.halt(tx, attempt)
    if in_hand:
        park_paused(tx, recorder, run)
    return cut_off


def _reply(
    reading: Reading,
    verdict: PauseVerdict,
    run: RunRow,
    revision: int,
    cut_off: AttemptRow | None,
) -> PauseReply:
    ambiguous = effect_rows.ambiguous(reading, run.resource_id)
    return PauseReply(verdict, run.status, revision, cut_off, ambiguous)
