"""Who may write: actors, revisions, and the five reasons for which a claim does not count."""

import dataclasses
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.ids import ResourceId, run_resource_id
from pi_workflows.protocol.states import ActorType, OwnerType
from store import leases
from store.authority import Claim, Permit
from store.errors import (
    AuthorityError,
    ClaimLost,
    ClaimLostError,
    LeaseHeldError,
    ProposalRefused,
    StaleResourceError,
    UnknownResourceError,
)
from store.leases import Owner
from store.resources import Actor
from store.run_parking import Departure, park_run

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore, WrittenRun

CLAIM_MS: Final = 30_000
HOST: Final = Actor(ActorType.HOST, "server-1")
NOT_HOST: Final = [actor for actor in ActorType if actor is not ActorType.HOST]
NOT_CONTROL: Final = [actor for actor in ActorType if actor is not ActorType.CONTROL]


def refused_as(run: "WrittenRun", claim: Claim | None) -> ClaimLost:
    """Propose a step under a claim; return why it was refused. Nothing may have changed."""
    before = run.store.dump()
    with pytest.raises(ClaimLostError) as lost:
        run.advance(run.started("fetch"), permit=Permit(HOST, claim))
    assert run.store.dump() == before
    return lost.value.reason


def take_over(run: "WrittenRun", server: str) -> Claim:
    """Claim the expired lease bare, as a second server would."""
    owner = Owner(OwnerType.HOST, server)
    return run.store.do(leases.claim, Permit(HOST), run_resource_id(run.run_id), owner)


def test_accepted_command_raises_the_revision_once_per_event(run: "WrittenRun") -> None:
    """Revision, number of events and newest event agree after every command.

    Case: A20.
    """
    run.walk()
    run.advance(run.completed())
    rows = run.store.rows(
        "SELECT r.revision, count(e.event_seq), max(e.resource_revision)"
        " FROM resources AS r JOIN events AS e USING (resource_id) GROUP BY resource_id"
    )
    assert len(rows) > 1
    for revision, count, newest in rows:
        assert revision == count == newest
    assert run.events()[:4] == ["run_created", "lease.claimed", "run_started", "node_started"]
    assert run.events()[-1] == "run_completed"


def test_stale_revision_is_refused_without_an_event(run: "WrittenRun") -> None:
    """The right claim does not help: the sender has not seen what happened since.

    Case: A21.
    """
    run.begin()
    before = run.store.dump()
    stale = Permit(HOST, run.claim, run.revision - 1)
    with pytest.raises(StaleResourceError) as refused:
        run.advance(run.started("fetch"), permit=stale)
    assert (refused.value.expected, refused.value.found) == (run.revision - 1, run.revision)
    assert run.store.dump() == before
    run.advance(run.started("fetch"), permit=Permit(HOST, run.claim, run.revision))


def test_fabricated_permit_cannot_write(run: "WrittenRun") -> None:
    """Every fact in it is right except the secret; rows decide, not what a caller says.

    Case: A29.
    """
    run.begin()
    fabricated = Claim(
        run.claim.resource_id, OwnerType.HOST, "server-1", run.claim.generation, "a guess"
    )
    assert refused_as(run, fabricated) is ClaimLost.TOKEN_CHANGED
    assert refused_as(run, None) is ClaimLost.MISSING_AUTHORITY
    run.advance(run.started("fetch"))


def test_write_without_a_claim_lacks_authority(run: "WrittenRun") -> None:
    """Case: A33."""
    run.begin()
    assert refused_as(run, None) is ClaimLost.MISSING_AUTHORITY


def test_owner_has_changed_after_a_takeover(run: "WrittenRun") -> None:
    """Case: A34."""
    run.begin()
    old = run.claim
    run.store.now += CLAIM_MS
    take_over(run, "server-2")
    assert refused_as(run, old) is ClaimLost.OWNER_CHANGED


def test_owner_has_changed_when_nobody_owns_it(run: "WrittenRun") -> None:
    run.begin()
    old = run.claim
    run.park()
    assert refused_as(run, old) is ClaimLost.OWNER_CHANGED


def test_token_has_changed_when_the_same_owner_id_claimed_anew(run: "WrittenRun") -> None:
    """Case: A35."""
    run.begin()
    old = run.claim
    run.store.now += CLAIM_MS
    take_over(run, "server-1")
    assert refused_as(run, old) is ClaimLost.TOKEN_CHANGED


def test_generation_has_changed_although_the_token_is_right(run: "WrittenRun") -> None:
    """Case: A36."""
    run.begin()
    other = dataclasses.replace(run.claim, generation=run.claim.generation + 1)
    assert refused_as(run, other) is ClaimLost.GENERATION_CHANGED


def test_claim_has_expired_exactly_when_it_expires(run: "WrittenRun") -> None:
    """One millisecond earlier it still writes; from that instant on it neither writes nor renews.

    Case: A37, C50.
    """
    run.begin()
    run.store.now += CLAIM_MS - 1
    run.store.do(leases.renew_claim, run.claim)
    run.store.now += CLAIM_MS
    assert run.expires_at == run.store.now
    assert refused_as(run, run.claim) is ClaimLost.EXPIRED
    with pytest.raises(ClaimLostError) as lost:
        run.store.do(leases.renew_claim, run.claim)
    assert lost.value.reason is ClaimLost.EXPIRED


