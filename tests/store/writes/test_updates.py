"""Updates: one current per type and key, all of them kept, and none from the past."""

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pi_workflows.protocol.canonical import JsonObject, canonical_bytes
from pi_workflows.protocol.states import ActorType, WorkerMessageOutcome
from pi_workflows.protocol.updates import PAIRS_MAX
from store import projection, projection_weight, run_views, update_messages, updates
from store.authority import Permit
from store.blobs import Blob
from store.errors import AuthorityError, ClaimLostError
from store.resources import Actor
from store.run_messages import Answered
from store.run_parking import Departure
from store.update_messages import UpdateMessage
from store.updates import NewUpdate, Published, TooManyPairsError, UpdateRefused

if TYPE_CHECKING:
    from store.proposals import StartAttempt
    from store.transaction import Transaction
    from tests.store.writes.conftest import WrittenRun


@pytest.fixture
def start(run: "WrittenRun") -> "StartAttempt":
    """The first node of the run is under way."""
    run.begin()
    start = run.started("fetch")
    run.advance(start)
    return start


def publish(
    run: "WrittenRun",
    start: "StartAttempt",
    key: str = "k",
    data: JsonObject | None = None,
    permit: Permit | None = None,
) -> Published:
    wanted = NewUpdate(start.attempt_id, "probe", key, Blob.of_json(data or {}))
    return run.store.do(updates.publish, permit or run.permit, run.run_id, wanted)


def current(run: "WrittenRun", **bounds: int) -> list[dict[str, Any]]:
    return run.store.do(updates.current, run.run_id, **bounds)


def history(run: "WrittenRun") -> list[tuple[Any, ...]]:
    return run.store.rows(
        "SELECT update_key, update_seq, is_current FROM workflow_updates ORDER BY update_seq"
    )


def test_update_is_stored_with_its_own_event_and_revision(
    run: "WrittenRun", start: "StartAttempt"
) -> None:
    before = run.revision
    published = publish(run, start, data={"n": 1})
    assert published.seq == run.revision == before + 1
    assert published.update_id.startswith("upd_")
    assert run.events()[-1] == "update_published"
    assert current(run) == [
        {
            "updateId": published.update_id,
            "seq": published.seq,
            "at": "2023-11-14T22:13:20.000Z",
            "nodeId": "fetch",
            "attemptId": start.attempt_id,
            "type": "probe",
            "key": "k",
            "data": {"n": 1},
        }
    ]


def test_newer_update_of_a_pair_replaces_it_whole_and_the_history_stays(
    run: "WrittenRun", start: "StartAttempt"
) -> None:
    publish(run, start, "a", {"one": 1})
    publish(run, start, "b", {"two": 2})
    publish(run, start, "a", {"three": 3})
    assert [(shown["key"], shown["data"]) for shown in current(run)] == [
        ("b", {"two": 2}),
        ("a", {"three": 3}),
    ]
    first = history(run)[0][1]
    assert history(run) == [("a", first, 0), ("b", first + 1, 1), ("a", first + 2, 1)]


def test_pair_beyond_the_limit_is_refused_and_a_replacement_is_not(
    run: "WrittenRun", start: "StartAttempt"
) -> None:
    """Case: B63."""

    def fill(tx: "Transaction") -> None:
        for number in range(PAIRS_MAX):
            wanted = NewUpdate(start.attempt_id, "probe", f"k{number}", Blob.of_json({}))
            updates.publish(tx, run.permit, run.run_id, wanted)

    run.store.do(fill)
    before = run.store.dump()
    with pytest.raises(TooManyPairsError, match="1024 pairs"):
        publish(run, start, "one-more")
    assert run.store.dump() == before
    publish(run, start, "k7", {"n": 7})
    assert run.store.do(updates.count, run.run_id) == PAIRS_MAX
    assert current(run)[-1]["key"] == "k7"
    assert len(history(run)) == PAIRS_MAX + 1


def test_update_of_an_ended_attempt_is_refused(run: "WrittenRun", start: "StartAttempt") -> None:
    """Case: B64."""
    run.advance(run.finished(start, {"from": "fetch"}))
    before = run.store.dump()
    with pytest.raises(UpdateRefused, match="the attempt has ended"):
        publish(run, start)
    assert run.store.dump() == before


def test_update_of_an_old_attempt_is_refused_beside_the_new_one(
    run: "WrittenRun", start: "StartAttempt"
) -> None:
    """Case: B64."""
    run.park(Departure.DIED_WITHOUT_PROGRESS)
    run.store.now += 60_000
    run.begin()
    again = run.started("fetch")
    run.advance(again)
    with pytest.raises(UpdateRefused, match="the attempt has ended"):
        publish(run, start)
    publish(run, again)


def test_update_of_a_cancelled_run_and_under_a_lost_claim_is_refused(
    run: "WrittenRun", start: "StartAttempt"
) -> None:
    """Case: B64."""
    old = run.permit
    run.cancel(permit=dataclasses.replace(run.permit, actor=Actor(ActorType.CONTROL)))
    before = run.store.dump()
    with pytest.raises(ClaimLostError):
        publish(run, start, permit=old)
    assert run.store.dump() == before


