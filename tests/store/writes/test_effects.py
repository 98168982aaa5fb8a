"""The outbox: numbered attempts, one identity per need, and an honest word after a crash."""

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import (
    EffectAttemptOutcome,
    EffectStatus,
    RecoveryKind,
    StepOutcome,
)
from store import effects, run_queue
from store.authority import Operation, revise
from store.errors import (
    EffectConflictError,
    IllegalTransitionError,
    NotClaimableError,
    ProposalRefused,
)
from store.run_ending import SETTLE_QUEUE
from store.run_parking import Departure

if TYPE_CHECKING:
    from store.transaction import Transaction
    from tests.store.writes.conftest import WriteStore, WrittenRun

APPLIED = EffectAttemptOutcome.APPLIED
REJECTED = EffectAttemptOutcome.REJECTED
AMBIGUOUS = EffectAttemptOutcome.AMBIGUOUS


def attempts_of(run: "WrittenRun") -> list[tuple[object, ...]]:
    """Number, owner, generation and outcome of each attempt of the run's action effects."""
    return run.store.rows(
        "SELECT attempt_number, owner_id, lease_generation, a.outcome"
        " FROM effect_attempts AS a JOIN effects AS e USING (effect_id)"
        " WHERE e.source_resource_id = :id AND effect_type NOT LIKE 'run.%'"
        " ORDER BY e.rowid, attempt_number",
        id=run_resource_id(run.run_id),
    )


def to_note(run: "WrittenRun") -> "WrittenRun":
    """Go to the node whose effect is idempotent."""
    run.begin()
    run.work(run.started("fetch"))
    run.work(run.started("send"))
    return run


def to_send(run: "WrittenRun") -> "WrittenRun":
    """Go to the node whose effect nobody may repeat."""
    run.begin()
    run.work(run.started("fetch"))
    return run


def test_effect_is_stored_with_its_source_at_the_exact_revision(run: "WrittenRun") -> None:
    """Both are there after the commit of the message that asked for it.

    Case: A45.
    """
    to_send(run)
    start = run.started("send")
    advanced = run.advance(start, run.reserved(start))
    ((source, revision, status, count),) = run.store.rows(
        "SELECT source_resource_id, source_revision, status, attempt_count FROM effects"
        " WHERE effect_id = :id",
        id=run.effect_of(start),
    )
    assert source == run_resource_id(run.run_id)
    assert revision == advanced.revision == run.revision
    assert (status, count) == ("applying", 1)
    ((event, attempt_generation),) = run.store.rows(
        "SELECT v.event_type, v.lease_generation FROM events AS v JOIN effects AS e"
        " USING (resource_id) WHERE e.effect_id = :id",
        id=run.effect_of(start),
    )
    assert (event, attempt_generation) == ("effect.reserved", run.claim.generation)


def test_applied_effect_is_adopted_by_the_same_request_only(run: "WrittenRun") -> None:
    """A child that died after the effect had settled has a successor that must not act.

    It is handed the saved result; one that asks for something else is refused.

    Case: A46, B33.
    """
    to_send(run)
    first = run.act("send")
    run.advance(run.settled(first, APPLIED))
    run.park(Departure.DIED_AFTER_PROGRESS)
    run.store.now += 10_000
    run.begin()
    start = run.started("send")
    run.advance(start)
    before = run.store.dump()
    with pytest.raises(EffectConflictError):
        run.advance(run.reserved(start, request="something else"))
    assert run.store.dump() == before
    (granted,) = run.advance(run.reserved(start)).grants
    assert granted is not None
    assert (granted.status, granted.attempt_number) == ("applied", 0)
    assert granted.result == {"done": True}
    assert attempts_of(run) == [(1, "server-1", 1, "applied")]


def test_each_visit_of_a_node_has_an_effect_of_its_own(run: "WrittenRun") -> None:
    """Case: B32."""
    to_send(run)
    start = run.act("send")
    failed = run.finished(start, outcome=StepOutcome.FAILED)
    run.advance(run.settled(start, REJECTED), failed)
    run.work(run.started("fetch", visit=2))
    again = run.act("send", visit=2)
    assert run.effect_of(again) != run.effect_of(start)
    assert run.effects() == [("mail.send", "rejected"), ("mail.send", "applying")]


