"""Leases in time: generations rise, secrets stay secret, renewal leaves no trace but itself."""

from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import ActorType, OwnerType, ResourceType
from store import leases, resources
from store.authority import Permit
from store.errors import ClaimLost, ClaimLostError, LeaseHeldError
from store.leases import Owner
from store.resources import Actor
from store.run_parking import hand_back, recover_run

if TYPE_CHECKING:
    from store.authority import Claim
    from tests.store.writes.conftest import WriteStore, WrittenRun

CLAIM_MS: Final = 30_000
HOST: Final = Permit(Actor(ActorType.HOST, "server-1"))
SYSTEM: Final = Permit(Actor(ActorType.SYSTEM))


def lease(run: "WrittenRun") -> tuple[object, ...]:
    (row,) = run.store.rows(
        "SELECT generation, owner_type, owner_id, acquired_at, heartbeat_at, expires_at"
        " FROM leases WHERE resource_id = :id",
        id=run_resource_id(run.run_id),
    )
    return tuple(row)


def test_generation_rises_with_each_claim_and_is_kept_on_release(run: "WrittenRun") -> None:
    """Case: A31, C52."""
    now = run.store.now
    assert lease(run) == (0, None, None, None, None, None)
    for generation in (1, 2, 3):
        assert run.take().generation == generation
        assert lease(run) == (generation, "host", "server-1", now, now, now + CLAIM_MS)
        run.store.do(leases.release, run.claim)
        assert lease(run) == (generation, None, None, None, None, None)
        run.store.alter("UPDATE run_queue SET status = 'parked'")


def test_of_two_claims_one_wins_and_the_other_writes_nothing(run: "WrittenRun") -> None:
    run.take()
    before = run.store.dump()
    with pytest.raises(LeaseHeldError):
        run.take("server-2")
    assert run.store.dump() == before


def test_raw_token_is_in_no_row_no_repr_and_no_error(
    store: "WriteStore", run: "WrittenRun"
) -> None:
    """Neither in the database nor in its log; only its digest is there.

    Case: A32.
    """
    claim = run.begin().claim
    store.do(leases.renew_claim, claim)
    run.advance(run.started("fetch"))
    store.now += CLAIM_MS
    with pytest.raises(ClaimLostError) as lost:
        store.do(leases.renew_claim, claim)
    said = f"{claim!r} {run.permit!r} {lost.value!r} {lost.value.fields()}"
    stored = b"".join(
        entry.read_bytes() for entry in store.state.path.parent.iterdir() if entry.is_file()
    )
    assert claim.token not in said
    assert claim.token.encode() not in stored
    assert claim.token_hash in stored


def test_renewal_moves_heartbeat_and_expiry_and_nothing_else(run: "WrittenRun") -> None:
    """No revision, no event.

    Case: A24.
    """
    run.begin()
    acquired_at = run.store.now
    before = run.store.dump()
    run.store.now += 10_000
    now = run.store.now
    assert run.store.do(leases.renew_claim, run.claim) == now + CLAIM_MS
    after = run.store.dump()
    assert lease(run) == (1, "host", "server-1", acquired_at, now, now + CLAIM_MS)
    assert {name for name in after if after[name] != before[name]} == {"leases"}


def test_clock_that_stepped_back_does_not_shorten_a_claim(run: "WrittenRun") -> None:
    run.begin()
    until = run.expires_at
    run.store.now -= 5_000
    run.store.do(leases.renew_claim, run.claim)
    run.advance(run.started("fetch"))
    assert run.expires_at == until


def test_expired_unreplaced_owner_can_only_release(run: "WrittenRun") -> None:
    """Case: A38."""
    run.begin()
    run.store.now += CLAIM_MS + 1
    for attempt in (lambda: run.store.do(leases.renew_claim, run.claim), run.ready, run.park):
        with pytest.raises(ClaimLostError) as lost:
            attempt()
        assert lost.value.reason is ClaimLost.EXPIRED
    run.store.do(leases.release, run.claim)
    assert run.events()[-1] == "lease.released"
    with pytest.raises(ClaimLostError) as again:
        run.store.do(leases.release, run.claim)
    assert again.value.reason is ClaimLost.OWNER_CHANGED


