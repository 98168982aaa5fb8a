"""What a runner may do with the effect of its try: reserve it, settle it, or tell what it saw."""

from typing import Final

from pi_workflows.protocol.definition import SnapshotNode
from pi_workflows.protocol.ids import effect_id
from pi_workflows.protocol.states import (
    EffectAttemptOutcome,
    EffectStatus,
    RecoveryKind,
    StepOutcome,
)
from store import blobs, contents, effect_rows, effects
from store.attempts import AttemptRow
from store.effect_rows import EffectRow, Settlement
from store.errors import ProposalRefused
from store.machines.effect import EffectMove
from store.proposals import Granted, ReserveEffect, SettleEffect
from store.resources import Recorder
from store.transaction import Transaction

_SETTLED: Final = {
    EffectAttemptOutcome.APPLIED: (EffectMove.APPLY, "effect.applied"),
    EffectAttemptOutcome.REJECTED: (EffectMove.REJECT, "effect.rejected"),
    EffectAttemptOutcome.AMBIGUOUS: (EffectMove.LOSE_SIGHT, "effect.ambiguous"),
}
_SEEN: Final = {
    EffectAttemptOutcome.APPLIED: (EffectMove.FIND_APPLIED, "effect.applied"),
    EffectAttemptOutcome.AMBIGUOUS: (EffectMove.FIND_UNKNOWN, "effect.ambiguous"),
}


class RunEffects:
    """The effects that one run sources, as one message of its runner may change them."""

    def __init__(self, tx: Transaction, recorder: Recorder) -> None:
        """`recorder` is the run's: it says who acts, under which generation."""
        self._tx = tx
        self._recorder = recorder

    def reserve(
        self, attempt: AttemptRow, node: SnapshotNode, wanted: ReserveEffect, owner_id: str
    ) -> Granted:
        """Take the effect of the running try, or say why its code must not run now.

        An observed effect that had an attempt is not taken before a look has proven it absent.

        Raises:
            ProposalRefused: the node declares another effect, or the try is another one.
            EffectConflictError, IllegalTransitionError: as `effects.reserve`.
        """
        if (wanted.node_id, wanted.visit) != (attempt.node_id, attempt.visit):
            raise ProposalRefused("the effect belongs to another attempt")
        if (wanted.effect_type, wanted.recovery) != (node.effect_type, node.effect_recovery):
            raise ProposalRefused("the node declares another effect")
        observable = wanted.recovery == RecoveryKind.OBSERVE
        if wanted.observed and not observable:
            raise ProposalRefused("the node's effect is not one that is observed")
        key = effects.action_key(
            attempt.run_id, wanted.effect_type, attempt.node_id, attempt.visit
        )
        taken = effects.reserve(
            self._tx,
            self._recorder,
            effects.EffectPlan(wanted.effect_type, key, wanted.payload),
            owner_id,
            look_first=observable and not wanted.observed,
        )
        result, content = contents.read_small(self._tx, taken.result_hash)
        error = None if taken.error_hash is None else blobs.read_text(self._tx, taken.error_hash)
        return Granted(taken.effect_id, taken.status, taken.attempt_number, result, error, content)

    def settle(self, settled: SettleEffect, retry_at: int | None) -> EffectStatus:
        """Close the effect's attempt as the runner says, and return what the effect now is.

        Args:
            retry_at: UTC epoch ms at which one that goes back may be taken again; None is at once.

        Raises:
            ProposalRefused: the effect is not this run's, not one that is observed, or not one
                that may go back.
            IllegalTransitionError: the attempt is not the current one.
        """
        tx, recorder = self._tx, self._recorder
        effect = effect_rows.find(tx, settled.effect_id)
        if effect is None or effect.source_resource_id != recorder.resource_id:
            raise ProposalRefused("the effect is not this run's")
        result = contents.put_optional(tx, settled.result)
        error = blobs.put_optional(tx, settled.error)
        number = settled.attempt_number
        if settled.observed:
            move, event = self._seen(effect, settled.outcome)
            end = Settlement(move, settled.outcome, event, result, error)
            return effects.settle_observed(tx, recorder, effect, number, end).status
        if settled.retry:
            move, event = self._given_back(effect, settled.outcome)
        elif settled.outcome in _SETTLED:
            move, event = _SETTLED[settled.outcome]
        else:
            raise ProposalRefused("an attempt is interrupted only to be tried again")
        end = Settlement(move, settled.outcome, event, result, error, retry_at)
        return effects.settle(tx, recorder, effect, number, end).status

    def check_settled(self, attempt: AttemptRow, node: SnapshotNode, outcome: StepOutcome) -> None:
        """Refuse the end of a try whose effect is open, or not applied though the try went well.

        Raises:
            ProposalRefused: so it is.
        """
        if node.effect_type is None:
            return
        status = self._status_of(attempt, node.effect_type)
        if status in {EffectStatus.APPLYING, EffectStatus.AMBIGUOUS}:
            raise ProposalRefused("the attempt's effect is not settled")
        if outcome is StepOutcome.OK and status is not EffectStatus.APPLIED:
            raise ProposalRefused("the attempt's effect was not applied")

    def check_given_back(self, attempt: AttemptRow, node: SnapshotNode) -> None:
        """Refuse another try of a visit whose effect is in hand or settled.

        Raises:
            ProposalRefused: so it is.
        """
        if node.effect_type is None:
            return
        if self._status_of(attempt, node.effect_type) not in {None, EffectStatus.PENDING}:
            raise ProposalRefused("the attempt's effect was not given back")

    def _status_of(self, attempt: AttemptRow, effect_type: str) -> EffectStatus | None:
        key = effects.action_key(attempt.run_id, effect_type, attempt.node_id, attempt.visit)
        identity = effect_id(self._recorder.resource_id, effect_type, key)
        effect = effect_rows.find(self._tx, identity)
        return effect.status if effect is not None else None

    def _given_back(
        self, effect: EffectRow, outcome: EffectAttemptOutcome
    ) -> tuple[EffectMove, str]:
        """Let an attempt go back that did not apply its effect, or may be repeated.

        Repeating is harmless, or whoever takes the effect looks first.
        """
        repeatable = effects.recovery_of(self._tx, effect) is not RecoveryKind.MANUAL
        unknown = outcome is EffectAttemptOutcome.INTERRUPTED
        if outcome is not EffectAttemptOutcome.REJECTED and not (unknown and repeatable):
            raise ProposalRefused("what may have happened is not for a retry to repeat")
        return EffectMove.GIVE_BACK, "effect.retry_ready"

    def _seen(self, effect: EffectRow, outcome: EffectAttemptOutcome) -> tuple[EffectMove, str]:
        if effects.recovery_of(self._tx, effect) is not RecoveryKind.OBSERVE:
            raise ProposalRefused("the effect is not one that is observed")
        if outcome not in _SEEN:
            raise ProposalRefused("an absent effect is reserved again, not settled")
        return _SEEN[outcome]
