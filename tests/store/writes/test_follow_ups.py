"""Follow-ups as facts: their order, whose they are, and what becomes of them."""

import dataclasses
from typing import TYPE_CHECKING, Final, cast

import pytest

from pi_workflows.protocol.states import (
    ActorType,
    FollowUpStatus,
    MessageKind,
    RunStatus,
    StepOutcome,
)
from store import follow_up_views, verification, workflow_messages
from store.authority import Permit
from store.blobs import Blob
from store.errors import AuthorityError, IdempotencyConflictError, Rejected
from store.follow_up_errors import (
    FollowUpInvalidError,
    FollowUpNotYoursError,
    FollowUpOverError,
    FollowUpTooEarlyError,
    FollowUpUnknownError,
)
from store.follow_ups import FollowUpReply, NewFollowUp, queue_follow_up, remove_follow_up
from store.proposals import FinishRun
from store.resources import Actor
from store.run_cancelling import cancel_run
from store.run_creation import create_run
from store.run_pausing import pause_run
from store.run_resuming import RunEndedError
from store.transaction import Reading
from tests.store.writes.conftest import CONTROL, WrittenRun

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.store.writes.conftest import WriteStore

HUMAN: Final = Permit(Actor(ActorType.HUMAN))
SESSION: Final = Permit(Actor(ActorType.SESSION, "session-1"))
OTHER_SESSION: Final = Permit(Actor(ActorType.SESSION, "session-2"))
FOLLOW_UPS: Final = "SELECT order_number, status FROM workflow_follow_ups ORDER BY order_number"
MESSAGES: Final = "SELECT kind, status, order_number FROM workflow_messages ORDER BY order_number"


@pytest.fixture
def talking(store: "WriteStore") -> WrittenRun:
    """A run of a conversation, at its first node."""
    store.do(create_run, CONTROL, store.new_run("run-1", origin_session_id="session-1"))
    return WrittenRun(store, "run-1").begin()


def add(
    run: WrittenRun,
    request_id: str,
    prompt: str = "Write the note.",
    *,
    permit: Permit = HUMAN,
    source: str = "cli",
) -> FollowUpReply:
    new = NewFollowUp(run.run_id, request_id, source, Blob.of_text(prompt))
    return run.store.do(queue_follow_up, permit, new)


def remove(
    run: WrittenRun,
    identity: str,
    *,
    permit: Permit = HUMAN,
    source: str = "cli",
    reason: str | None = None,
) -> FollowUpReply:
    return run.store.do(
        remove_follow_up, permit, run.run_id, identity, source=source, reason=reason
    )


def refused(
    run: WrittenRun, kind: type[Rejected], request_id: str, prompt: str = "Write the note."
) -> str:
    """Queue what is refused; nothing may have changed. Returns the text of the refusal."""
    before = run.store.dump()
    with pytest.raises(kind) as caught:
        add(run, request_id, prompt)
    assert run.store.dump() == before
    return str(caught.value)


def page(run: WrittenRun, **asked: int) -> "JsonObject":
    return follow_up_views.page(Reading(run.store.writer.connection, 0), run.run_id, **asked)


def states(run: WrittenRun) -> list[tuple[object, object]]:
    items = cast("list[JsonObject]", page(run)["items"])
    return [(item["requestId"], item["state"]) for item in items]


def complete(run: WrittenRun) -> None:
    for node_id in ("fetch", "send", "note"):
        run.work(run.started(node_id))
    run.advance(FinishRun(RunStatus.COMPLETED, None, None))


