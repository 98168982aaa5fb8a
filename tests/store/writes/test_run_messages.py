"""Each runner message is answered once; a repeat gets the stored answer and nothing happens."""

import dataclasses
from typing import TYPE_CHECKING

from pi_workflows.protocol.states import EffectAttemptOutcome

if TYPE_CHECKING:
    from tests.store.writes.conftest import WrittenRun


def test_repeated_message_is_answered_from_the_store(run: "WrittenRun") -> None:
    """Same outcome, same revision, same grants, no second change.

    Case: C34.
    """
    run.begin()
    run.work(run.started("fetch"))
    start = run.started("send")
    message = run.message(start, run.reserved(start))
    first = run.answer(message)
    before = run.store.dump()
    again = run.answer(message)
    assert run.store.dump() == before
    assert (first.outcome, again.outcome) == ("accepted", "adopted")
    assert again.revision == first.revision == run.revision
    assert again.result == first.result
    granted = {"effectId": run.effect_of(start), "status": "applying", "attemptNumber": 1}
    assert first.result == {"transitions": [{}, granted]}


def test_message_without_grants_is_repeated_with_the_same_shape(run: "WrittenRun") -> None:
    """Case: C34."""
    run.begin()
    start = run.started("fetch")
    message = run.message(start, run.finished(start, 1))
    first = run.answer(message)
    again = run.answer(message)
    assert again.result == first.result == {"transitions": [{}, {}]}
    assert again.advanced is None


def test_changed_message_under_the_same_id_is_rejected(run: "WrittenRun") -> None:
    """Case: C34."""
    run.begin()
    run.answer(run.message(run.started("fetch"), message_id="m1"))
    before = run.store.dump()
    changed = run.message(run.started("fetch"), message_id="m1")
    answer = run.answer(changed)
    assert (answer.outcome, answer.revision) == ("rejected", run.revision)
    assert answer.error == "this message id was used for another message"
    assert run.store.dump() == before


def test_refusal_is_stored_and_repeated(run: "WrittenRun") -> None:
    """It undoes the message alone: only the answer is new."""
    run.begin()
    before = run.store.dump()
    message = run.message(run.started("note"))
    first = run.answer(message)
    after = run.store.dump()
    assert {name for name in after if after[name] != before[name]} == {"blobs", "worker_messages"}
    again = run.answer(message)
    assert run.store.dump() == after
    assert first == again
    assert (first.outcome, first.revision) == ("rejected", run.revision)
    assert first.error == "the proposal is refused: this node is not the next one"


def test_answer_outlives_the_end_of_the_run(run: "WrittenRun") -> None:
    """The reply to the last message was lost, the claim is gone: the repeat still adopts."""
    run.walk()
    message = run.message(run.completed())
    ended = run.answer(message)
    assert ended.advanced is not None
    assert ended.advanced.ended
    assert run.expires_at is None
    again = run.answer(message)
    assert (again.outcome, again.revision) == ("adopted", ended.revision)


def test_answers_of_one_child_are_not_those_of_the_next(run: "WrittenRun") -> None:
    """Message ids count per child."""
    run.begin()
    start = run.started("fetch")
    run.answer(run.message(start, message_id="m1"))
    run.park()
    run.store.now += 10_000
    run.begin()
    answer = run.answer(run.message(run.started("fetch"), message_id="m1"))
    assert answer.outcome == "accepted"


def test_adopted_effect_is_granted_with_its_saved_result(run: "WrittenRun") -> None:
    """A reservation alone that only adopts is accepted at the same revision."""
    run.begin()
    run.work(run.started("fetch"))
    start = run.act("send")
    run.advance(run.settled(start, EffectAttemptOutcome.APPLIED))
    revision = run.revision
    answer = run.answer(run.message(run.reserved(start)))
    granted = {"effectId": run.effect_of(start), "status": "applied", "result": {"done": True}}
    assert answer.result == {"transitions": [granted]}
    assert answer.revision == revision == run.revision
    other = dataclasses.replace(run.reserved(start, request="another"))
    assert run.answer(run.message(other)).outcome == "rejected"
