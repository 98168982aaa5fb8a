"""What a runner may propose: the one legal next thing, and a message as a whole or not at all."""

import dataclasses
from typing import TYPE_CHECKING, Final, cast

import apsw
import pytest

from pi_workflows.protocol.frames import encode_frame
from pi_workflows.protocol.states import ActorType, EffectAttemptOutcome, RunStatus, StepOutcome
from store import attempts, projection_steps, run_history, run_queue
from store.authority import Permit
from store.blobs import Blob
from store.errors import NotClaimableError, ProposalRefused, RunExistsError
from store.proposals import FinishRun, SetDeadline
from store.resources import Actor
from store.run_creation import create_run
from store.run_parking import Departure
from store.transaction import Reading

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from store.proposals import Transition
    from tests.store.writes.conftest import WriteStore, WrittenRun

CONTROL: Final = Permit(Actor(ActorType.CONTROL))
OUT_OF_STEPS: Final = FinishRun(RunStatus.FAILED, None, Blob.of_text("MAX_STEPS: enough"))


def refuse(run: "WrittenRun", *transitions: "Transition") -> str:
    """Propose what is refused; nothing may have changed. Returns what the runner is told."""
    before = run.store.dump()
    with pytest.raises(ProposalRefused) as refused:
        run.advance(*transitions)
    assert run.store.dump() == before
    return str(refused.value)


def test_node_that_the_graph_does_not_name_next_is_refused(run: "WrittenRun") -> None:
    """Before the first step, after it, and for nodes that do not exist.

    Case: B41.
    """
    run.begin()
    assert "not the next" in refuse(run, run.started("send"))
    unknown = dataclasses.replace(run.started("fetch"), node_id="nowhere")
    assert "no such node" in refuse(run, unknown)
    run.work(run.started("fetch"))
    assert "not the next" in refuse(run, run.started("note"))
    assert "not the next" in refuse(run, run.started("fetch", visit=2))
    run.work(run.started("send"))
    assert "not the next" in refuse(run, run.started("fetch", visit=2))


def test_fabricated_final_output_is_refused(run: "WrittenRun") -> None:
    """Case: B41."""
    run.walk()
    fabricated = FinishRun(RunStatus.COMPLETED, Blob.of_json({"from": "thin air"}), None)
    assert "final output" in refuse(run, fabricated)
    run.advance(run.completed())
    output = run.store.value(
        "SELECT content FROM runs JOIN blobs ON blob_hash = final_output_hash"
    )
    assert output == b'{"from":"note"}'


def test_end_that_the_last_step_does_not_imply_is_refused(run: "WrittenRun") -> None:
    """Case: B41."""
    run.begin()
    completed = FinishRun(RunStatus.COMPLETED, None, None)
    failed = FinishRun(RunStatus.FAILED, None, Blob.of_text("no"))
    assert "goes on" in refuse(run, completed)
    assert "goes on" in refuse(run, failed)
    start = run.started("fetch")
    run.advance(start)
    assert "not finished" in refuse(run, failed)
    run.advance(run.finished(start, outcome=StepOutcome.TIMED_OUT))
    assert "timed_out" in refuse(run, failed)
    assert "timed_out" in refuse(run, completed)
    timed_out = FinishRun(RunStatus.TIMED_OUT, None, Blob.of_text("too slow"))
    assert "error" in refuse(run, dataclasses.replace(timed_out, error=None))
    assert "follow the end" in refuse(run, timed_out, run.started("fetch", visit=2))
    run.advance(timed_out)
    assert run.status == ("timed_out", "failed")


def test_transitions_of_one_message_commit_together_or_not_at_all(run: "WrittenRun") -> None:
    """A good finish does not survive the bad start that follows it in the same message.

    Case: D22.
    """
    run.begin()
    start = run.started("fetch")
    run.advance(start)
    finish = run.finished(start, {"from": "fetch"})
    refuse(run, finish, run.started("note"))
    follow = run.started("send")
    before = run.revision
    advanced = run.advance(finish, follow, SetDeadline(follow.attempt_id, 5_000))
    assert advanced.revision == run.revision == before + 3
    assert run.events()[-3:] == ["node_finished", "node_started", "node_deadline_set"]
    (row,) = run.store.rows("SELECT status, timeout_ms FROM node_attempts WHERE node_id = 'send'")
    assert row == ("running", 5_000)


