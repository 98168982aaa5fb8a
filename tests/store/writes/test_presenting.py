"""Presentation instructions: from the child that ended the run, once, and without any power."""

import dataclasses
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.ids import WorkerEpoch
from pi_workflows.protocol.states import ActorType, RunStatus, StepOutcome, WorkerStatus
from store import projection, projection_weight, run_presenting, workers
from store.authority import Permit
from store.blobs import Blob
from store.errors import AuthorityError, RunUnknownError
from store.proposals import FinishRun
from store.resources import Actor
from store.run_presenting import PresentationRefused
from store.workers import WorkerEnd

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore, WrittenRun


HOST: Final = Actor(ActorType.HOST)


def present(run: "WrittenRun", text: str = "Say it.", actor: ActorType = ActorType.HOST) -> int:
    permit = Permit(Actor(actor))
    blob = Blob.of_text(text)
    return run.store.do(run_presenting.present_run, permit, run.run_id, run.worker_epoch, blob)


@pytest.fixture
def ended(run: "WrittenRun") -> "WrittenRun":
    """A run that its child has just completed; the child is still there."""
    run.walk()
    run.advance(run.completed())
    return run


def test_text_is_stored_with_an_event_and_touches_nothing_of_the_end(ended: "WrittenRun") -> None:
    columns = "SELECT status, finished_at, final_output_hash, error_hash FROM runs"
    before, revision = ended.store.rows(columns), ended.revision
    weight = ended.store.do(projection_weight.body_bytes, ended.run_id)
    assert present(ended) == revision + 1
    assert ended.store.rows(columns) == before
    assert ended.events()[-2:] == ["run_completed", "presentation_stored"]
    state = ended.store.do(projection.run_state, ended.run_id)
    assert state["presentationPrompt"] == "Say it."
    assert ended.store.do(projection_weight.body_bytes, ended.run_id) == weight + len("Say it.")
    assert ended.expires_at is None


def test_first_text_wins_the_same_adopts_and_another_is_refused(ended: "WrittenRun") -> None:
    revision = present(ended)
    before = ended.store.dump()
    assert present(ended) == revision
    with pytest.raises(PresentationRefused, match="already"):
        present(ended, "Say something else.")
    assert ended.store.dump() == before


def test_failed_run_is_presented_too(run: "WrittenRun") -> None:
    run.begin()
    start = run.started("fetch")
    run.advance(start)
    failed = run.finished(start, outcome=StepOutcome.FAILED)
    run.advance(failed, FinishRun(RunStatus.FAILED, None, Blob.of_text("it did not work")))
    present(run)
    assert "presentationPrompt" in run.store.do(projection.run_state, run.run_id)


def test_run_that_lives_or_was_cancelled_is_not_presented(run: "WrittenRun") -> None:
    run.begin()
    with pytest.raises(PresentationRefused, match="a run that is running"):
        present(run)
    run.cancel(permit=dataclasses.replace(run.permit, actor=Actor(ActorType.CONTROL)))
    with pytest.raises(PresentationRefused, match="a run that is cancelled"):
        present(run)


@pytest.mark.parametrize("end", [WorkerStatus.EXITED, WorkerStatus.CRASHED, WorkerStatus.ORPHANED])
def test_child_whose_end_is_recorded_has_nothing_to_say(
    ended: "WrittenRun", end: WorkerStatus
) -> None:
    ended.store.do(workers.end, ended.worker_epoch, WorkerEnd(end))
    before = ended.store.dump()
    with pytest.raises(PresentationRefused, match="only the child that ended the run"):
        present(ended)
    assert ended.store.dump() == before


def test_child_of_an_earlier_generation_or_of_another_run_has_nothing_to_say(
    ended: "WrittenRun", store: "WriteStore"
) -> None:
    other = store.create("run-2").begin()
    text = Blob.of_text("Say it.")
    for epoch in (other.worker_epoch, WorkerEpoch("nobody")):
        with pytest.raises(PresentationRefused):
            store.do(run_presenting.present_run, Permit(HOST), ended.run_id, epoch, text)
    store.alter("UPDATE leases SET generation = generation + 1")
    with pytest.raises(PresentationRefused):
        present(ended)


@pytest.mark.parametrize("actor", [actor for actor in ActorType if actor is not ActorType.HOST])
def test_only_the_server_presents(ended: "WrittenRun", actor: ActorType) -> None:
    before = ended.store.dump()
    with pytest.raises(AuthorityError):
        present(ended, actor=actor)
    assert ended.store.dump() == before


def test_unknown_run_is_refused(ended: "WrittenRun") -> None:
    ended.run_id = "run-0"
    with pytest.raises(RunUnknownError):
        present(ended)
