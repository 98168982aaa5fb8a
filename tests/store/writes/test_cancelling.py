"""Cancelling: the first end wins, and the reply says honestly who that was."""

from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import (
    ActorType,
    EffectAttemptOutcome,
    EffectScope,
    RecoveryKind,
    RunStatus,
)
from store import effects, leases
from store.authority import Operation, Permit, revise
from store.errors import CancelConflictError, ClaimLost, ClaimLostError, RunUnknownError
from store.resources import Actor
from store.run_cancelling import DEFAULT_REASON, Verdict

if TYPE_CHECKING:
    from store.transaction import Transaction
    from tests.store.writes.conftest import WriteStore, WrittenRun

CLAIM_MS: Final = 30_000
CONTROL: Final = Actor(ActorType.CONTROL)


def plan_later(tx: "Transaction", run: "WrittenRun") -> None:
    """Let the run source an effect on which nobody acts yet."""
    with revise(tx, run.permit, run_resource_id(run.run_id), Operation.ADVANCE_RUN) as recorder:
        wanted = effects.plan("later", "key", request=1, recovery=RecoveryKind.IDEMPOTENT)
        effects.create(tx, recorder, wanted, EffectScope.RUN, "effect.created")


def test_queued_run_is_cancelled_without_worker_capacity(run: "WrittenRun") -> None:
    """Case: B40."""
    reply = run.cancel("changed my mind")
    assert (reply.verdict, reply.status, reply.revision) == (Verdict.WON, "cancelled", 2)
    assert reply.cut_off is None
    assert reply.ambiguous == ()
    assert run.status == ("cancelled", "cancelled")


def test_owned_run_is_cancelled_only_under_its_own_claim(run: "WrittenRun") -> None:
    """A stale cancel is refused; the server's control command with the live claim is not.

    Case: A41, C57.
    """
    run.begin()
    before = run.store.dump()
    with pytest.raises(ClaimLostError) as lost:
        run.cancel()
    assert lost.value.reason is ClaimLost.MISSING_AUTHORITY
    assert run.store.dump() == before
    assert run.cancel(permit=Permit(CONTROL, run.claim)).verdict is Verdict.WON
    assert run.expires_at is None


def test_cancel_of_an_expired_claim_acts_under_a_claim_of_its_own(run: "WrittenRun") -> None:
    """The generation rises: whoever held the run before is fenced off, whatever the clock does.

    Case: A41, C57.
    """
    run.begin()
    old = run.claim
    run.store.now += CLAIM_MS
    assert run.cancel().verdict is Verdict.WON
    ((generation, owner),) = run.store.rows("SELECT generation, owner_id FROM leases LIMIT 1")
    assert (generation, owner) == (old.generation + 1, None)
    last = "SELECT event_type, lease_generation FROM events WHERE resource_id = :id"
    found = run.store.rows(
        f"{last} ORDER BY resource_revision DESC LIMIT 1", id=run_resource_id(run.run_id)
    )
    assert found == [("run_cancelled", old.generation + 1)]
    run.store.now -= CLAIM_MS
    with pytest.raises(ClaimLostError):
        run.store.do(leases.renew_claim, old)
    with pytest.raises(ClaimLostError):
        run.store.do(leases.release, old)


def test_cancel_cuts_the_attempt_off_and_admits_what_it_does_not_know(
    run: "WrittenRun",
) -> None:
    """Effects nobody began are cancelled; one that may be happening is ambiguous, not settled.

    Case: A57, C58, B36.
    """
    run.begin()
    run.work(run.started("fetch"))
    run.store.do(plan_later, run)
    start = run.act("send")
    reply = run.cancel(permit=Permit(CONTROL, run.claim))
    assert reply.cut_off is not None
    assert reply.cut_off.attempt_id == start.attempt_id
    assert [effect.effect_id for effect in reply.ambiguous] == [run.effect_of(start)]
    assert [effect.status for effect in reply.ambiguous] == ["ambiguous"]
    assert run.effects() == [
        ("later", "cancelled"),
        ("mail.send", "ambiguous"),
        ("run.settle_queue", "applied"),
    ]
    ((settled_at, outcome),) = run.store.rows(
        "SELECT settled_at, outcome FROM effects JOIN effect_attempts USING (effect_id)"
        " WHERE status = 'ambiguous'"
    )
    assert (settled_at, outcome) == (None, "interrupted")
    assert run.store.rows(
        "SELECT status FROM node_attempts WHERE attempt_id = :id", id=start.attempt_id
    ) == [("cancelled",)]


def test_repeated_cancel_adopts_for_the_same_reason_and_conflicts_for_another(
    run: "WrittenRun",
) -> None:
    """Case: D5."""
    first = run.cancel("enough")
    before = run.store.dump()
    again = run.cancel("enough")
    assert again.adopted
    assert (again.verdict, again.revision) == (Verdict.WON, first.revision)
    with pytest.raises(CancelConflictError):
        run.cancel("another reason")
    assert run.store.dump() == before


def test_repeated_cancel_without_a_reason_adopts_whatever_the_first_one_said(
    run: "WrittenRun",
) -> None:
    """It asks for the end alone, and the end is there.

    Case: D5.
    """
    first = run.cancel("enough")
    before = run.store.dump()
    again = run.cancel(None)
    assert (again.adopted, again.verdict, again.revision) == (True, Verdict.WON, first.revision)
    assert run.store.dump() == before


def test_reason_that_reads_as_json_is_the_same_reason_again(run: "WrittenRun") -> None:
    run.cancel("42")
    assert run.cancel("42").adopted


def test_cancel_without_a_reason_stores_a_default_one(run: "WrittenRun") -> None:
    run.cancel(None)
    assert run.cancel(DEFAULT_REASON).adopted
    with pytest.raises(CancelConflictError):
        run.cancel("another reason")


def test_cancel_that_comes_too_late_is_told_what_won(run: "WrittenRun") -> None:
    run.walk()
    ended = run.advance(run.completed())
    before = run.store.dump()
    reply = run.cancel()
    assert (reply.verdict, reply.status) == (Verdict.LOST, RunStatus.COMPLETED)
    assert (reply.revision, reply.cut_off, reply.adopted) == (ended.revision, None, False)
    assert run.store.dump() == before


def test_late_cancel_lists_the_effects_that_stayed_ambiguous(run: "WrittenRun") -> None:
    run.begin()
    run.work(run.started("fetch"))
    start = run.act("send")
    first = run.cancel(permit=Permit(CONTROL, run.claim))
    again = run.cancel()
    assert [effect.effect_id for effect in again.ambiguous] == [run.effect_of(start)]
    assert first.ambiguous == again.ambiguous


def test_run_that_waits_for_a_person_can_be_cancelled(run: "WrittenRun") -> None:
    run.begin()
    run.work(run.started("fetch"))
    start = run.act("send")
    run.advance(run.settled(start, EffectAttemptOutcome.AMBIGUOUS))
    assert run.status == ("waiting", "parked")
    reply = run.cancel()
    assert reply.cut_off is not None
    assert reply.cut_off.attempt_id == start.attempt_id
    assert run.status == ("cancelled", "cancelled")


def test_unknown_run_is_refused_with_its_nearest_names(store: "WriteStore") -> None:
    known = store.create("run-12")
    before = store.dump()
    known.run_id = "run-13"
    with pytest.raises(RunUnknownError) as refused:
        known.cancel()
    assert refused.value.fields() == {"nearest": ["run-12"]}
    assert store.dump() == before