def test_second_active_attempt_is_refused(run: "WrittenRun") -> None:
    """By the command, and by the index for whoever forgets to ask.

    Case: A79.
    """
    run.begin()
    run.advance(run.started("fetch"))
    assert "under way" in refuse(run, run.started("fetch"))
    with pytest.raises(apsw.ConstraintError):
        run.store.alter(
            """
            INSERT INTO node_attempts (attempt_id, run_id, node_id, visit, attempt_number,
                                       node_type, status, created_at, updated_at)
            VALUES ('second', 'run-1', 'send', 1, 1, 'action', 'pending', 1, 1)
            """
        )


def test_second_pending_request_of_a_run_is_refused(run: "WrittenRun") -> None:
    """Case: A79."""
    run.begin()
    run.work(run.started("fetch"))
    run.advance(run.started("send"))
    request = """
        INSERT INTO interactive_requests (request_id, run_id, attempt_id, target_session_id, kind,
                                          contract_hash, revision, status, created_at, updated_at)
        SELECT attempt_id, run_id, attempt_id, 's', 'agent', output_hash, 1, 'pending', 1, 1
          FROM node_attempts WHERE node_id = 'fetch'
    """
    run.store.alter(request)
    with pytest.raises(apsw.ConstraintError):
        run.store.alter(
            request.replace("output_hash", "(SELECT blob_hash FROM blobs LIMIT 1)").replace(
                "'fetch'", "'send'"
            )
        )


def test_second_run_of_a_session_is_refused_until_the_first_has_ended(
    store: "WriteStore",
) -> None:
    """Case: A79, C49."""
    store.do(create_run, CONTROL, store.new_run("run-1", origin_session_id="session"))
    for status in ("queued", "parked"):
        store.alter(f"UPDATE run_queue SET status = '{status}'")  # noqa: S608
        with pytest.raises(apsw.ConstraintError):
            store.do(create_run, CONTROL, store.new_run("run-2", origin_session_id="session"))
    store.alter("UPDATE run_queue SET status = 'done', finished_at = 1")
    store.do(create_run, CONTROL, store.new_run("run-2", origin_session_id="session"))


def test_first_binding_of_a_run_to_a_session_wins(store: "WriteStore") -> None:
    """Case: D3."""
    store.do(create_run, CONTROL, store.new_run("run-1", origin_session_id="first"))
    before = store.dump()
    for session in ("second", None):
        with pytest.raises(RunExistsError):
            store.do(create_run, CONTROL, store.new_run("run-1", origin_session_id=session))
    assert store.dump() == before
    assert store.value("SELECT origin_session_id FROM run_bindings") == "first"


def test_waiting_run_has_no_end_time_and_an_ended_one_has(run: "WrittenRun") -> None:
    """Case: A80."""
    run.begin()
    run.work(run.started("fetch"))
    start = run.act("send")
    run.advance(run.settled(start, EffectAttemptOutcome.AMBIGUOUS))
    assert run.store.rows("SELECT status, finished_at FROM runs") == [("waiting", None)]
    run.cancel()
    now = run.store.now
    assert run.store.rows("SELECT status, finished_at FROM runs") == [("cancelled", now)]
    assert run.store.rows("SELECT status, finished_at FROM run_queue") == [("cancelled", now)]


def test_step_is_not_written_twice_nor_behind_a_gap_nor_for_another_run(
    store: "WriteStore", run: "WrittenRun"
) -> None:
    """Neither its place nor its attempt; an attempt that is under way is no step either.

    Case: A81.
    """
    run.walk()
    assert run.store.rows("SELECT step_index FROM run_steps") == [(0,), (1,), (2,)]
    ((recorded,), *_) = run.store.rows("SELECT attempt_id FROM run_steps")
    other = store.create("run-2").begin()
    foreign, begun = other.started("fetch"), other.started("send")
    other.work(foreign)
    other.advance(begun)
    before = run.store.dump()
    for index, attempt_id in (
        (0, foreign.attempt_id),
        (3, foreign.attempt_id),
        (3, begun.attempt_id),
        (4, recorded),
        (3, "attempt-of-nobody"),
    ):
        with pytest.raises(ProposalRefused):
            store.do(attempts.append_step, run.run_id, index, attempt_id, 1)
    with pytest.raises(ProposalRefused):
        store.do(attempts.append_step, "run-2", 1, begun.attempt_id, 2)
    with pytest.raises(ProposalRefused):
        store.do(attempts.append_step, "run-2", 2, foreign.attempt_id, 2)
    with pytest.raises(apsw.ConstraintError):
        store.do(attempts.append_step, run.run_id, 3, recorded, 4)
    assert run.store.dump() == before


