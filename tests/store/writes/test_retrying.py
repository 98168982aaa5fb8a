"""Declared retries as the server accepts them: numbering, waiting, one effect, honest refusals."""

import dataclasses
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.states import EffectAttemptOutcome, StepOutcome
from store import run_queue, run_summaries, verification
from store.effect_errors import EffectNotDueError
from store.errors import NotClaimableError, ProposalRefused
from store.run_parking import Departure
from store.run_retry_view import retrying
from store.run_retrying import failed_tries_ahead

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from store.proposals import FinishAttempt, SettleEffect, StartAttempt
    from tests.store.writes.conftest import WriteStore, WrittenRun

APPLIED = EffectAttemptOutcome.APPLIED
REJECTED = EffectAttemptOutcome.REJECTED
INTERRUPTED = EffectAttemptOutcome.INTERRUPTED
FAILED = StepOutcome.FAILED
TIMED_OUT = StepOutcome.TIMED_OUT


def graph(recovery: str | None = None, **retry: Any) -> "JsonObject":  # noqa: ANN401
    rule: JsonObject = {
        "attempts": 3,
        "backoffMs": 0,
        "factor": 2,
        "maxBackoffMs": 300_000,
        "outcomes": ["failed", "timed_out"],
    }
    flaky: JsonObject = {"id": "flaky", "type": "compute", "retry": rule | retry}
    if recovery is not None:
        flaky |= {"type": "action", "effect": {"type": "mail.send", "recovery": recovery}}
    return {
        "schema": "pi-workflows.definition-snapshot.v1",
        "name": "courier",
        "startAt": "flaky",
        "maxSteps": 2,
        "nodes": [flaky, {"id": "after", "type": "compute"}],
        "edges": [
            {
                "from": "flaky",
                "switch": {"on": "$result.outcome", "cases": {"ok": "after", "failed": "after"}},
            }
        ],
        "mounts": [],
        "settings": None,
    }


def again(
    run: "WrittenRun", start: "StartAttempt", outcome: StepOutcome = FAILED
) -> "FinishAttempt":
    return dataclasses.replace(run.finished(start, outcome=outcome), retry=True)


def given_back(
    run: "WrittenRun",
    start: "StartAttempt",
    number: int,
    outcome: EffectAttemptOutcome = REJECTED,
) -> "SettleEffect":
    return dataclasses.replace(run.settled(start, outcome, number=number), retry=True)


def tries(store: "WriteStore") -> list[tuple[object, ...]]:
    return store.rows(
        "SELECT visit, attempt_number, status FROM node_attempts WHERE node_id = 'flaky'"
        " ORDER BY attempt_number"
    )


def assert_sound(store: "WriteStore") -> None:
    assert store.do(verification.violations) == []


def shown(run: "WrittenRun") -> "JsonObject | None":
    """What is shown of a wait between two tries."""
    return run.store.do(lambda tx: retrying(tx, run_summaries.require(tx, run.run_id)))


def ahead(run: "WrittenRun") -> int:
    return run.store.do(failed_tries_ahead, run.run_id, run.definition)


def test_failed_try_is_closed_without_a_step_and_the_next_one_is_of_the_same_visit(
    store: "WriteStore",
) -> None:
    """Two tries fail at once after each other, the third one is the step; steps are not used up.

    Case: D18.
    """
    run = store.create(graph=graph()).begin()
    first, second, third = (run.started("flaky") for _ in range(3))
    run.advance(first)
    advanced = run.advance(again(run, first), second)
    assert (advanced.progressed, advanced.parked) == (True, False)
    assert ahead(run) == 1
    run.advance(again(run, second, TIMED_OUT), third)
    run.advance(run.finished(third, outcome=FAILED), run.started("after"))
    assert tries(store) == [(1, 1, "failed"), (1, 2, "timed_out"), (1, 3, "failed")]
    assert store.value("SELECT count(*) FROM run_steps") == 1
    assert run.events().count("node_failed") == 3
    assert ahead(run) == 0
    assert_sound(store)