def test_first_failing_test_names_the_reason(run: "WrittenRun") -> None:
    """A claim that is wrong in every way is refused for the first of the five, and so on.

    Case: C51.
    """
    run.begin()
    right = run.claim
    run.store.now += CLAIM_MS
    wrong = Claim(right.resource_id, OwnerType.SYSTEM, "stranger", 7, "a guess")
    seen = [refused_as(run, None), refused_as(run, wrong)]
    for repaired in (
        {"owner_type": right.owner_type, "owner_id": right.owner_id},
        {"token": right.token},
        {"generation": right.generation},
    ):
        wrong = dataclasses.replace(wrong, **repaired)
        seen.append(refused_as(run, wrong))
    assert seen == list(ClaimLost)


def test_claim_on_one_run_cannot_write_another(store: "WriteStore", run: "WrittenRun") -> None:
    """Case: A40."""
    run.begin()
    other = store.create("run-2").begin()
    assert refused_as(other, run.claim) is ClaimLost.TOKEN_CHANGED
    assert refused_as(run, other.claim) is ClaimLost.TOKEN_CHANGED
    other.advance(other.started("fetch"))


def test_protected_write_extends_the_claim(run: "WrittenRun") -> None:
    """Case: A39."""
    run.begin()
    run.store.now += 10_000
    run.advance(run.started("fetch"))
    assert run.expires_at == run.store.now + CLAIM_MS


def test_refused_write_does_not_extend_the_claim(run: "WrittenRun") -> None:
    """The renewal is part of the write and is undone with it.

    Case: A39.
    """
    run.begin()
    before = run.expires_at
    run.store.now += 10_000
    with pytest.raises(ProposalRefused):
        run.advance(run.started("note"))
    assert run.expires_at == before


def test_lost_claim_writes_no_failure_of_the_run(run: "WrittenRun") -> None:
    """The successor's life goes on as if the loser had never spoken.

    Neither its message nor the refusal nor its parking leaves anything.

    Case: A42, C54.
    """
    run.begin()
    old = run.claim
    run.store.now += CLAIM_MS
    take_over(run, "server-2")
    before = run.store.dump()
    message = run.message(run.started("fetch"))
    loser = dataclasses.replace(run, held=old)
    with pytest.raises(ClaimLostError):
        loser.answer(message)
    with pytest.raises(ClaimLostError):
        run.store.do(park_run, loser.permit, run.run_id, Departure.DIED_WITHOUT_PROGRESS)
    with pytest.raises(ClaimLostError):
        run.store.do(leases.renew_claim, old)
    with pytest.raises(ClaimLostError):
        run.store.do(leases.release, old)
    assert run.store.dump() == before


def test_stale_generation_or_token_writes_nothing(run: "WrittenRun") -> None:
    """Case: B42, C33."""
    run.begin()
    first = run.claim
    run.park()
    run.take()
    stale_generation = dataclasses.replace(run.claim, generation=first.generation)
    assert refused_as(run, stale_generation) is ClaimLost.GENERATION_CHANGED
    stale_token = dataclasses.replace(run.claim, token=first.token)
    assert refused_as(run, stale_token) is ClaimLost.TOKEN_CHANGED


@pytest.mark.parametrize("actor", NOT_HOST)
def test_only_the_host_advances_a_run(run: "WrittenRun", actor: ActorType) -> None:
    """Not even with the run's own claim in hand.

    Case: A43.
    """
    run.begin()
    before = run.store.dump()
    with pytest.raises(AuthorityError) as refused:
        run.advance(run.started("fetch"), permit=Permit(Actor(actor), run.claim))
    assert refused.value.fields() == {"actorType": actor.value, "operation": "advance_run"}
    assert run.store.dump() == before


@pytest.mark.parametrize("actor", NOT_CONTROL)
@pytest.mark.parametrize("ended", [False, True])
def test_only_control_cancels_a_run(run: "WrittenRun", actor: ActorType, *, ended: bool) -> None:
    """A stranger does not even learn how a run ended.

    Case: A43.
    """
    if ended:
        run.cancel()
    before = run.store.dump()
    with pytest.raises(AuthorityError):
        run.cancel(permit=Permit(Actor(actor)))
    assert run.store.dump() == before


def test_actor_is_checked_before_anything_is_looked_up(store: "WriteStore") -> None:
    """A refusal of the actor says nothing about which runs exist."""
    nobody = Permit(Actor(ActorType.CHANNEL))
    known = store.create("run-1")
    unknown = dataclasses.replace(known, run_id="run-2")
    for run in (known, unknown):
        with pytest.raises(AuthorityError):
            run.cancel(permit=nobody)


def test_unknown_resource_cannot_be_claimed(store: "WriteStore") -> None:
    owner = Owner(OwnerType.HOST, "server-1")
    before = store.dump()
    with pytest.raises(UnknownResourceError):
        store.do(leases.claim, Permit(HOST), ResourceId("resource-none"), owner)
    assert store.dump() == before


def test_live_lease_is_not_claimed_over_by_the_same_owner_id(run: "WrittenRun") -> None:
    """An owner id is no proof of identity."""
    run.begin()
    before = run.store.dump()
    for server in ("server-1", "server-2"):
        with pytest.raises(LeaseHeldError):
            take_over(run, server)
    assert run.store.dump() == before


def test_wall_clock_stepped_back_holds_no_waiting_run_up(run: "WrittenRun") -> None:
    """Queued or handed off: both wait for a place, not for an instant."""
    run.store.now -= 3_600_000
    run.begin().park()
    run.store.now -= 3_600_000
    run.end_child()
    assert run.take().generation == 2
