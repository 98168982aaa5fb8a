"""Resuming: one more try for a run that stands still, and nothing for one that does not."""

import dataclasses
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.states import ActorType, EffectAttemptOutcome, ParkReason, RunStatus
from store import projection, run_queue, run_resuming, run_views
from store.authority import Permit
from store.errors import AuthorityError, RunUnknownError, StaleResourceError
from store.resources import Actor
from store.run_parking import Departure, park_run
from store.run_resuming import EffectAmbiguousError, ResumeReply, ResumeVerdict, RunEndedError

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore, WrittenRun

CONTROL: Final = Permit(Actor(ActorType.CONTROL))
NOT_CONTROL: Final = [actor for actor in ActorType if actor is not ActorType.CONTROL]
SECOND_MS: Final = 1_000


def resume(run: "WrittenRun", permit: Permit = CONTROL) -> ResumeReply:
    return run.store.do(run_resuming.resume_run, permit, run.run_id)


def queue_of(run: "WrittenRun") -> run_queue.QueueRow:
    return run.store.do(run_queue.require, run.run_id)


def die(run: "WrittenRun", times: int = 1) -> None:
    """Let so many runners die without progress, each when the run is due."""
    for _ in range(times):
        run.store.now += 60 * SECOND_MS
        run.begin()
        run.park(Departure.DIED_WITHOUT_PROGRESS)


@pytest.mark.parametrize(
    "departure",
    [
        Departure.DIED_AFTER_PROGRESS,
        Departure.DIED_WITHOUT_PROGRESS,
        Departure.HANDED_OFF,
        Departure.HELD_UP,
        Departure.ABANDONED_CODE,
        Departure.SOURCE_CHANGED,
    ],
)
def test_parked_run_is_queued_again_due_at_once_and_without_its_error(
    run: "WrittenRun", departure: Departure
) -> None:
    run.begin()
    run.park(departure)
    revision, parked = run.revision, queue_of(run)
    run.store.now += 10
    reply = resume(run)
    assert reply == ResumeReply(ResumeVerdict.RESUMABLE, reply.status, revision + 1, adopted=False)
    assert run.status == ("running", "queued")
    queued = queue_of(run)
    assert (queued.error_code, queued.available_at) == (None, run.store.now)
    assert queued.consecutive_errors == parked.consecutive_errors
    assert run.events()[-1] == "run.resume_requested"
    assert run.take().generation == 2


def test_resume_of_a_queued_run_adopts_and_writes_nothing(run: "WrittenRun") -> None:
    before = run.store.dump()
    assert resume(run) == ResumeReply(
        ResumeVerdict.RESUMABLE, RunStatus.QUEUED, run.revision, adopted=True
    )
    assert run.store.dump() == before


@pytest.mark.parametrize("ready", [False, True])
def test_resume_of_a_run_in_hand_adopts_and_writes_nothing(
    run: "WrittenRun", *, ready: bool
) -> None:
    if ready:
        run.begin()
    else:
        run.take()
    before = run.store.dump()
    reply = resume(run)
    assert (reply.verdict, reply.adopted) == (ResumeVerdict.ALREADY_RUNNING, True)
    assert run.store.dump() == before


def test_of_two_resumes_one_moves_the_run_and_the_other_adopts(run: "WrittenRun") -> None:
    die(run)
    first, second = resume(run), resume(run)
    assert (first.adopted, second.adopted) == (False, True)
    assert first.verdict == second.verdict == ResumeVerdict.RESUMABLE
    assert first.revision == second.revision == run.revision
    assert run.events().count("run.resume_requested") == 1


def test_resume_after_a_cancel_is_refused_and_names_the_end(run: "WrittenRun") -> None:
    die(run)
    run.cancel()
    before = run.store.dump()
    with pytest.raises(RunEndedError, match="it is cancelled") as refused:
        resume(run)
    assert refused.value.fields() == {"status": "cancelled", "revision": run.revision}
    assert run.store.dump() == before


def test_cancel_after_a_resume_wins(run: "WrittenRun") -> None:
    die(run)
    resume(run)
    run.cancel()
    assert run.status == ("cancelled", "cancelled")


def test_resume_of_a_completed_run_is_refused(run: "WrittenRun") -> None:
    run.walk()
    run.advance(run.completed())
    with pytest.raises(RunEndedError, match="it is completed"):
        resume(run)


def test_ambiguous_effect_has_to_be_settled_before_a_resume(run: "WrittenRun") -> None:
    """The refusal names the effect, its node, and the command that settles it."""
    run.begin()
    run.work(run.started("fetch"))
    start = run.act("send")
    run.advance(run.settled(start, EffectAttemptOutcome.AMBIGUOUS))
    before = run.store.dump()
    with pytest.raises(EffectAmbiguousError) as refused:
        resume(run)
    effect = run.effect_of(start)
    assert f"pi-workflows effects resolve {effect}" in str(refused.value)
    assert refused.value.fields() == {
        "effectId": effect,
        "effectType": "mail.send",
        "nodeId": "send",
    }
    assert run.store.dump() == before


def test_explicit_resume_is_one_more_try(run: "WrittenRun") -> None:
    """Parked after the third death; after the resume one more death parks it again at once."""
    die(run, 3)
    assert queue_of(run).error_code == ParkReason.NO_PROGRESS
    resume(run)
    run.begin()
    run.park(Departure.DIED_WITHOUT_PROGRESS)
    assert queue_of(run).error_code == ParkReason.NO_PROGRESS
    assert run.events().count("run.worker_no_progress") == 2