def test_try_beyond_the_declared_number_or_outcome_is_refused(store: "WriteStore") -> None:
    run = store.create(graph=graph(attempts=2, outcomes=["failed"])).begin()
    first, second = (run.started("flaky") for _ in range(2))
    run.advance(first)
    for refused in (again(run, first, TIMED_OUT), again(run, first, StepOutcome.OK)):
        with pytest.raises(ProposalRefused):
            run.advance(refused)
    run.advance(again(run, first), second)
    with pytest.raises(ProposalRefused):
        run.advance(again(run, second))
    run.advance(run.finished(second, outcome=FAILED), run.started("after"))
    other = run.started("after")
    with pytest.raises(ProposalRefused):
        run.advance(again(run, other))


def test_between_two_tries_nothing_but_the_next_one_may_follow(store: "WriteStore") -> None:
    run = store.create(graph=graph()).begin()
    first = run.started("flaky")
    run.advance(first, again(run, first))
    for refused in (run.started("after"), run.completed(), run.started("flaky", visit=2)):
        with pytest.raises(ProposalRefused):
            run.advance(refused)
    run.advance(run.started("flaky"))


def test_wait_parks_the_run_in_the_commit_of_the_failed_try(store: "WriteStore") -> None:
    """Claimable exactly at its instant, not a moment before; the lease is free meanwhile.

    Case: D18.
    """
    run = store.create(graph=graph(backoffMs=60_000)).begin()
    for count, wait_ms in ((1, 60_000), (2, 120_000)):
        start = run.started("flaky")
        advanced = run.advance(start, again(run, start), run.started("flaky"))
        assert advanced.parked
        assert run.status == ("running", "parked")
        assert run.expires_at is None
        assert run.events()[-1] == "run.queue_parked"
        run.end_child()
        due_at = store.now + wait_ms
        (waiting,) = store.do(run_queue.claimable, 10)
        assert waiting.due_at == due_at
        store.now = due_at - 1
        with pytest.raises(NotClaimableError):
            run.take()
        store.now = due_at
        run.begin()
        assert ahead(run) == count
        assert_sound(store)
    last = run.started("flaky")
    with pytest.raises(ProposalRefused):
        run.advance(last, again(run, last))
    run.advance(last, run.finished(last, outcome=FAILED))
    assert [number for _, number, _ in tries(store)] == [1, 2, 3]


def test_failed_try_gives_back_what_deaths_had_used_up(store: "WriteStore") -> None:
    """It is progress; an effect that is not due yet is none."""
    run = store.create(graph=graph("idempotent", backoffMs=60_000)).begin()
    errors = "SELECT consecutive_errors FROM run_queue"
    for count in (1, 2):
        run.park(Departure.DIED_WITHOUT_PROGRESS)
        assert store.value(errors) == count
        store.now += 100_000
        run.begin()
    start = run.started("flaky")
    run.advance(start, run.reserved(start))
    store.alter("UPDATE effects SET next_attempt_at = 9999999999999, status = 'pending'")
    run.park(Departure.HANDED_OFF)
    run.begin()
    early = run.started("flaky")
    run.advance(early, run.reserved(early))
    run.end_child()
    assert store.value(errors) == 2
    store.alter("UPDATE effects SET next_attempt_at = NULL", "UPDATE run_queue SET available_at=0")
    run.begin()
    late = run.started("flaky")
    run.advance(late)
    run.advance(again(run, late))
    assert store.value(errors) == 0


def test_what_is_shown_between_two_tries_is_of_the_visit_that_is_open(store: "WriteStore") -> None:
    run = store.create(graph=graph(backoffMs=60_000)).begin()
    start = run.started("flaky")
    run.advance(start)
    assert shown(run) is None
    run.advance(again(run, start))
    run.end_child()
    assert shown(run) == {
        "nodeId": "flaky",
        "visit": 1,
        "failedTries": 1,
        "outcome": "failed",
        "error": "it did not work",
        "nextTryAt": "2023-11-14T22:14:20.000Z",
    }
    store.now += 60_000
    run.begin()
    assert shown(run) is None
    second = run.started("flaky")
    run.advance(second, run.finished(second, "at last"))
    run.park()
    store.alter("UPDATE run_queue SET error_code = 'retryBackoff'")
    assert shown(run) is None, "that visit is over"


