"""Time-limited ownership: claim, renew, release, and the end of a dead server's leases.

Race contract of a claim: of any number of callers on one free or expired lease exactly one
gets the next generation; the others are refused and have written nothing. A live lease is
refused to everybody, an equal owner id included, for an owner id is no proof of identity.
"""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import ActorType, OwnerType
from store.authority import (
    CLAIM_MS,
    Claim,
    Operation,
    Permit,
    check_claim,
    hash_token,
    holding,
    renew,
    revise,
)
from store.errors import ClaimLost, ClaimLostError, LeaseHeldError
from store.resources import Actor, Happening, Recorder
from store.transaction import Reading, Transaction, affected_one, as_resource, new_token

# Fenced on the generation that was read.
UPDATE_CLAIMED: Final = """
    UPDATE leases
       SET generation = generation + 1, owner_type = :owner_type, owner_id = :owner_id,
           token_hash = :token_hash, acquired_at = :now, heartbeat_at = :now,
           expires_at = :expires_at
     WHERE resource_id = :resource_id AND generation = :generation
"""

# The generation stays: it must never be issued twice.
UPDATE_RELEASED: Final = """
    UPDATE leases
       SET owner_type = NULL, owner_id = NULL, token_hash = NULL, acquired_at = NULL,
           heartbeat_at = NULL, expires_at = NULL
     WHERE resource_id = :resource_id AND generation = :generation AND owner_id IS NOT NULL
"""

SELECT_HELD_RESOURCES: Final = """
    SELECT resource_id, owner_type, generation FROM leases
     WHERE owner_type = :owner_type
     ORDER BY resource_id
"""


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A lease somebody is named on."""

    resource_id: str
    owner_type: str
    generation: int


ROW_STATEMENTS: Final = {"SELECT_HELD_RESOURCES": HeldRow}


@dataclass(frozen=True, slots=True)
class Owner:
    """Who claims.

    Attributes:
        owner_id: the server's id for claims that its actors hold.
    """

    owner_type: OwnerType
    owner_id: str


def take(tx: Transaction, recorder: Recorder, owner: Owner) -> Claim:
    """Make `owner` the owner of the recorder's resource; the caller records the event.

    Raises:
        LeaseHeldError: somebody owns it now.
    """
    held = holding(tx, recorder.resource_id)
    if held.live(tx.now):
        raise LeaseHeldError
    token = new_token(tx.ids)
    affected_one(
        tx.execute(
            UPDATE_CLAIMED,
            {
                "resource_id": recorder.resource_id,
                "owner_type": owner.owner_type,
                "owner_id": owner.owner_id,
                "token_hash": hash_token(token),
                "generation": held.generation,
                "now": tx.now,
                "expires_at": tx.now + CLAIM_MS[owner.owner_type],
            },
        )
    )
    recorder.generation = held.generation + 1
    return Claim(
        recorder.resource_id, owner.owner_type, owner.owner_id, held.generation + 1, token
    )


def inline_owner(actor: Actor) -> Owner:
    """Return the owner of a claim that one transaction takes, uses and frees again."""
    return Owner(OwnerType.SYSTEM, actor.actor_id or actor.actor_type)


def claim(tx: Transaction, permit: Permit, resource: ResourceId, owner: Owner) -> Claim:
    """Claim a free or expired resource; one winner, see the module's race contract.

    Raises:
        AuthorityError, UnknownResourceError, StaleResourceError: as `revise`.
        LeaseHeldError: somebody owns it now.
    """
    with revise(tx, permit, resource, Operation.CLAIM) as recorder:
        taken = take(tx, recorder, owner)
        recorder.record(Happening("lease.claimed", {"generation": taken.generation}))
    return taken


def renew_claim(tx: Transaction, claim: Claim) -> int:
    """Extend a live claim; no revision, no event.

    Returns:
        The instant (UTC epoch ms) until which it holds at least. Never earlier than before.

    Raises:
        UnknownResourceError: the resource is gone.
        ClaimLostError: the claim is no longer the row's, or has expired.
    """
    check_claim(holding(tx, claim.resource_id), claim, tx.now)
    return renew(tx, claim)


def loss(reading: Reading, claim: Claim) -> ClaimLost | None:
    """Return why a write under this claim would be refused at `reading.now`; None if it would not.

    Raises:
        UnknownResourceError: the resource is gone.
    """
    try:
        check_claim(holding(reading, claim.resource_id), claim, reading.now)
    except ClaimLostError as lost:
        return lost.reason
    return None


def host_permit(server_id: str) -> Permit:
    """Return the permit of a server that holds no claim yet."""
    return Permit(Actor(ActorType.HOST, server_id))


def write(tx: Transaction, claim: Claim, event_type: str) -> int:
    """Record an event on a leased resource; return its revision. Renews the claim.

    Raises:
        UnknownResourceError: the resource is gone.
        ClaimLostError: the claim is no longer the row's, or has expired.
    """
    permit = Permit(Actor(ActorType(claim.owner_type), claim.owner_id), claim)
    with revise(tx, permit, claim.resource_id, Operation.WRITE) as recorder:
        return recorder.record(Happening(event_type))


def drop(tx: Transaction, resource: ResourceId, generation: int) -> None:
    """Free the lease as part of a larger change that records its own event."""
    tx.execute(UPDATE_RELEASED, {"resource_id": resource, "generation": generation})


def release(tx: Transaction, claim: Claim) -> None:
    """Free an unreplaced lease, live or expired; the generation stays.

    Raises:
        ClaimLostError: ownerChanged, tokenChanged or generationChanged. Expiry alone is no
            obstacle: an owner may always say that it is done.
    """
    held = holding(tx, claim.resource_id)
    check_claim(held, claim, min(tx.now, (held.expires_at or tx.now) - 1))
    actor = Actor(ActorType(claim.owner_type), claim.owner_id)
    with revise(tx, Permit(actor), claim.resource_id, Operation.RELEASE) as recorder:
        recorder.generation = claim.generation
        drop(tx, claim.resource_id, claim.generation)
        recorder.record(Happening("lease.released", {"generation": claim.generation}))


def expire_all(tx: Transaction, permit: Permit, owner_type: OwnerType) -> int:
    """Free every lease of an owner type whose holders are proven gone; return how many.

    Only a starting server calls this: its epoch already fences whoever held them.
    """
    held = tx.many(HeldRow, SELECT_HELD_RESOURCES, {"owner_type": owner_type})
    for lease in held:
        resource = as_resource(lease.resource_id)
        with revise(tx, permit, resource, Operation.RECOVER) as recorder:
            recorder.generation = lease.generation
            drop(tx, resource, lease.generation)
            recorder.record(
                Happening(
                    "lease.released", {"generation": lease.generation, "reason": "serverGone"}
                )
            )
    return len(held)
