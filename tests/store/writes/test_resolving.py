"""An operator's word on an ambiguous effect: one winner, one event, and a run that goes on."""

from typing import TYPE_CHECKING

import pytest

from pi_workflows.protocol.ids import EffectId, run_resource_id
from pi_workflows.protocol.states import ActorType, EffectAttemptOutcome, StepOutcome
from store import blobs, run_queue, verification
from store.authority import Permit
from store.effect_errors import (
    EffectNotAmbiguousError,
    EffectSettledError,
    EffectUnknownError,
    RetryRefusedError,
)
from store.effect_resolving import Resolution, Resolved, Verb, resolve_effect
from store.errors import AuthorityError, StaleResourceError, StoreError
from store.resources import Actor

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonValue
    from store.proposals import StartAttempt
    from tests.store.writes.conftest import WrittenRun

CONTROL = Permit(Actor(ActorType.CONTROL))
APPLIED = Resolution(Verb.APPLIED, "it is in the outbox", blobs.Blob.of_json("mail-7"))
REJECTED = Resolution(Verb.REJECTED, "not in the outbox")
RETRY = Resolution(Verb.RETRY, "two do no harm")
WORDS = pytest.mark.parametrize("word", [APPLIED, REJECTED, RETRY], ids=lambda word: word.verb)


def ambiguous(run: "WrittenRun", *, cancelled: bool = False) -> "EffectId":
    """Lose sight of the manual effect of `send`."""
    run.begin()
    run.work(run.started("fetch"))
    start = run.act("send")
    if cancelled:
        run.cancel(permit=Permit(CONTROL.actor, run.claim))
        run.end_child()
    else:
        run.park()
    return run.effect_of(start)


def say(run: "WrittenRun", effect: str, word: Resolution, permit: Permit = CONTROL) -> Resolved:
    return run.store.do(resolve_effect, permit, effect, word)


def last_event(run: "WrittenRun", effect: "EffectId") -> tuple[object, ...]:
    ((event, actor, payload),) = run.store.rows(
        "SELECT v.event_type, v.actor_type, b.content FROM events AS v"
        " JOIN effects AS e USING (resource_id) JOIN blobs AS b ON b.blob_hash = v.payload_hash"
        " WHERE e.effect_id = :id ORDER BY v.resource_revision DESC LIMIT 1",
        id=effect,
    )
    return event, actor, bytes(payload)


def next_try(run: "WrittenRun") -> "tuple[StartAttempt, str, int, JsonValue, str | None]":
    """Let the next runner come back to the node: its try and what it is granted."""
    run.begin()
    start = run.started("send")
    _, granted = run.advance(start, run.reserved(start)).grants
    assert granted is not None
    return start, granted.status, granted.attempt_number, granted.result, granted.error


@WORDS
def test_word_is_one_event_with_actor_and_reason_and_makes_the_run_due(
    run: "WrittenRun", word: Resolution
) -> None:
    """No attempt is touched: it says what was seen when it ended."""
    effect = ambiguous(run)
    before = run.store.rows("SELECT * FROM effect_attempts")
    events = run.store.value("SELECT count(*) FROM events")
    run.store.now += 5
    found = say(run, effect, word)
    status = "pending" if word is RETRY else word.verb
    assert (found.status, found.goes_on, found.adopted) == (status, True, False)
    assert (found.run_id, found.run_revision) == (run.run_id, run.revision)
    assert run.status == ("waiting", "queued")
    assert run.store.rows("SELECT * FROM effect_attempts") == before
    event, actor, payload = last_event(run, effect)
    event_type = "retry_ready" if word is RETRY else word.verb
    assert (event, actor) == (f"effect.{event_type}", "control")
    assert word.reason.encode() in bytes(str(payload), "utf-8")
    assert run.events()[-1] == "run.resume_requested"
    assert run.store.value("SELECT count(*) FROM events") == int(str(events)) + 2
    reason = run.store.value(
        "SELECT content FROM effects JOIN blobs ON blob_hash = error_hash WHERE effect_id = :id",
        id=effect,
    )
    assert reason == word.reason.encode()
    (due,) = run.store.do(run_queue.claimable, 10)
    assert (due.run_id, due.due_at) == (run.run_id, 0)
    assert run.store.do(verification.violations) == []


def test_applied_effect_is_adopted_with_the_output_that_was_given(run: "WrittenRun") -> None:
    """The next try is of the same visit; the one that waited is cancelled."""
    say(run, ambiguous(run), APPLIED)
    start, status, number, result, _ = next_try(run)
    assert (status, number, result) == ("applied", 0, "mail-7")
    run.advance(run.finished(start, "mail-7"))
    run.work(run.started("note"))
    run.advance(run.completed())
    assert run.status == ("completed", "done")
    tries = run.store.rows(
        "SELECT visit, attempt_number, status FROM node_attempts WHERE node_id = 'send'"
    )
    assert tries == [(1, 1, "cancelled"), (1, 2, "completed")]
    assert run.store.do(verification.violations) == []


def test_rejected_effect_fails_its_node_which_routes(run: "WrittenRun") -> None:
    say(run, ambiguous(run), REJECTED)
    start, status, number, _, error = next_try(run)
    assert (status, number, error) == ("rejected", 0, "not in the outbox")
    run.advance(run.finished(start, outcome=StepOutcome.FAILED), run.started("fetch", visit=2))
    assert run.store.do(verification.violations) == []