@pytest.mark.parametrize("server_died", [False, True])
def test_crash_in_a_try_keeps_the_count(store: "WriteStore", *, server_died: bool) -> None:
    """The interrupted try is repeated and uses none of those that are declared.

    Case: D18.
    """
    run = store.create(graph=graph()).begin()
    first, second = (run.started("flaky") for _ in range(2))
    run.advance(first, again(run, first), second)
    if server_died:
        store.recover()
    else:
        run.park(Departure.DIED_AFTER_PROGRESS)
    store.now += 10_000
    run.begin()
    assert ahead(run) == 1
    third, fourth = (run.started("flaky") for _ in range(2))
    run.advance(third, again(run, third), fourth, run.finished(fourth, "at last"))
    assert tries(store) == [
        (1, 1, "failed"),
        (1, 2, "cancelled"),
        (1, 3, "failed"),
        (1, 4, "completed"),
    ]
    assert_sound(store)


@pytest.mark.parametrize("recovery", ["idempotent", "manual"])
def test_action_keeps_its_effect_whose_attempts_are_numbered(
    store: "WriteStore", recovery: str
) -> None:
    """A known failure goes back to pending; the last one is rejected.

    Case: D18.
    """
    run = store.create(graph=graph(recovery)).begin()
    starts = [run.started("flaky") for _ in range(3)]
    run.advance(starts[0], run.reserved(starts[0]))
    for number, (start, following) in enumerate(pairwise(starts), start=1):
        run.advance(
            given_back(run, start, number),
            again(run, start),
            following,
            run.reserved(following),
        )
    last = starts[-1]
    run.advance(run.settled(last, REJECTED, number=3), run.finished(last, outcome=FAILED))
    assert len({run.effect_of(start) for start in starts}) == 1
    assert run.effects() == [("mail.send", "rejected")]
    numbered = store.rows("SELECT attempt_number, outcome FROM effect_attempts")
    assert numbered == [(1, "rejected"), (2, "rejected"), (3, "rejected")]
    events = store.rows(
        "SELECT event_type FROM events JOIN effects USING (resource_id) ORDER BY event_seq"
    )
    back = [("effect.retry_ready",), ("effect.retry_started",)]
    assert events == [("effect.reserved",), *back, *back, ("effect.rejected",)]
    assert_sound(store)


def test_effect_that_waits_is_not_taken_before_its_instant(store: "WriteStore") -> None:
    """Its run is parked until then; were it claimed, it would be parked again.

    Case: A49.
    """
    run = store.create(graph=graph("idempotent", backoffMs=60_000)).begin()
    first = run.started("flaky")
    run.advance(first, run.reserved(first))
    run.advance(given_back(run, first, 1), again(run, first))
    run.end_child()
    due_at = store.now + 60_000
    assert store.value("SELECT next_attempt_at FROM effects") == due_at
    store.alter("UPDATE run_queue SET error_code = NULL, available_at = 0")
    run.begin()
    early = run.started("flaky")
    advanced = run.advance(early, run.reserved(early))
    assert (advanced.parked, advanced.grants) == (True, (None, None))
    assert run.status == ("running", "parked")
    assert store.value("SELECT attempt_count FROM effects") == 1
    run.end_child()
    (waiting,) = store.do(run_queue.claimable, 10)
    assert waiting.due_at == due_at
    store.now = due_at
    run.begin()
    start = run.started("flaky")
    _, granted = run.advance(start, run.reserved(start)).grants
    assert granted is not None
    assert granted.attempt_number == 2
    assert store.value("SELECT next_attempt_at FROM effects") is None
    assert_sound(store)