def test_attempts_are_numbered_with_owner_and_generation(run: "WrittenRun") -> None:
    """An idempotent effect that a crash interrupted is taken again under the next number.

    Case: A48, A51, B34.
    """
    to_note(run)
    for generation in (1, 2):
        assert run.claim.generation == generation
        run.act("note")
        run.park(Departure.DIED_AFTER_PROGRESS)
        assert run.effects()[-1] == ("note.write", "pending")
        run.store.now += 10_000
        run.begin()
    start = run.act("note")
    run.advance(run.settled(start, APPLIED, number=3))
    assert attempts_of(run)[1:] == [
        (1, "server-1", 1, "interrupted"),
        (2, "server-1", 2, "interrupted"),
        (3, "server-1", 3, "applied"),
    ]


def test_old_attempt_cannot_settle(run: "WrittenRun") -> None:
    """Case: A50."""
    to_note(run)
    run.act("note")
    run.park()
    run.begin()
    start = run.act("note")
    before = run.store.dump()
    for number in (1, 3):
        with pytest.raises(IllegalTransitionError):
            run.advance(run.settled(start, APPLIED, number=number))
    assert run.store.dump() == before
    run.advance(run.settled(start, APPLIED, number=2))
    with pytest.raises(IllegalTransitionError):
        run.advance(run.settled(start, APPLIED, number=2))


def test_effect_of_another_run_cannot_be_settled(store: "WriteStore", run: "WrittenRun") -> None:
    to_send(run)
    start = run.act("send")
    other = store.create("run-2").begin()
    before = store.dump()
    with pytest.raises(ProposalRefused):
        other.advance(run.settled(start, APPLIED))
    assert store.dump() == before


@pytest.mark.parametrize("server_died", [False, True])
def test_crash_leaves_a_manual_effect_ambiguous_and_the_run_waiting(
    run: "WrittenRun", *, server_died: bool
) -> None:
    """Whether the child or the whole server died, nobody knows what happened outside.

    Run and attempt wait, the queue row is parked with the reason, the lease is free, and the
    effect is not settled.

    Case: A51, A58, B34.
    """
    to_send(run)
    start = run.act("send")
    if server_died:
        run.store.recover()
    else:
        run.park(Departure.DIED_AFTER_PROGRESS)
    assert run.status == ("waiting", "parked")
    assert run.effects() == [("mail.send", "ambiguous"), ("run.park_queue", "applied")]
    assert attempts_of(run) == [(1, "server-1", 1, "interrupted")]
    assert run.expires_at is None
    assert run.events()[-1] == "run.effect_ambiguous"
    ((status, error, settled_at, finished_at),) = run.store.rows(
        "SELECT a.status, q.error_code, e.settled_at, r.finished_at"
        " FROM node_attempts AS a, run_queue AS q, effects AS e, runs AS r"
        " WHERE a.attempt_id = :attempt_id AND e.effect_id = :effect_id",
        attempt_id=start.attempt_id,
        effect_id=run.effect_of(start),
    )
    assert (status, error) == ("waiting", "effectAmbiguous")
    assert (settled_at, finished_at) == (None, None)


def test_ambiguous_effect_is_never_tried_again_by_itself(run: "WrittenRun") -> None:
    """The run is no candidate of the scheduler, cannot be claimed, and recovery leaves it alone.

    Case: A52.
    """
    to_send(run)
    run.act("send")
    run.store.recover()
    before = run.store.dump()
    run.store.now += 1_000_000_000
    assert run.store.do(run_queue.claimable, 10) == []
    with pytest.raises(NotClaimableError):
        run.take()
    run.store.recover()
    assert run.store.dump() == before


def test_runner_that_lost_sight_of_its_effect_parks_the_run(run: "WrittenRun") -> None:
    """What it sent after that is dropped: the attempt that it thinks finished waits.

    Case: A58.
    """
    to_send(run)
    start = run.act("send")
    ended = run.finished(start, outcome=StepOutcome.TIMED_OUT)
    advanced = run.advance(run.settled(start, AMBIGUOUS), ended)
    assert (advanced.parked, advanced.ended) == (True, False)
    assert run.status == ("waiting", "parked")
    assert attempts_of(run) == [(1, "server-1", 1, "ambiguous")]
    assert run.store.value("SELECT count(*) FROM run_steps") == 1