def test_retried_effect_is_tried_under_the_next_number_with_the_same_key(
    run: "WrittenRun",
) -> None:
    """Case: A52."""
    effect = ambiguous(run)
    say(run, effect, RETRY)
    start, status, number, _, _ = next_try(run)
    assert (status, number) == ("applying", 2)
    assert run.effect_of(start) == effect
    run.advance(run.settled(start, EffectAttemptOutcome.APPLIED, number=2))
    numbers = run.store.rows(
        "SELECT attempt_number, outcome FROM effect_attempts WHERE effect_id = :id", id=effect
    )
    assert numbers == [(1, "interrupted"), (2, "applied")]


def test_effect_that_is_lost_again_after_a_retry_can_be_resolved_again(run: "WrittenRun") -> None:
    """The same word for the same reason is a new one then."""
    effect = ambiguous(run)
    for count in (2, 3):
        assert not say(run, effect, RETRY).adopted
        _, _, number, _, _ = next_try(run)
        assert number == count
        run.park()
    assert not say(run, effect, REJECTED).adopted


@WORDS
def test_of_two_words_the_first_wins_an_equal_one_adopts_and_others_conflict(
    run: "WrittenRun", word: Resolution
) -> None:
    """Another verb, another output and another reason are other words."""
    effect = ambiguous(run)
    first = say(run, effect, word)
    before = run.store.dump()
    again = say(run, effect, word)
    assert again.adopted
    assert (again.status, again.goes_on) == (first.status, True)
    others = [APPLIED, REJECTED, RETRY, Resolution(word.verb, "because", word.output)]
    if word is APPLIED:
        others.append(Resolution(Verb.APPLIED, word.reason, blobs.Blob.of_json("mail-8")))
    for other in others:
        if other is not word:
            with pytest.raises(EffectSettledError) as refused:
                say(run, effect, other)
            assert refused.value.fields() == {"status": first.status, "verb": word.verb}
            other_reason = other.verb is word.verb and other.reason != word.reason
            assert ("another reason" in str(refused.value)) is other_reason
            other_output = other.verb is word.verb and other.output != word.output
            assert ("another output" in str(refused.value)) is other_output
    assert run.store.dump() == before


def test_word_on_an_effect_of_an_ended_run_settles_it_and_moves_nothing_else(
    run: "WrittenRun",
) -> None:
    effect = ambiguous(run, cancelled=True)
    revision = run.revision
    with pytest.raises(RetryRefusedError):
        say(run, effect, RETRY)
    found = say(run, effect, REJECTED)
    assert (found.status, found.run_status, found.goes_on) == ("rejected", "cancelled", False)
    assert (run.status, run.revision) == (("cancelled", "cancelled"), revision)
    assert run.store.do(verification.violations) == []


def test_viewers_of_an_ended_run_are_told_of_the_word(run: "WrittenRun") -> None:
    effect = ambiguous(run, cancelled=True)
    shown = run.store.value("SELECT presentation_revision FROM viewer_runs")
    say(run, effect, REJECTED)
    assert run.store.value("SELECT presentation_revision FROM viewer_runs") == int(str(shown)) + 1


def test_run_with_another_effect_in_doubt_keeps_waiting(run: "WrittenRun") -> None:
    effect = ambiguous(run)
    other = "effect-other"
    run.store.alter(
        "INSERT INTO resources VALUES ('resource-other', 'effect', 'effect-other', 0, 1, 1)",
        "INSERT INTO leases (resource_id, generation) VALUES ('resource-other', 0)",
        "INSERT INTO effects (effect_id, resource_id, source_resource_id, source_revision,"
        " effect_type, idempotency_key, payload_hash, owner_scope, status, attempt_count,"
        " created_at, updated_at) SELECT 'effect-other', 'resource-other', source_resource_id, 1,"
        " 'other', 'other', payload_hash, 'run', 'ambiguous', 0, 1, 1 FROM effects"
        " WHERE effect_type = 'mail.send'",
    )
    found = say(run, effect, REJECTED)
    assert (found.goes_on, run.status) == (False, ("waiting", "parked"))
    assert say(run, other, REJECTED).goes_on
    assert run.status == ("waiting", "queued")


def test_effect_in_hand_or_settled_by_its_run_is_no_operators_matter(run: "WrittenRun") -> None:
    run.begin()
    run.work(run.started("fetch"))
    start = run.act("send")
    effect = run.effect_of(start)
    owner = Permit(CONTROL.actor, run.claim)
    with pytest.raises(EffectNotAmbiguousError):
        say(run, effect, REJECTED, owner)
    run.advance(run.settled(start, EffectAttemptOutcome.APPLIED))
    with pytest.raises(EffectSettledError) as refused:
        say(run, effect, APPLIED, owner)
    assert refused.value.fields() == {"status": "applied"}


def test_word_of_the_wrong_actor_or_about_nothing_is_refused(run: "WrittenRun") -> None:
    effect = ambiguous(run)
    before = run.store.dump()
    refusals: list[tuple[type[StoreError], str, Permit]] = [
        (AuthorityError, effect, run.permit),
        (EffectUnknownError, "effect-of-nobody", CONTROL),
        (StaleResourceError, effect, Permit(CONTROL.actor, None, run.revision - 1)),
    ]
    for error, named, permit in refusals:
        with pytest.raises(error):
            say(run, named, REJECTED, permit)
    assert run.store.dump() == before


def test_effect_of_the_store_itself_is_settled(run: "WrittenRun") -> None:
    ambiguous(run)
    (park,) = run.column(
        "SELECT effect_id FROM effects WHERE source_resource_id = :id"
        " AND effect_type = 'run.park_queue'"
    )
    with pytest.raises(EffectSettledError):
        say(run, park, REJECTED)
    assert run_resource_id(run.run_id)