def test_replaced_owner_cannot_release_its_successor(run: "WrittenRun") -> None:
    old = run.take()
    run.store.now += CLAIM_MS
    owner = Owner(OwnerType.HOST, "server-1")
    run.store.do(leases.claim, HOST, run_resource_id(run.run_id), owner)
    before = run.store.dump()
    with pytest.raises(ClaimLostError) as lost:
        run.store.do(leases.release, old)
    assert lost.value.reason is ClaimLost.TOKEN_CHANGED
    assert run.store.dump() == before


def test_start_frees_the_leases_of_a_dead_server_with_an_event_each(
    store: "WriteStore", run: "WrittenRun"
) -> None:
    """Leases of other owner types stay."""
    run.begin()
    store.create("run-2").begin()
    kept = store.do(resources.create, ResourceType.MAINTENANCE, "retention")
    owner = Owner(OwnerType.SYSTEM, "sweeper")
    sweeper: Claim = store.do(leases.claim, SYSTEM, kept, owner)
    assert store.do(leases.expire_all, SYSTEM, OwnerType.HOST) == 2
    assert store.do(leases.expire_all, SYSTEM, OwnerType.HOST) == 0
    assert run.events()[-1] == "lease.released"
    assert lease(run) == (1, None, None, None, None, None)
    store.do(leases.renew_claim, sweeper)


def test_run_whose_owner_lives_is_not_recovered(run: "WrittenRun") -> None:
    """Whoever thinks that the owner is gone is wrong until the claim has expired."""
    run.begin()
    before = run.store.dump()
    run.store.now += CLAIM_MS - 1
    with pytest.raises(LeaseHeldError):
        run.store.do(recover_run, SYSTEM, run.run_id)
    assert run.store.dump() == before


def test_run_whose_claim_expired_is_recovered_under_the_next_generation(
    run: "WrittenRun",
) -> None:
    """It can be claimed again at once; its old owner is fenced off whatever the clock does."""
    run.begin()
    old = run.claim
    run.advance(run.started("fetch"))
    run.store.now += CLAIM_MS
    run.store.do(recover_run, SYSTEM, run.run_id)
    assert run.status == ("running", "parked")
    assert lease(run)[0] == old.generation + 1
    run.store.now -= CLAIM_MS
    with pytest.raises(ClaimLostError):
        run.store.do(leases.renew_claim, old)
    run.store.now += CLAIM_MS
    run.end_child()
    assert run.take().generation == old.generation + 2


def test_run_that_nobody_had_in_his_hands_is_left_as_it_is(run: "WrittenRun") -> None:
    """Queued, parked or ended: there is nothing to settle."""
    for leave in (lambda: None, lambda: run.begin().park(), run.cancel):
        leave()
        before = run.store.dump()
        run.store.do(recover_run, SYSTEM, run.run_id)
        assert run.store.dump() == before


@pytest.mark.parametrize("late_ms", [0, CLAIM_MS, 10 * CLAIM_MS])
def test_owner_that_stops_hands_back_what_nobody_replaced(run: "WrittenRun", late_ms: int) -> None:
    """Also when its claim has lapsed: a run left `running` would never be claimed again."""
    run.begin()
    old = run.claim
    run.advance(run.started("fetch"))
    run.store.now += late_ms
    run.store.do(hand_back, old, run.run_id)
    assert run.status == ("running", "parked")
    assert lease(run)[1:] == (None, None, None, None, None)
    run.end_child()
    assert run.take().generation == old.generation + 1


def test_owner_that_was_replaced_hands_nothing_back(run: "WrittenRun") -> None:
    """The run is its successor's; the late one writes nothing."""
    run.begin()
    old = run.claim
    run.store.now += CLAIM_MS
    run.store.do(recover_run, SYSTEM, run.run_id)
    run.end_child()
    run.take()
    before = run.store.dump()
    with pytest.raises(ClaimLostError):
        run.store.do(hand_back, old, run.run_id)
    assert run.store.dump() == before