def test_local_effect_twice_changes_once(run: "WrittenRun") -> None:
    """The second call finds it applied and tells its caller to change nothing.

    Case: A54.
    """
    run.begin()
    wanted = effects.plan("local", "key", request=1, recovery=RecoveryKind.IDEMPOTENT)

    def twice(tx: "Transaction") -> list[bool]:
        resource = run_resource_id(run.run_id)
        with revise(tx, run.permit, resource, Operation.ADVANCE_RUN) as recorder:
            found = [
                effects.apply_locally(tx, recorder, wanted, owner_id="store") for _ in range(2)
            ]
        return [effect is not None for effect in found]

    assert run.store.do(twice) == [True, False]
    assert run.effects() == [("local", "applied")]
    assert attempts_of(run) == [(1, "store", 1, "applied")]


def test_run_without_a_queue_row_gets_no_settle_effect(run: "WrittenRun") -> None:
    """Case: A55."""
    run.walk()
    run.store.alter("DELETE FROM run_queue")
    run.advance(run.completed())
    assert SETTLE_QUEUE not in dict(run.effects())
    assert run.store.value("SELECT status FROM runs") == "completed"


def test_run_without_a_queue_row_gets_no_park_effect(run: "WrittenRun") -> None:
    """Case: A55."""
    to_send(run)
    start = run.act("send")
    run.store.alter("DELETE FROM run_queue")
    run.advance(run.settled(start, AMBIGUOUS))
    assert run.effects() == [("mail.send", "ambiguous")]
    assert run.store.value("SELECT status FROM runs") == "waiting"


def test_two_waits_of_a_run_are_two_park_effects(run: "WrittenRun") -> None:
    """The key names the attempt that waits.

    Case: A56.
    """
    to_send(run)
    first = run.act("send")
    run.advance(run.settled(first, AMBIGUOUS))
    run.end_child()
    # What an operator's evidence will do: it did not happen, go on.
    run.store.alter(
        "UPDATE effects SET status = 'rejected', settled_at = 1 WHERE status = 'ambiguous'",
        "UPDATE node_attempts SET status = 'interrupted' WHERE status = 'waiting'",
        "UPDATE run_queue SET status = 'queued', error_code = NULL",
    )
    run.begin()
    again = run.started("send")
    run.advance(again, run.finished(again, outcome=StepOutcome.FAILED))
    run.work(run.started("fetch", visit=2))
    second = run.act("send", visit=2)
    run.advance(run.settled(second, AMBIGUOUS))
    keys = run.store.rows(
        "SELECT idempotency_key, status FROM effects WHERE effect_type = 'run.park_queue'"
        " ORDER BY created_at, rowid"
    )
    waited = (first.attempt_id, second.attempt_id)
    assert keys == [(f"run-1:waiting:{attempt_id}", "applied") for attempt_id in waited]


def test_open_effect_forbids_to_finish_its_attempt(run: "WrittenRun") -> None:
    """Neither well, nor badly, nor well without ever having acted."""
    to_send(run)
    start = run.started("send")
    run.advance(start)
    with pytest.raises(ProposalRefused):
        run.advance(run.finished(start, "sent, honestly"))
    run.advance(run.reserved(start))
    before = run.store.dump()
    for outcome in StepOutcome:
        with pytest.raises(ProposalRefused):
            run.advance(run.finished(start, outcome=outcome))
    assert run.store.dump() == before


def test_effect_that_the_node_does_not_declare_is_refused(run: "WrittenRun") -> None:
    to_send(run)
    start = run.started("send")
    run.advance(start)
    right = run.reserved(start)
    before = run.store.dump()
    for wrong in (
        {"effect_type": "note.write"},
        {"recovery": RecoveryKind.IDEMPOTENT.value},
        {"visit": 2},
        {"node_id": "note"},
        {"attempt_id": "attempt-of-nobody"},
    ):
        with pytest.raises(ProposalRefused):
            run.advance(dataclasses.replace(right, **wrong))
    assert run.store.dump() == before
    (granted,) = run.advance(right).grants
    assert granted is not None
    assert granted.status == EffectStatus.APPLYING