def test_follow_ups_keep_the_order_in_which_they_were_accepted(talking: WrittenRun) -> None:
    """Each is one event of its own, and its message is written with it; the run does not move.

    Case: B78.
    """
    revision = talking.revision
    replies = [add(talking, name, f"do {name}") for name in ("b", "a", "c")]
    assert [(reply.order, reply.revision) for reply in replies] == [(1, 1), (2, 1), (3, 1)]
    assert talking.revision == revision
    assert talking.store.rows(MESSAGES) == [("followUp", "pending", n) for n in (1, 2, 3)]
    events = talking.store.rows(
        "SELECT event_type, actor_type FROM events AS e JOIN resources AS o USING (resource_id)"
        " WHERE o.resource_type IN ('follow_up', 'workflow_message') ORDER BY event_seq"
    )
    assert sorted(events) == [
        *[("follow-up.queued", "human")] * 3,
        *[("message.created", "human")] * 3,
    ]
    complete(talking)
    items = cast("list[JsonObject]", page(talking)["items"])
    assert [(item["order"], item["prompt"]) for item in items] == [
        (1, "do b"),
        (2, "do a"),
        (3, "do c"),
    ]
    assert talking.store.rows(MESSAGES)[0] == ("followUp", "pending", 1), "none is sent yet"


def test_same_request_adopts_and_another_content_conflicts(talking: WrittenRun) -> None:
    first = add(talking, "one")
    before = talking.store.dump()
    again = add(talking, "one")
    assert (again.follow_up_id, again.order, again.adopted) == (first.follow_up_id, 1, True)
    for changed in (
        {"prompt": "Another."},
        {"source": "elsewhere"},
        {"permit": SESSION},
    ):
        with pytest.raises(IdempotencyConflictError):
            add(talking, "one", **changed)
    assert talking.store.dump() == before
    complete(talking)
    assert add(talking, "one").adopted, "also when the run takes no more"


def test_run_that_is_queued_or_has_ended_takes_no_follow_up(store: "WriteStore") -> None:
    run = store.create()
    assert "not started" in refused(run, FollowUpTooEarlyError, "one")
    run.begin()
    add(run, "one")
    store.do(pause_run, dataclasses.replace(CONTROL, claim=run.held), run.run_id)
    add(run, "two")
    store.do(cancel_run, CONTROL, run.run_id, None)
    assert "has ended" in refused(run, RunEndedError, "three")
    assert store.rows(FOLLOW_UPS) == [(1, "cancelled"), (2, "cancelled")]


@pytest.mark.parametrize(
    ("request_id", "prompt", "told"),
    [
        ("one", "x" * 65_537, "65537 bytes"),
        ("one", "é" * 32_769, "65538 bytes"),
        ("one", " \n\t", "blank"),
        ("-one", "do it", "request id"),
        ("o" * 513, "do it", "request id"),
        ("one two", "do it", "request id"),
    ],
)
def test_follow_up_beyond_a_bound_is_refused_and_leaves_no_row(
    talking: WrittenRun, request_id: str, prompt: str, told: str
) -> None:
    """Case: B80."""
    assert told in refused(talking, FollowUpInvalidError, request_id, prompt)


def test_follow_up_of_exactly_the_bound_is_accepted(talking: WrittenRun) -> None:
    assert add(talking, "o" * 512, "x" * 65_536).order == 1


def test_source_beyond_its_bound_is_refused(talking: WrittenRun) -> None:
    for source in ("", "s" * 129):
        with pytest.raises(FollowUpInvalidError):
            add(talking, "one", source=source)


@pytest.mark.parametrize("actor", [ActorType.HOST, ActorType.CONTROL, ActorType.SYSTEM])
def test_others_than_people_sessions_and_controllers_queue_and_remove_nothing(
    talking: WrittenRun, actor: ActorType
) -> None:
    identity = add(talking, "one").follow_up_id
    with pytest.raises(AuthorityError):
        add(talking, "two", permit=Permit(Actor(actor)))
    with pytest.raises(AuthorityError):
        remove(talking, identity, permit=Permit(Actor(actor)))


