"""The write contract (A §6, steps 5 to 8 and 11 to 12) as one mechanism.

Every command that changes an aggregate opens it with `revise`. In this order, and before the
command touches a row: the actor may do this operation; the resource exists at the expected
revision; the claim, where one is needed, still is the row's (five reasons, first failing test);
the claim is renewed. Any refusal leaves the whole savepoint to be rolled back.
"""

import enum
import hashlib
import hmac
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import ActorType, OwnerType
from store.errors import (
    AuthorityError,
    ClaimLost,
    ClaimLostError,
    StaleResourceError,
    UnknownResourceError,
)
from store.resources import Actor, Recorder
from store.transaction import Change, Reading, Transaction, affected_one

CLAIM_MS: Final = MappingProxyType(
    {
        OwnerType.HOST: 30_000,
        OwnerType.CONTROLLER: 120_000,
        OwnerType.CHANNEL: 60_000,
        OwnerType.SYSTEM: 30_000,
        OwnerType.SESSION: 30_000,
    }
)
"""How long a claim lasts after its last renewal, by owner type."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Proof of ownership, given out once. The token is a secret and never printed.

    Attributes:
        token: 32 random bytes as base64url; only its SHA-256 is stored.
        generation: grows by one with every claim of the resource, never falls.
    """

    resource_id: ResourceId
    owner_type: OwnerType
    owner_id: str
    generation: int
    token: str = field(repr=False)
    token_hash: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_hash", hash_token(self.token))


@dataclass(frozen=True, slots=True)
class Permit:
    """The facts a caller expects to hold. No authority by itself: the rows are checked again.

    Attributes:
        claim: the caller's claim; None when it holds none.
        expected_revision: revision the caller has seen; None accepts any.
    """

    actor: Actor
    claim: Claim | None = None
    expected_revision: int | None = None


class Operation(enum.StrEnum):
    """What may be asked of an aggregate."""

    CREATE_RUN = "create_run"
    CLAIM_RUN = "claim_run"
    ADVANCE_RUN = "advance_run"
    PARK_RUN = "park_run"
    PAUSE_RUN = "pause_run"
    RESUME_RUN = "resume_run"
    PRESENT_RUN = "present_run"
    CANCEL_RUN = "cancel_run"
    RESTART_RUN = "restart_run"
    RESOLVE_EFFECT = "resolve_effect"
    CHANGE_SETTINGS = "change_settings"
    QUEUE_FOLLOW_UP = "queue_follow_up"
    REMOVE_FOLLOW_UP = "remove_follow_up"
    RECOVER = "recover"
    RELEASE = "release"
    CLAIM = "claim"
    WRITE = "write"


class ClaimRule(enum.Enum):
    """Whether an operation needs the claim of what it changes."""

    REQUIRED = enum.auto()
    WHEN_OWNED = enum.auto()
    NOT_NEEDED = enum.auto()


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may do an operation, and on what proof."""

    actors: frozenset[ActorType]
    claim: ClaimRule


_HOST: Final = frozenset({ActorType.HOST})
_SYSTEM: Final = frozenset({ActorType.SYSTEM})
_CONTROL: Final = frozenset({ActorType.CONTROL})
_PROMPTERS: Final = frozenset({ActorType.SESSION, ActorType.HUMAN, ActorType.CONTROLLER})
_OWNERS: Final = frozenset(
    {ActorType.HOST, ActorType.CONTROLLER, ActorType.CHANNEL, ActorType.SYSTEM}
)

RULES: Final = MappingProxyType(
    {
        Operation.CREATE_RUN: Rule(
            frozenset({ActorType.SESSION, ActorType.CONTROL, ActorType.CONTROLLER}),
            ClaimRule.NOT_NEEDED,
        ),
        Operation.CLAIM_RUN: Rule(_HOST, ClaimRule.NOT_NEEDED),
        Operation.ADVANCE_RUN: Rule(_HOST, ClaimRule.REQUIRED),
        Operation.PARK_RUN: Rule(_HOST, ClaimRule.REQUIRED),
        # After the end nobody has a claim: the row of the child that ended the run stands for it.
        Operation.PRESENT_RUN: Rule(_HOST, ClaimRule.NOT_NEEDED),
        Operation.PAUSE_RUN: Rule(_CONTROL, ClaimRule.WHEN_OWNED),
        Operation.RESUME_RUN: Rule(_CONTROL, ClaimRule.WHEN_OWNED),
        Operation.CANCEL_RUN: Rule(_CONTROL, ClaimRule.WHEN_OWNED),
        # The parent is only read: it has ended, and nobody owns it.
        Operation.RESTART_RUN: Rule(
            frozenset({ActorType.SESSION, ActorType.CONTROL}), ClaimRule.NOT_NEEDED
        ),
        Operation.RESOLVE_EFFECT: Rule(_CONTROL, ClaimRule.WHEN_OWNED),
        # Nobody owns settings: a workflow's own rules say who may change which part of them.
        Operation.CHANGE_SETTINGS: Rule(frozenset(ActorType), ClaimRule.NOT_NEEDED),
        # A follow-up is nobody's work before its run has ended; the run is only read.
        Operation.QUEUE_FOLLOW_UP: Rule(_PROMPTERS, ClaimRule.NOT_NEEDED),
        Operation.REMOVE_FOLLOW_UP: Rule(_PROMPTERS, ClaimRule.NOT_NEEDED),
        # Only at start, when no other owner can be alive: the epoch fence stands for the claim.
        Operation.RECOVER: Rule(_SYSTEM, ClaimRule.NOT_NEEDED),
        Operation.RELEASE: Rule(_OWNERS, ClaimRule.NOT_NEEDED),
        Operation.CLAIM: Rule(_OWNERS, ClaimRule.NOT_NEEDED),
        Operation.WRITE: Rule(_OWNERS, ClaimRule.REQUIRED),
    }
)


class HoldingRow(NamedTuple):
    """A resource with the lease on it."""

    resource_type: str
    aggregate_key: str
    revision: int
    generation: int
    owner_type: str | None
    owner_id: str | None
    token_hash: bytes | None
    expires_at: int | None

    def live(self, now: int) -> bool:
        """True while somebody owns the resource at `now` (UTC epoch ms)."""
        return self.expires_at is not None and self.expires_at > now


SELECT_HOLDING: Final = """
    SELECT r.resource_type, r.aggregate_key, r.revision,
           l.generation, l.owner_type, l.owner_id, l.token_hash, l.expires_at
      FROM resources AS r JOIN leases AS l ON l.resource_id = r.resource_id
     WHERE r.resource_id = :resource_id