def test_attempt_of_another_run_cannot_become_a_step(
    store: "WriteStore", run: "WrittenRun"
) -> None:
    """Case: A81."""
    run.begin()
    other = store.create("run-2").begin()
    foreign = other.started("fetch")
    other.advance(foreign)
    assert "not under way" in refuse(run, run.finished(foreign, 1))
    assert "id is taken" in refuse(run, foreign)
    own = run.started("fetch")
    run.advance(own)
    assert "not under way" in refuse(run, run.finished(foreign, 1))
    moved = dataclasses.replace(run.finished(own, 1), node_id="send")
    assert "another node" in refuse(run, moved)


def test_finished_attempt_never_opens_again(run: "WrittenRun") -> None:
    run.begin()
    start = run.started("fetch")
    run.advance(start)
    run.advance(run.finished(start, 1))
    assert "not under way" in refuse(run, run.finished(start, 1))
    assert "not under way" in refuse(run, SetDeadline(start.attempt_id, 1))


def test_interrupted_node_is_repeated_first_in_the_same_visit(run: "WrittenRun") -> None:
    """Under a new attempt; the interrupted one ends as cancelled and is no step.

    Case: A89.
    """
    run.begin()
    first = run.started("fetch")
    run.advance(first)
    run.park(Departure.DIED_WITHOUT_PROGRESS)
    run.store.now += 10_000
    run.begin()
    assert "repeated first" in refuse(run, run.started("send"))
    assert "visit 1" in refuse(run, run.started("fetch", visit=2))
    run.work(run.started("fetch"))
    assert run.store.rows(
        "SELECT visit, attempt_number, status FROM node_attempts ORDER BY attempt_number"
    ) == [(1, 1, "cancelled"), (1, 2, "completed")]
    assert run.store.value("SELECT count(*) FROM run_steps") == 1


def test_loop_stops_at_the_step_limit(run: "WrittenRun") -> None:
    """The store refuses the step too many, and accepts the failure that says so.

    Case: B22.
    """
    run.begin()
    for visit in (1, 2, 3):
        run.work(run.started("fetch", visit=visit))
        start = run.act("send", visit=visit)
        failed = run.finished(start, outcome=StepOutcome.FAILED)
        run.advance(run.settled(start, EffectAttemptOutcome.REJECTED), failed)
    assert "step limit" in refuse(run, run.started("fetch", visit=4))
    completed = FinishRun(RunStatus.COMPLETED, None, None)
    assert "goes on" in refuse(run, completed)
    run.advance(OUT_OF_STEPS)
    assert run.status == ("failed", "failed")


def test_failed_revisit_removes_the_earlier_output(run: "WrittenRun") -> None:
    """Case: B21."""
    run.begin()
    run.work(run.started("fetch"))
    start = run.act("send")
    failed = run.finished(start, outcome=StepOutcome.FAILED)
    run.advance(run.settled(start, EffectAttemptOutcome.REJECTED), failed)
    again = run.started("fetch", visit=2)
    run.advance(again, run.finished(again, outcome=StepOutcome.FAILED))
    reading = Reading(run.store.writer.connection, run.store.now)
    recorded = projection_steps.steps(reading, run.run_id)
    assert projection_steps.outputs(recorded[:2]) == {"fetch": {"from": "fetch"}}
    assert projection_steps.outputs(recorded) == {}


def test_cancelled_step_never_routes(run: "WrittenRun") -> None:
    """Case: B19."""
    run.begin()
    start = run.started("fetch")
    run.advance(start, run.finished(start, outcome=StepOutcome.CANCELLED))
    assert "not the next" in refuse(run, run.started("send"))
    assert "cancelled" in refuse(run, OUT_OF_STEPS)