def test_session_removes_its_own_only_and_a_human_any_that_was_not_sent(
    talking: WrittenRun,
) -> None:
    """Case: B79."""
    humans = add(talking, "human").follow_up_id
    sessions = add(talking, "session", permit=SESSION, source="tool").follow_up_id
    another = add(talking, "another", permit=SESSION, source="tool").follow_up_id
    for identity, permit, source in (
        (humans, SESSION, "cli"),
        (sessions, OTHER_SESSION, "tool"),
        (sessions, SESSION, "elsewhere"),
    ):
        with pytest.raises(FollowUpNotYoursError):
            remove(talking, identity, permit=permit, source=source)
    assert remove(talking, sessions, permit=SESSION, source="tool").revision == 2
    assert remove(talking, another, source="other").status is FollowUpStatus.REMOVED
    assert states(talking) == [("human", "queued"), ("session", "removed"), ("another", "removed")]
    assert [status for _, status, _ in talking.store.rows(MESSAGES)] == [
        "pending",
        "cancelled",
        "cancelled",
    ]


def test_follow_up_that_is_removed_twice_is_the_same_record(talking: WrittenRun) -> None:
    identity = add(talking, "one").follow_up_id
    remove(talking, identity, reason="no longer needed")
    before = talking.store.dump()
    assert remove(talking, identity, reason="another").adopted
    assert talking.store.dump() == before
    (item,) = cast("list[JsonObject]", page(talking)["items"])
    assert (item["state"], item["reason"]) == ("removed", "no longer needed")


def test_follow_up_that_was_sent_or_cancelled_cannot_be_removed(talking: WrittenRun) -> None:
    sent, cut = (add(talking, name).follow_up_id for name in ("sent", "cut"))
    talking.store.alter(
        "UPDATE workflow_messages SET status = 'sent', pi_session_entry_id = 'entry-1'"
        " WHERE order_number = 1"
    )
    with pytest.raises(FollowUpOverError, match="it was sent"):
        remove(talking, sent)
    talking.store.do(cancel_run, dataclasses.replace(CONTROL, claim=talking.held), "run-1", None)
    with pytest.raises(FollowUpOverError, match="cancelled it"):
        remove(talking, cut)


def test_unknown_follow_up_and_one_of_another_run_are_not_found(store: "WriteStore") -> None:
    one, two = (store.create(run_id).begin() for run_id in ("run-1", "run-2"))
    identity = add(one, "one").follow_up_id
    for run, asked in ((two, identity), (one, "follow-up-0")):
        with pytest.raises(FollowUpUnknownError):
            remove(run, asked)


@pytest.mark.parametrize("end", [RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED])
def test_run_that_ends_without_success_cancels_what_was_not_sent(
    talking: WrittenRun, end: RunStatus
) -> None:
    """And nothing that was removed before.

    Case: B80, A83.
    """
    add(talking, "kept")
    remove(talking, add(talking, "removed").follow_up_id)
    outcome = {RunStatus.FAILED: "failed", RunStatus.TIMED_OUT: "timed_out"}.get(end)
    if outcome is None:
        owned = dataclasses.replace(CONTROL, claim=talking.held)
        talking.store.do(cancel_run, owned, talking.run_id, "enough")
    else:
        start = talking.started("fetch")
        error = "it did not work"
        finished = talking.finished(start, outcome=StepOutcome(outcome), error=error)
        talking.advance(start, finished, FinishRun(end, None, Blob.of_text(error)))
    assert talking.status[0] == end
    assert states(talking) == [("kept", "cancelled"), ("removed", "removed")]
    assert [status for _, status, _ in talking.store.rows(MESSAGES)] == ["cancelled"] * 2
    assert page(talking)["presentation"] == "not-needed"
    (item, _) = cast("list[JsonObject]", page(talking)["items"])
    assert item["reason"] == f"its run ended {end}"


def test_follow_ups_survive_the_completion_of_their_run(talking: WrittenRun) -> None:
    """A person may still take one back then.

    Case: A83.
    """
    first, _ = (add(talking, name).follow_up_id for name in ("one", "two"))
    complete(talking)
    assert states(talking) == [
        ("one", "pending_presentation"),
        ("two", "pending_presentation"),
    ]
    remove(talking, first)
    assert states(talking)[0] == ("one", "removed")


