"""Claims that do not count, each for another reason, and what whoever shows them is told."""

import dataclasses
from dataclasses import dataclass
from typing import Final

from pi_workflows.chaos.scene import Command
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import ActorType
from runtime.chaos.outcome import PromiseBroken
from store.authority import Claim, Operation, Permit, holding, revise
from store.errors import ClaimLost, ClaimLostError
from store.resources import Actor, Happening
from store.transaction import Transaction

WORK: Final = "work.done"
NONE: Final = "none"
GENUINE: Final = "genuine"

_REASONS: Final = {
    NONE: ClaimLost.MISSING_AUTHORITY,
    "another generation": ClaimLost.GENERATION_CHANGED,
    "a guess": ClaimLost.TOKEN_CHANGED,
    "of another": ClaimLost.OWNER_CHANGED,
}


@dataclass(frozen=True, slots=True)
class Told:
    """What a write under a claim came to.

    Attributes:
        kind: of the claim that was shown.
        reason: why it was refused; None when it was not.
        owner: who owned the claim's resource then.
        was_live: whether somebody did.
    """

    kind: str
    reason: ClaimLost | None
    owner: str | None
    was_live: bool


def forgeries(claim: Claim, elsewhere: ResourceId) -> dict[str, Claim | None]:
    """Return what somebody may show who has `claim`, by its kind; none of it is to count."""
    return {
        NONE: None,
        "another generation": dataclasses.replace(claim, generation=claim.generation + 1),
        "a guess": dataclasses.replace(claim, token="a guess"),  # noqa: S106 - to be refused
        "of another": dataclasses.replace(claim, resource_id=elsewhere),
    }


def writing(kind: str, claim: Claim, shown: Claim | None) -> Command[Told]:
    """Write, as the owner in `claim`, to what the shown claim names, or to his own without one."""

    def command(tx: Transaction) -> Told:
        permit = Permit(Actor(ActorType.HOST, claim.owner_id), shown)
        target = claim.resource_id if shown is None else shown.resource_id
        held = holding(tx, claim.resource_id)
        was_live = held.expires_at is not None and held.expires_at > tx.now
        try:
            with tx.nested(), revise(tx, permit, target, Operation.WRITE) as recorder:
                recorder.record(Happening(WORK))
        except ClaimLostError as lost:
            if claim.token in str(lost):
                raise PromiseBroken("P4: a refusal says the secret of a claim") from None
            return Told(kind, lost.reason, held.owner_id, was_live)
        return Told(kind, None, held.owner_id, was_live)

    return command


def check_reason(told: Told, actor: str) -> None:
    """Hold what an actor was told against the first of the tests that fails.

    Raises:
        PromiseBroken: it was told something else.
    """
    expected = _REASONS.get(told.kind)
    if told.owner != actor and told.kind != NONE:
        expected = ClaimLost.OWNER_CHANGED
    elif told.kind == GENUINE and not told.was_live:
        expected = ClaimLost.EXPIRED
    if told.reason is not expected:
        raise PromiseBroken(f"P4: a claim ({told.kind}) was told {told.reason}, not {expected}")