def test_progress_after_a_resume_gives_all_tries_back(run: "WrittenRun") -> None:
    die(run, 3)
    resume(run)
    run.begin()
    run.work(run.started("fetch"))
    run.park(Departure.DIED_AFTER_PROGRESS)
    die(run, 2)
    assert queue_of(run).error_code == ParkReason.CRASHED
    die(run)
    assert queue_of(run).error_code == ParkReason.NO_PROGRESS


def test_paused_run_goes_on(run: "WrittenRun") -> None:
    run.begin()
    run.park()
    run.store.alter("UPDATE runs SET paused = 1")
    reply = resume(run)
    assert (reply.verdict, reply.adopted) == (ResumeVerdict.RESUMABLE, False)
    assert run.store.value("SELECT paused FROM runs") == 0
    assert run.status == ("running", "queued")


@pytest.mark.parametrize("paused", [0, 1])
def test_run_that_waits_for_an_answer_keeps_waiting(run: "WrittenRun", paused: int) -> None:
    run.begin()
    start = run.started("fetch")
    run.advance(start)
    run.park()
    run.store.rows(
        "INSERT INTO interactive_requests (request_id, run_id, attempt_id, target_session_id,"
        " kind, contract_hash, revision, status, created_at, updated_at)"
        " SELECT 'r', run_id, :attempt_id, 's', 'checkpoint', input_hash, 1, 'pending', 1, 1"
        " FROM runs",
        attempt_id=start.attempt_id,
    )
    run.store.rows("UPDATE runs SET status = 'waiting', paused = :paused", paused=paused)
    reply = resume(run)
    assert reply.verdict is ResumeVerdict.WAITING_FOR_INTERACTION
    assert reply.adopted is not bool(paused)
    assert run.status == ("waiting", "parked")
    assert run.store.value("SELECT paused FROM runs") == 0


def test_resume_at_another_revision_is_refused(run: "WrittenRun") -> None:
    die(run)
    before = run.store.dump()
    with pytest.raises(StaleResourceError):
        resume(run, dataclasses.replace(CONTROL, expected_revision=run.revision - 1))
    assert run.store.dump() == before


@pytest.mark.parametrize("actor", NOT_CONTROL)
def test_only_control_resumes_a_run(run: "WrittenRun", actor: ActorType) -> None:
    die(run)
    before = run.store.dump()
    with pytest.raises(AuthorityError):
        resume(run, Permit(Actor(actor)))
    assert run.store.dump() == before


def test_unknown_run_is_refused_with_its_nearest_names(store: "WriteStore") -> None:
    store.create("run-12")
    with pytest.raises(RunUnknownError) as refused:
        store.do(run_resuming.resume_run, CONTROL, "run-13")
    assert refused.value.fields() == {"nearest": ["run-12"]}


def test_handoff_after_progress_gives_all_tries_back(run: "WrittenRun") -> None:
    """Two deaths, a step, then the server dies: the next deaths are counted from the start."""
    die(run, 2)
    run.store.now += 60 * SECOND_MS
    run.begin()
    run.store.now += 1
    run.work(run.started("fetch"))
    run.store.now += 60 * SECOND_MS
    run.store.recover()
    assert queue_of(run).consecutive_errors == 0


def test_handoff_without_progress_takes_and_gives_no_try(run: "WrittenRun") -> None:
    run.begin()
    run.store.now += 1
    run.work(run.started("fetch"))
    run.park(Departure.DIED_AFTER_PROGRESS)
    die(run, 2)
    run.store.now += 60 * SECOND_MS
    run.begin()
    run.park(Departure.HANDED_OFF)
    assert queue_of(run).consecutive_errors == 2


def test_last_words_of_a_runner_stand_until_the_run_goes_on(run: "WrittenRun") -> None:
    run.begin()
    run.end_child()
    words = "flow.workflow.py has changed"
    run.store.do(park_run, run.permit, run.run_id, Departure.SOURCE_CHANGED, words)
    assert run.store.do(run_queue.last_words, run.run_id) == words
    shown = run.store.do(run_views.run_view, run.run_id)["display"]
    assert isinstance(shown, dict)
    assert shown["reason"] == words
    resume(run)
    assert run.store.do(run_queue.last_words, run.run_id) is None


def test_what_a_dying_runner_said_stands_behind_the_reason(run: "WrittenRun") -> None:
    die(run, 2)
    run.store.now += 60 * SECOND_MS
    run.begin()
    run.end_child()
    words = "[SOURCE_FAILED] no module named {tally}"
    run.store.do(park_run, run.permit, run.run_id, Departure.DIED_WITHOUT_PROGRESS, words)
    shown = run.store.do(projection.run_state, run.run_id)["display"]
    assert isinstance(shown, dict)
    assert str(shown["reason"]).endswith(f"; it said: {words}")


def test_pause_after_a_death_doubles_from_a_second_up_to_a_minute() -> None:
    delays = [run_queue.retry_delay_ms(errors) // SECOND_MS for errors in range(10)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_effect_that_waits_for_its_next_try_is_due_after_a_resume(run: "WrittenRun") -> None:
    """Else the next runner would be told to wait, and the run would be parked again."""
    run.begin()
    run.work(run.started("fetch"))
    run.work(run.started("send"))
    run.act("note")
    run.park(Departure.DIED_AFTER_PROGRESS)
    waiting = "SELECT next_attempt_at FROM effects WHERE status = 'pending'"
    assert run.store.value(waiting) == run.store.now + SECOND_MS
    resume(run)
    assert run.store.rows(waiting) == [(None,)]
    told = "SELECT count(*) FROM events WHERE event_type = 'effect.retry_ready'"
    assert run.store.value(told) == 2
    run.begin()
    start = run.started("note")
    run.advance(start)
    granted = run.advance(run.reserved(start)).grants[0]
    assert granted is not None
    assert (granted.status, granted.attempt_number) == ("applying", 2)