@pytest.mark.parametrize(
    ("turn", "presentation", "shown"),
    [
        (None, "pending", "pending_presentation"),
        (("started", None, None), "pending", "pending_presentation"),
        (("ended", "completed", 1), "settled", "ready"),
        (("ended", "aborted", 1), "unavailable", "pending_presentation"),
        (("ended", "lost", 1), "unavailable", "pending_presentation"),
    ],
)
def test_state_of_a_follow_up_follows_the_presentation_of_the_result(
    talking: WrittenRun,
    turn: tuple[str, str | None, int | None] | None,
    presentation: str,
    shown: str,
) -> None:
    add(talking, "one")
    assert (page(talking)["presentation"], states(talking)) == ("none", [("one", "queued")])
    complete(talking)
    told = workflow_messages.NewMessage(
        "run-1", "session-1", MessageKind.TERMINAL, "run-1", Blob.of_text("done")
    )
    talking.store.do(workflow_messages.create, Actor(ActorType.HOST), told)
    talking.store.alter(
        "UPDATE workflow_messages SET status = 'sent', pi_session_entry_id = 'entry-1'"
        " WHERE kind = 'terminal'"
    )
    if turn is not None:
        end, reason, instant = turn
        talking.store.writer.connection.execute(
            "INSERT INTO workflow_turns (workflow_turn_id, workflow_message_id, run_id,"
            " target_session_id, active_elapsed_ms, started_at, state, stop_reason, ended_at)"
            " SELECT 'turn', workflow_message_id, run_id, target_session_id, 0, 1, ?, ?, ?"
            " FROM workflow_messages WHERE kind = 'terminal'",
            (end, reason, instant),
        )
    assert page(talking)["presentation"] == presentation
    assert states(talking) == [("one", shown)]


def test_run_without_a_conversation_keeps_follow_ups_for_whoever_asks(
    store: "WriteStore",
) -> None:
    """Nobody is sent anything, so there is no message; after success they are ready."""
    run = store.create().begin()
    add(run, "one")
    assert store.rows(MESSAGES) == []
    complete(run)
    assert (page(run)["presentation"], states(run)) == ("not-needed", [("one", "ready")])


def test_pages_go_on_where_they_stopped_and_long_prompts_fit_a_frame(
    talking: WrittenRun,
) -> None:
    for number in range(4):
        add(talking, f"n{number}", "x" * 60_000)
    first = page(talking)
    assert [item["order"] for item in cast("list[JsonObject]", first["items"])] == [1, 2]
    rest = page(talking, after=cast("int", first["next"]))
    assert [item["order"] for item in cast("list[JsonObject]", rest["items"])] == [3, 4]
    assert rest["next"] is None
    assert page(talking, limit=1)["next"] == 1


def test_view_of_a_run_holds_the_first_unsent_and_cuts_long_prompts(talking: WrittenRun) -> None:
    reading = Reading(talking.store.writer.connection, 0)
    assert follow_up_views.bounded_queue(reading, "run-1") is None
    removed = add(talking, "removed", "é" * 4_000).follow_up_id
    for number in range(40):
        add(talking, f"n{number}", "é" * 4_000)
    remove(talking, removed)
    queue = follow_up_views.bounded_queue(reading, "run-1")
    assert queue is not None
    assert (queue["total"], queue["unsent"]) == (41, 40)
    items = cast("list[JsonObject]", queue["items"])
    assert [item["order"] for item in items] == list(range(2, 34))
    assert {(item["prompt"], item["promptBytes"]) for item in items} == {("é" * 256, 8_000)}
    whole = follow_up_views.whole_queue(reading, "run-1")
    assert whole is not None
    assert len(cast("list[object]", whole["items"])) == 41


def test_verification_finds_follow_ups_that_outlived_a_failure(talking: WrittenRun) -> None:
    add(talking, "one")
    talking.store.do(cancel_run, dataclasses.replace(CONTROL, claim=talking.held), "run-1", None)
    reading = Reading(talking.store.writer.connection, talking.store.now)
    assert verification.verify(reading)["ok"]
    talking.store.alter(
        "UPDATE workflow_follow_ups SET status = 'queued', reason_hash = NULL",
    )
    assert "queued follow-up" in str(verification.verify(reading)["violations"])
