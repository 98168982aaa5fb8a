"""Cancel a run, and say honestly who won."""

import enum
from dataclasses import dataclass

from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import RunStatus
from store import blobs, effect_rows, leases, runs
from store.attempts import AttemptRow
from store.authority import Operation, Permit, holding, require_actor, revise
from store.effect_rows import EffectRow
from store.errors import CancelConflictError
from store.run_ending import CutOff, RunEnd, end_run
from store.runs import RunRow
from store.transaction import Transaction

DEFAULT_REASON = "cancelled by an operator"


class Verdict(enum.StrEnum):
    """Who won: this cancel, or whatever ended the run before."""

    WON = "won"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class CancelReply:
    """What became of a cancel (README 2).

    Attributes:
        revision: of the run, as it now stands.
        cut_off: the try that was under way; None when there was none or the cancel lost.
        ambiguous: effects of the run whose outcome is unknown, in both cases.
        adopted: True when the same cancel had won before.
    """

    verdict: Verdict
    status: RunStatus
    revision: int
    cut_off: AttemptRow | None
    ambiguous: tuple[EffectRow, ...]
    adopted: bool = False


def cancel_run(tx: Transaction, permit: Permit, run_id: str, reason: str | None) -> CancelReply:
    """End the run as `cancelled`, from any live state and without worker capacity.

    A run that nobody owns, or whose owner's claim has expired, is claimed by this very
    transaction: its next generation fences off whoever held it before.

    Race contract: the first terminal commit wins. A later cancel changes nothing: with the same
    reason as a cancel that won, or with none, it adopts; after any other end it is told what won.

    Args:
        reason: why, stored with the run; None asks for the end alone and fits any reason.

    Raises:
        AuthorityError: this actor may not cancel runs.
        RunUnknownError: no such run.
        ClaimLostError: the run is owned, and the permit's claim is not (or no longer) its claim.
        CancelConflictError: the run was cancelled before for another reason.
    """
    require_actor(permit.actor, Operation.CANCEL_RUN)
    run = runs.require(tx, run_id)
    if run.terminal:
        return _late(tx, run, reason)
    with revise(tx, permit, run_resource_id(run_id), Operation.CANCEL_RUN) as recorder:
        if recorder.generation is None:
            leases.take(tx, recorder, leases.inline_owner(permit.actor))
        error = blobs.put(tx, blobs.Blob.of_text(reason or DEFAULT_REASON))
        cut: CutOff = end_run(tx, recorder, run, RunEnd(RunStatus.CANCELLED, error_hash=error))
    return CancelReply(
        Verdict.WON, RunStatus.CANCELLED, recorder.revision, cut.attempt, cut.ambiguous
    )


def _late(tx: Transaction, run: RunRow, reason: str | None) -> CancelReply:
    resource = run_resource_id(run.run_id)
    ambiguous = effect_rows.ambiguous(tx, resource)
    revision = holding(tx, resource).revision
    if run.status is RunStatus.CANCELLED and run.error_hash is not None:
        if reason is not None and blobs.Blob.of_text(reason).blob_hash != run.error_hash:
            raise CancelConflictError
        return CancelReply(Verdict.WON, run.status, revision, None, ambiguous, adopted=True)
    return CancelReply(Verdict.LOST, run.status, revision, None, ambiguous)