def test_run_that_does_not_run_accepts_nothing(run: "WrittenRun") -> None:
    """A paused run, even under a live claim, and a run that nobody has brought into service."""
    run.begin()
    run.store.alter("UPDATE runs SET paused = 1")
    assert "paused" in refuse(run, run.started("fetch"))
    run.store.alter("UPDATE runs SET paused = 0, status = 'waiting'")
    assert "waiting" in refuse(run, run.started("fetch"))


@pytest.mark.parametrize(
    "spoiled",
    [
        "UPDATE run_queue SET error_code = 'runnerCrashed', available_at = available_at + 1",
        "UPDATE runs SET paused = 1",
        "UPDATE run_queue SET status = 'parked', error_code = 'workflowSourceChanged'",
        "UPDATE run_queue SET status = 'parked', error_code = 'runnerNoProgress'",
        "UPDATE run_queue SET status = 'parked', error_code = 'effectAmbiguous'",
    ],
)
def test_run_that_is_not_claimable_is_refused(run: "WrittenRun", spoiled: str) -> None:
    """The scheduler does not offer it either, or offers it for later."""
    run.store.alter(spoiled)
    before = run.store.dump()
    with pytest.raises(NotClaimableError):
        run.take()
    assert run.store.dump() == before
    offered = run.store.do(run_queue.claimable, 10)
    assert all(row.due_at > run.store.now for row in offered)


def test_parked_run_that_waits_is_not_claimable_until_it_is_queued(run: "WrittenRun") -> None:
    """An answer makes it `queued`; until then nothing may run."""
    run.store.alter("UPDATE runs SET status = 'waiting'", "UPDATE run_queue SET status = 'parked'")
    with pytest.raises(NotClaimableError):
        run.take()
    assert run.store.do(run_queue.claimable, 10) == []
    run.store.alter("UPDATE run_queue SET status = 'queued'")
    assert [row.run_id for row in run.store.do(run_queue.claimable, 10)] == ["run-1"]
    run.take()
    assert run.status == ("running", "starting")


def test_resuming_runner_reads_its_newest_steps_in_pages_that_fit_a_frame(
    run: "WrittenRun",
) -> None:
    """Outputs and errors count; a single step that is too large is a page of its own."""
    run.begin()
    big = "x" * 300_000
    for visit in (1, 2):
        start = run.started("fetch", visit=visit)
        run.advance(start, run.finished(start, big))
        sent = run.act("send", visit=visit)
        failed = run.finished(sent, outcome=StepOutcome.FAILED, error="no" * 100_000)
        run.advance(run.settled(sent, EffectAttemptOutcome.REJECTED), failed)
    pages = newest_steps(run)
    found = [
        [(step["stepIndex"], step["visit"], step["outcome"]) for step in shown(page)]
        for page in pages
    ]
    assert found == [[(2, 2, "ok")], [(3, 2, "failed")]]
    for page, referred in zip(pages, (1, 0), strict=True):
        assert len(encode_frame({"steps": page.steps})) < 700_000
        assert [reference.byte_length for reference in page.references] == [300_002] * referred


def shown(page: run_history.Page) -> "list[JsonObject]":
    return cast("list[JsonObject]", page.steps)


def newest_steps(run: "WrittenRun") -> list[run_history.Page]:
    reading = Reading(run.store.writer.connection, run.store.now)
    pages = []
    following: int | None = 0
    while following is not None:
        pages.append(run_history.page(reading, run.run_id, run.definition, following))
        following = pages[-1].following
    return pages


def test_what_a_resuming_runner_reads_does_not_grow_with_the_steps(run: "WrittenRun") -> None:
    """Per node its newest step, whatever lies behind it."""
    run.begin()
    sizes = []
    for visit in (1, 2):
        start = run.started("fetch", visit=visit)
        run.advance(start, run.finished(start, visit))
        sent = run.act("send", visit=visit)
        failed = run.finished(sent, outcome=StepOutcome.FAILED, error="no")
        run.advance(run.settled(sent, EffectAttemptOutcome.REJECTED), failed)
        (page,) = newest_steps(run)
        sizes.append((len(page.steps), page.following))
    assert sizes == [(2, None)] * 2