def test_what_may_have_happened_is_not_given_back_by_a_retry(store: "WriteStore") -> None:
    """Only where repeating is harmless or a look comes first; nor by a word that fits no retry."""
    for number, recovery in enumerate(("manual", "observe", "idempotent")):
        run = store.create(f"run-{number}", graph(recovery)).begin()
        start = run.started("flaky")
        run.advance(start, run.reserved(start))
        for outcome in (APPLIED, EffectAttemptOutcome.AMBIGUOUS):
            with pytest.raises(ProposalRefused):
                run.advance(given_back(run, start, 1, outcome))
        with pytest.raises(ProposalRefused):
            run.advance(run.settled(start, INTERRUPTED))
        with pytest.raises(ProposalRefused):
            run.advance(run.settled(start, REJECTED), again(run, start))
        unknown = given_back(run, start, 1, INTERRUPTED)
        if recovery != "manual":
            run.advance(unknown, again(run, start, TIMED_OUT), run.started("flaky"))
            continue
        with pytest.raises(ProposalRefused):
            run.advance(unknown)


def test_cancel_between_two_tries_cancels_the_effect(store: "WriteStore") -> None:
    run = store.create(graph=graph("manual", backoffMs=60_000)).begin()
    start = run.started("flaky")
    run.advance(start, run.reserved(start))
    run.advance(given_back(run, start, 1), again(run, start))
    run.end_child()
    run.cancel()
    assert run.effects() == [("mail.send", "cancelled"), ("run.settle_queue", "applied")]
    assert_sound(store)


def test_definitions_without_retry_are_read_as_before() -> None:
    plain = graph()
    nodes = plain["nodes"]
    assert isinstance(nodes, list)
    assert isinstance(nodes[0], dict)
    del nodes[0]["retry"]
    assert DefinitionSnapshot.parse(plain).nodes["flaky"].retry is None


def test_effect_that_its_runner_dies_in_waits_longer_each_time(store: "WriteStore") -> None:
    """One second, doubled with each attempt, at most five minutes; the run waits as long.

    Case: A49, B34.
    """
    run = store.create(graph=graph("idempotent")).begin()
    for number, wait_ms in enumerate([1_000, 2_000, 4_000, 8_000], start=1):
        start = run.started("flaky")
        run.advance(start, run.reserved(start))
        run.park(Departure.DIED_AFTER_PROGRESS)
        due_at = store.now + wait_ms
        assert store.value("SELECT next_attempt_at FROM effects") == due_at
        (waiting,) = store.do(run_queue.claimable, 10)
        assert waiting.due_at == due_at
        store.now = due_at
        run.begin()
        assert store.value("SELECT attempt_count FROM effects") == number
    store.alter("UPDATE effects SET attempt_count = 50")
    start = run.started("flaky")
    run.advance(start, run.reserved(start))
    store.alter("UPDATE effect_attempts SET attempt_number = 51 WHERE finished_at IS NULL")
    run.park(Departure.DIED_AFTER_PROGRESS)
    assert store.value("SELECT next_attempt_at FROM effects") == store.now + 300_000


@pytest.mark.parametrize("departure", [Departure.HANDED_OFF, Departure.ABANDONED_CODE, None])
def test_effect_of_a_run_that_was_handed_on_is_due_at_once(
    store: "WriteStore", departure: Departure | None
) -> None:
    """A stop or death of the server says nothing against the action."""
    run = store.create(graph=graph("idempotent")).begin()
    start = run.started("flaky")
    run.advance(start, run.reserved(start))
    if departure is None:
        store.recover()
    else:
        run.park(departure)
    assert store.value("SELECT next_attempt_at FROM effects") is None
    run.begin()


def test_refusal_of_an_effect_that_is_not_due_names_the_instant() -> None:
    """Case: A49."""
    assert EffectNotDueError(7).fields() == {"dueAt": 7}