@pytest.mark.parametrize("actor", [actor for actor in ActorType if actor is not ActorType.HOST])
def test_only_the_host_publishes(
    run: "WrittenRun", start: "StartAttempt", actor: ActorType
) -> None:
    with pytest.raises(AuthorityError):
        publish(run, start, permit=Permit(Actor(actor), run.claim))


def test_update_renews_the_claim_and_is_no_progress(
    run: "WrittenRun", start: "StartAttempt"
) -> None:
    """Three deaths with updates and without a step still park the run (README 31)."""
    run.store.now += 10_000
    publish(run, start)
    assert run.expires_at == run.store.now + 30_000
    for _ in range(2):
        run.park(Departure.DIED_WITHOUT_PROGRESS)
        run.store.now += 60_000
        run.begin()
        start = run.started("fetch")
        run.advance(start)
        run.store.now += 1
        publish(run, start)
    run.park(Departure.DIED_WITHOUT_PROGRESS)
    assert run.store.value("SELECT error_code FROM run_queue") == "runnerNoProgress"


def test_updates_survive_the_end_of_their_run(run: "WrittenRun", start: "StartAttempt") -> None:
    publish(run, start)
    run.cancel(permit=dataclasses.replace(run.permit, actor=Actor(ActorType.CONTROL)))
    assert len(current(run)) == 1


def test_large_data_and_more_than_wanted_are_left_out(
    run: "WrittenRun", start: "StartAttempt"
) -> None:
    for key in ("a", "b", "c"):
        publish(run, start, key, {"n": "x" * 100} if key == "b" else {})
    shown = current(run, limit=2, data_bytes=50)
    assert [(it["key"], "data" in it, it.get("dataStored")) for it in shown] == [
        ("b", False, True),
        ("c", True, None),
    ]


def message(run: "WrittenRun", start: "StartAttempt", text: str) -> UpdateMessage:
    wanted = NewUpdate(start.attempt_id, "probe", "k", Blob.of_json({"text": text}))
    fingerprint = Blob.of_text(text).blob_hash
    return UpdateMessage(run.run_id, run.worker_epoch, "m9", fingerprint, wanted)


def answer(run: "WrittenRun", sent: UpdateMessage) -> Answered:
    return run.store.do(update_messages.publish_once, run.permit, sent)


def test_repeated_message_publishes_once(run: "WrittenRun", start: "StartAttempt") -> None:
    first = answer(run, message(run, start, "one"))
    again = answer(run, message(run, start, "one"))
    other = answer(run, message(run, start, "two"))
    assert first.outcome is WorkerMessageOutcome.ACCEPTED
    assert again == first._replace(outcome=WorkerMessageOutcome.ADOPTED)
    assert other.outcome is WorkerMessageOutcome.REJECTED
    assert len(history(run)) == 1


def test_refusal_has_its_code_and_is_repeated(run: "WrittenRun", start: "StartAttempt") -> None:
    late = dataclasses.replace(start, attempt_id="attempt-old")
    first, again = (answer(run, message(run, late, "one")) for _ in range(2))
    assert first == again
    assert first.outcome is WorkerMessageOutcome.REJECTED
    assert first.error == "UPDATE_REFUSED: the attempt has ended"
    assert first.revision == run.revision
    publish(run, start)


def test_state_and_view_of_a_run_show_its_updates(
    run: "WrittenRun", start: "StartAttempt"
) -> None:
    """The whole state has all of them; the view the newest, without large data."""
    light = run.store.do(projection_weight.body_bytes, run.run_id)
    assert "updates" not in run.store.do(run_views.run_view, run.run_id)
    assert "updates" not in run.store.do(projection.run_state, run.run_id)
    large: JsonObject = {"n": "x" * 5_000}
    publish(run, start, "large", large)
    for number in range(run_views.UPDATES_MAX):
        publish(run, start, f"k{number}")
    state = run.store.do(projection.run_state, run.run_id)["updates"]
    assert isinstance(state, list)
    assert [it["data"] for it in state if isinstance(it, dict)][:2] == [large, {}]
    publish(run, start, "large", large)
    view = run.store.do(run_views.run_view, run.run_id)["updates"]
    assert isinstance(view, dict)
    items = view["items"]
    assert isinstance(items, list)
    assert (view["total"], len(items)) == (run_views.UPDATES_MAX + 1, run_views.UPDATES_MAX)
    assert isinstance(items[-1], dict)
    assert items[-1]["dataStored"] is True
    assert run.store.do(projection_weight.body_bytes, run.run_id) > light + 5_000


def test_worst_updates_leave_room_in_a_frame(run: "WrittenRun", start: "StartAttempt") -> None:
    """Half a frame is what the steps of the worst view take."""
    bare = len(canonical_bytes(run.store.do(run_views.run_view, run.run_id)))
    data: JsonObject = {"n": "\x01" * ((run_views.UPDATE_BYTES_MAX - len('{"n":""}')) // 6)}
    for number in range(run_views.UPDATES_MAX):
        publish(run, start, "k" * 120 + str(number), data)
    view = run.store.do(run_views.run_view, run.run_id)
    assert "dataStored" not in str(view)
    assert len(canonical_bytes(view)) - bare < 200_000
