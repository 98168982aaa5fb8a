"""Effects that can be looked for: what a look settles, and what only a try may."""

import dataclasses
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import EffectAttemptOutcome
from store import verification
from store.blobs import Blob
from store.errors import IllegalTransitionError, ProposalRefused
from store.run_parking import Departure
from store.unresolved_effects import unresolved

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from store.proposals import SettleEffect, StartAttempt
    from tests.store.writes.conftest import WriteStore, WrittenRun

APPLIED = EffectAttemptOutcome.APPLIED
REJECTED = EffectAttemptOutcome.REJECTED
AMBIGUOUS = EffectAttemptOutcome.AMBIGUOUS
INTERRUPTED = EffectAttemptOutcome.INTERRUPTED

GRAPH: "Final[JsonObject]" = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "courier",
    "startAt": "send",
    "maxSteps": 6,
    "nodes": [
        {
            "id": "send",
            "type": "action",
            "effect": {"type": "mail.send", "recovery": "observe", "lookTimeoutMs": 30_000},
        },
        {"id": "log", "type": "action", "effect": {"type": "log", "recovery": "idempotent"}},
    ],
    "edges": [{"from": "send", "to": "log"}],
    "mounts": [],
    "settings": None,
}


@pytest.fixture
def run(store: "WriteStore") -> "WrittenRun":
    return store.create(graph=GRAPH)


def attempts(run: "WrittenRun") -> list[tuple[object, ...]]:
    return run.store.rows(
        "SELECT attempt_number, a.outcome FROM effect_attempts AS a JOIN effects USING (effect_id)"
        " WHERE effect_type = 'mail.send' ORDER BY attempt_number"
    )


def events(run: "WrittenRun") -> list[str]:
    rows = run.store.rows(
        "SELECT event_type FROM events AS v JOIN effects AS e USING (resource_id)"
        " WHERE e.effect_type = 'mail.send' ORDER BY resource_revision"
    )
    return [event for (event,) in rows]


def interrupted(run: "WrittenRun", *, server_died: bool = False) -> "StartAttempt":
    """Crash in the effect, resume, and stand before the reservation of the next try."""
    run.begin()
    run.act("send")
    if server_died:
        run.store.recover()
    else:
        run.park(Departure.DIED_AFTER_PROGRESS)
    assert run.effects() == [("mail.send", "pending")]
    assert run.status == ("running", "parked")
    run.store.now += 10_000
    run.begin()
    start = run.started("send")
    run.advance(start)
    return start


def seen(
    run: "WrittenRun", start: "StartAttempt", outcome: EffectAttemptOutcome, number: int = 1
) -> "SettleEffect":
    settled = run.settled(start, outcome, number=number)
    return dataclasses.replace(settled, observed=True)


@pytest.mark.parametrize("server_died", [False, True])
def test_interrupted_effect_is_looked_for_and_adopted_when_it_is_there(
    run: "WrittenRun", *, server_died: bool
) -> None:
    """No second attempt is opened; the first one stays as it was closed, for nobody saw its end.

    Case: A53, A51.
    """
    start = interrupted(run, server_died=server_died)
    (granted,) = run.advance(run.reserved(start)).grants
    assert granted is not None
    assert (granted.status, granted.attempt_number) == ("pending", 1)
    advanced = run.advance(seen(run, start, APPLIED), run.finished(start, {"done": True}))
    assert advanced.progressed
    assert run.effects() == [("mail.send", "applied")]
    assert attempts(run) == [(1, "interrupted")]
    assert events(run) == ["effect.reserved", "effect.retry_ready", "effect.applied"]
    assert run.store.do(verification.violations) == []


def test_interrupted_effect_that_is_absent_is_tried_under_the_next_number(
    run: "WrittenRun",
) -> None:
    start = interrupted(run)
    absent = dataclasses.replace(run.reserved(start), observed=True)
    (granted,) = run.advance(absent).grants
    assert granted is not None
    assert (granted.status, granted.attempt_number) == ("applying", 2)
    run.advance(run.settled(start, APPLIED, number=2))
    assert attempts(run) == [(1, "interrupted"), (2, "applied")]
    assert run.store.do(verification.violations) == []


def test_look_without_an_answer_parks_the_run(run: "WrittenRun") -> None:
    start = interrupted(run)
    run.advance(run.reserved(start))
    why = Blob.of_text("EFFECT_UNSEEN: no net")
    settled = dataclasses.replace(seen(run, start, AMBIGUOUS), error=why)
    advanced = run.advance(settled, run.finished(start, "?"))
    assert (advanced.parked, run.status) == (True, ("waiting", "parked"))
    open_ones = run.store.do(unresolved, run_resource_id(run.run_id), limit=9)
    assert [effect.get("error") for effect in open_ones] == ["EFFECT_UNSEEN: no net"]
    assert run.effects() == [("mail.send", "ambiguous"), ("run.park_queue", "applied")]
    assert attempts(run) == [(1, "interrupted")]
    assert events(run)[-1] == "effect.ambiguous"
    assert run.store.do(verification.violations) == []


def test_crash_during_a_look_leaves_the_count_and_is_looked_for_again(run: "WrittenRun") -> None:
    """A look is no try: nothing was sent."""
    start = interrupted(run)
    run.advance(run.reserved(start))
    run.park(Departure.DIED_WITHOUT_PROGRESS)
    assert attempts(run) == [(1, "interrupted")]
    run.store.now += 10_000
    run.begin()
    again = run.started("send")
    (_, granted) = run.advance(again, run.reserved(again)).grants
    assert granted is not None
    assert (granted.status, granted.attempt_number) == ("pending", 1)


def test_only_what_a_look_may_tell_is_accepted(run: "WrittenRun") -> None:
    """An old or future number, another kind of outcome, a try that is open: all refused."""
    start = interrupted(run)
    before = run.store.dump()
    for number in (0, 2):
        with pytest.raises(IllegalTransitionError):
            run.advance(seen(run, start, APPLIED, number))
    for outcome in (REJECTED, INTERRUPTED):
        with pytest.raises(ProposalRefused):
            run.advance(seen(run, start, outcome))
    assert run.store.dump() == before
    run.advance(dataclasses.replace(run.reserved(start), observed=True))
    with pytest.raises(IllegalTransitionError):
        run.advance(seen(run, start, APPLIED, 2))


def test_effect_of_another_kind_is_not_settled_by_a_look(run: "WrittenRun") -> None:
    run.begin()
    run.work(run.started("send"))
    start = run.act("log")
    run.park()
    run.begin()
    again = run.started("log")
    run.advance(again)
    before = run.store.dump()
    with pytest.raises(ProposalRefused):
        run.advance(seen(run, start, APPLIED))
    with pytest.raises(ProposalRefused):
        run.advance(dataclasses.replace(run.reserved(again), observed=True))
    assert run.store.dump() == before


def test_effect_that_had_no_try_cannot_be_seen(run: "WrittenRun") -> None:
    run.begin()
    start = run.started("send")
    run.advance(start)
    with pytest.raises(ProposalRefused):
        run.advance(seen(run, start, APPLIED))