"""

# A clock that stepped back must not shorten a claim that was already acknowledged.
UPDATE_RENEWED: Final = """
    UPDATE leases SET heartbeat_at = :now, expires_at = max(expires_at, :expires_at)
     WHERE resource_id = :resource_id
"""

ROW_STATEMENTS: Final = {"SELECT_HOLDING": HoldingRow}


def hash_token(token: str) -> bytes:
    """Return the SHA-256 under which a claim's token is stored."""
    return hashlib.sha256(token.encode()).digest()


def holding(reading: Reading, resource: ResourceId) -> HoldingRow:
    """Return the resource and its lease.

    Raises:
        UnknownResourceError: there is no such resource.
    """
    found = reading.one(HoldingRow, SELECT_HOLDING, {"resource_id": resource})
    if found is None:
        raise UnknownResourceError
    return found


def check_claim(held: HoldingRow, claim: Claim | None, now: int) -> None:
    """Hold a claim against the row.

    Raises:
        ClaimLostError: the first failing test of missingAuthority, ownerChanged, tokenChanged,
            generationChanged, expired (`expires_at <= now`).
    """
    if claim is None:
        raise ClaimLostError(ClaimLost.MISSING_AUTHORITY)
    if (held.owner_type, held.owner_id) != (claim.owner_type, claim.owner_id):
        raise ClaimLostError(ClaimLost.OWNER_CHANGED)
    if held.token_hash is None or not hmac.compare_digest(held.token_hash, claim.token_hash):
        raise ClaimLostError(ClaimLost.TOKEN_CHANGED)
    if held.generation != claim.generation:
        raise ClaimLostError(ClaimLost.GENERATION_CHANGED)
    if not held.live(now):
        raise ClaimLostError(ClaimLost.EXPIRED)


def renew(tx: Transaction, claim: Claim) -> int:
    """Extend a claim that has been checked in this transaction; no revision, no event.

    Returns:
        The instant (UTC epoch ms) until which the claim now holds at least.
    """
    expires_at = tx.now + CLAIM_MS[claim.owner_type]
    affected_one(
        tx.execute(
            UPDATE_RENEWED,
            {"resource_id": claim.resource_id, "now": tx.now, "expires_at": expires_at},
        )
    )
    return expires_at


def require_actor(actor: Actor, operation: Operation) -> None:
    """Refuse an actor that may not do this at all.

    Raises:
        AuthorityError: the operation is not this actor's.
    """
    if actor.actor_type not in RULES[operation].actors:
        raise AuthorityError(actor.actor_type, operation)


def revise(
    tx: Transaction,
    permit: Permit,
    resource: ResourceId,
    operation: Operation,
    held: HoldingRow | None = None,
) -> Recorder:
    """Open an aggregate for change; the block records one event per accepted transition.

    The claim given in the permit is renewed before the block runs. A block that ends without
    recording or adopting anything is a bug of the command.

    Args:
        held: what `holding` has returned in this transaction, if it was asked; None asks it now.

    Raises:
        AuthorityError: this actor may not do this operation.
        UnknownResourceError: there is no such resource.
        StaleResourceError: its revision is not the expected one.
        ClaimLostError: a claim is needed and not, or no longer, the caller's.
    """
    require_actor(permit.actor, operation)
    if held is None:
        held = holding(tx, resource)
    if permit.expected_revision is not None and permit.expected_revision != held.revision:
        what = held.resource_type.replace("_", " ")
        raise StaleResourceError(permit.expected_revision, held.revision, what=what)
    return Recorder(
        tx,
        Change(held.resource_type, held.aggregate_key),
        resource,
        held.revision,
        permit.actor,
        _authorise(tx, permit, held, operation),
    )


def _authorise(
    tx: Transaction, permit: Permit, held: HoldingRow, operation: Operation
) -> int | None:
    """Check and renew the claim where the operation needs one; return its generation."""
    rule = RULES[operation].claim
    if rule is ClaimRule.NOT_NEEDED or (rule is ClaimRule.WHEN_OWNED and not held.live(tx.now)):
        return None
    check_claim(held, permit.claim, tx.now)
    assert permit.claim is not None
    renew(tx, permit.claim)
    return permit.claim.generation
