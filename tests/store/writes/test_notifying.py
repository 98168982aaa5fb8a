"""Notifications: one durable message per visit, whatever dies in between, and none to nobody."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome
from store.authority import Permit
from store.blobs import Blob
from store.errors import ProposalRefused
from store.proposals import Notice, Notify, StartAttempt
from store.run_creation import create_run
from store.run_notifying import content_of
from tests.store.writes.conftest import CONTROL, GRAPH, WriteStore, WrittenRun

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION: Final = "session-1"
TELLING: Final[JsonObject] = {
    **GRAPH,
    "startAt": "tell",
    "nodes": [
        {"id": "tell", "type": "notify", "kind": "final"},
        {"id": "again", "type": "compute"},
    ],
    "edges": [{"from": "tell", "to": "again"}, {"from": "again", "to": "tell"}],
}


@pytest.fixture
def begin(store: WriteStore) -> "Callable[..., WrittenRun]":
    """Start a run that tells the conversation of this id; None starts one without."""

    def start(session_id: str | None = SESSION, run_id: str = "run-1") -> WrittenRun:
        new = store.new_run(run_id, origin_session_id=session_id)
        store.do(create_run, CONTROL, replace(new, snapshot=Blob.of_json(TELLING)))
        return WrittenRun(store, run_id, DefinitionSnapshot.parse(TELLING)).begin()

    return start


def said(start: StartAttempt, text: str = "Done", kind: str = "final") -> Notify:
    return Notify(start.attempt_id, start.node_id, kind, content_of(kind, text))


def told(run: WrittenRun, start: StartAttempt, text: str = "Done") -> Notice:
    """Announce the try, have its message written, and return the answer."""
    run.advance(start)
    notice = run.advance(said(start, text)).notices[0]
    assert notice is not None
    return notice


def control(run: WrittenRun) -> Permit:
    return Permit(CONTROL.actor, run.permit.claim)


def output(notice: Notice) -> JsonValue:
    return {"notificationId": notice.message_id, "targetSessionId": notice.session_id}


def messages(run: WrittenRun) -> list[tuple[Any, ...]]:
    return run.store.rows(
        "SELECT workflow_message_id, target_session_id, kind, source_id, order_number, status"
        " FROM workflow_messages ORDER BY order_number"
    )


def contents(run: WrittenRun) -> list[JsonObject]:
    rows = run.store.rows(
        "SELECT b.content FROM workflow_messages AS m"
        " JOIN blobs AS b ON b.blob_hash = m.content_hash ORDER BY m.order_number"
    )
    return [json.loads(content) for (content,) in rows]


def test_notification_is_a_pending_message_with_a_resource_of_its_own(
    begin: "Callable[..., WrittenRun]",
) -> None:
    run = begin()
    start = run.started("tell")
    run.advance(start)
    before = run.revision
    advanced = run.advance(said(start))
    notice = advanced.notices[0]
    assert notice is not None
    assert messages(run) == [(notice.message_id, SESSION, "notification", "tell#1", 1, "pending")]
    assert contents(run) == [
        {"schema": "pi-workflows.notification.v1", "kind": "final", "text": "Done"}
    ]
    assert run.revision == advanced.revision == before
    created = run.store.rows(
        "SELECT e.event_type, e.resource_revision, e.actor_type FROM events AS e"
        " JOIN resources AS r ON r.resource_id = e.resource_id"
        " WHERE r.resource_type = 'workflow_message'"
    )
    assert created == [("message.created", 1, "host")]


def test_repeated_try_of_a_visit_adopts_the_message_whatever_it_says_by_then(
    begin: "Callable[..., WrittenRun]",
) -> None:
    """The runner died between the message and the step.

    Case: B37.
    """
    run = begin()
    first = told(run, run.started("tell"), "At noon")
    run.store.recover()
    run.begin()
    start = run.started("tell")
    second = told(run, start, "At one")
    assert second == first
    run.advance(run.finished(start, output(second)))
    assert [text["text"] for text in contents(run)] == ["At noon"]


def test_later_visit_sends_a_message_of_its_own_behind_the_first(
    begin: "Callable[..., WrittenRun]",
) -> None:
    """Case: B37."""
    run = begin()
    start = run.started("tell")
    first = told(run, start)
    between = run.started("again")
    run.advance(run.finished(start, output(first)), between, run.finished(between))
    second = told(run, run.started("tell", visit=2))
    assert first.message_id != second.message_id
    orders = [(source, order) for _, _, _, source, order, _ in messages(run)]
    assert orders == [("tell#1", 1), ("tell#2", 2)]


def test_messages_of_two_runs_stand_in_one_order_of_their_conversation(
    begin: "Callable[..., WrittenRun]",
) -> None:
    one = begin()
    told(one, one.started("tell"))
    one.cancel(permit=control(one))
    two = begin(run_id="run-2")
    told(two, two.started("tell"))
    elsewhere = begin("session-2", run_id="run-3")
    told(elsewhere, elsewhere.started("tell"))
    orders = one.store.rows(
        "SELECT run_id, target_session_id, order_number FROM workflow_messages ORDER BY run_id"
    )
    assert orders == [("run-1", SESSION, 1), ("run-2", SESSION, 2), ("run-3", "session-2", 1)]


def test_run_without_a_conversation_writes_nothing_and_its_node_cannot_end_well(
    begin: "Callable[..., WrittenRun]",
) -> None:
    """Case: B38."""
    run = begin(None)
    start = run.started("tell")
    notice = told(run, start)
    assert notice == Notice(None, None)
    assert messages(run) == []
    with pytest.raises(ProposalRefused, match="was not written"):
        run.advance(run.finished(start, output(notice)))
    run.advance(run.finished(start, outcome=StepOutcome.FAILED, error="NOTIFY_NEEDS_SESSION: x"))


def test_notification_ends_well_only_with_the_message_that_was_written(
    begin: "Callable[..., WrittenRun]",
) -> None:
    run = begin()
    start = run.started("tell")
    run.advance(start)
    with pytest.raises(ProposalRefused, match="was not written"):
        run.advance(run.finished(start, output(Notice("message-x", SESSION))))
    notice = run.advance(said(start)).notices[0]
    assert notice is not None
    with pytest.raises(ProposalRefused, match="names another notification"):
        run.advance(run.finished(start, output(Notice("message-x", SESSION))))
    run.advance(run.finished(start, output(notice)))


def test_only_a_node_that_declares_it_notifies(begin: "Callable[..., WrittenRun]") -> None:
    run = begin()
    start = run.started("tell")
    run.advance(start)
    with pytest.raises(ProposalRefused, match="declares no such notification"):
        run.advance(said(start, kind="progress"))
    notice = run.advance(said(start)).notices[0]
    assert notice is not None
    between = run.started("again")
    run.advance(run.finished(start, output(notice)), between)
    with pytest.raises(ProposalRefused, match="declares no such notification"):
        run.advance(said(between))
    with pytest.raises(ProposalRefused, match="not under way"):
        run.advance(said(start))
    assert len(messages(run)) == 1


def test_message_asked_for_again_gets_the_stored_answer(
    begin: "Callable[..., WrittenRun]",
) -> None:
    run = begin()
    start = run.started("tell")
    run.advance(start)
    message = run.message(said(start), message_id="twice")
    first, again = run.answer(message), run.answer(message)
    assert (first.outcome, again.outcome) == (
        WorkerMessageOutcome.ACCEPTED,
        WorkerMessageOutcome.ADOPTED,
    )
    assert first.result == again.result
    (told_once,) = cast("list[JsonObject]", first.result["transitions"])
    assert told_once["sessionId"] == SESSION


@pytest.mark.parametrize("finished", [False, True])
def test_notification_outlives_the_end_of_its_run(
    begin: "Callable[..., WrittenRun]",
    finished: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    run = begin()
    start = run.started("tell")
    notice = told(run, start)
    if finished:
        run.advance(run.finished(start, output(notice)))
    run.cancel(permit=control(run))
    assert run.status[0] == "cancelled"
    assert [status for *_, status in messages(run)] == ["pending"]
