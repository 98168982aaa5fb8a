"""The store actor without a loop: batches, refusals, and its end."""

from collections.abc import Generator
from pathlib import Path

import pytest

from pi_workflows.chaos.inline_store import CountedIds, InlineStore
from pi_workflows.protocol.states import ResourceType
from runtime.chaos.subject import SteppedClock
from store import resources
from store.creation import create_database
from store.database import Writer
from store.errors import OutcomeUnknown, RunUnknownError, StoreDown
from store.opening import open_writer
from store.state_dir import prepare_state_dir
from store.transaction import Transaction


@pytest.fixture
def writer(tmp_path: Path) -> Generator[Writer]:
    prepare_state_dir(tmp_path / "state")
    database = tmp_path / "state" / "state.sqlite"
    create_database(database, now=1)
    opened = open_writer(database)
    yield opened
    opened.close()


@pytest.fixture
def store(writer: Writer) -> InlineStore:
    return InlineStore(writer, SteppedClock(), CountedIds())


def create(tx: Transaction) -> str:
    return resources.create(tx, ResourceType.MAINTENANCE, tx.ids.new_uuid())


def refuse_after_writing(tx: Transaction) -> None:
    create(tx)
    raise RunUnknownError("run-1")


def count(store: InlineStore) -> object:
    return store.reading().connection.execute("SELECT count(*) FROM resources").get


def test_neighbours_of_a_refused_command_are_answered_with_what_they_wrote(
    store: InlineStore,
) -> None:
    answers = store.carry_out([create, refuse_after_writing, create])
    assert isinstance(answers[1].error, RunUnknownError)
    assert answers[0].error is answers[2].error is None
    assert answers[0].result != answers[2].result
    assert count(store) == 2


def test_failed_commit_is_unknown_to_everybody_and_the_end_of_the_store(
    store: InlineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Writer) -> None:
        raise OutcomeUnknown

    monkeypatch.setattr(Writer, "commit", fail)
    answers = store.carry_out([create, refuse_after_writing])
    assert [type(answer.error) for answer in answers] == [OutcomeUnknown, OutcomeUnknown]
    monkeypatch.undo()
    [answer] = store.carry_out([create])
    assert isinstance(answer.error, StoreDown)
    assert store.is_down


def test_ids_are_repeated_when_they_are_set_back() -> None:
    ids = CountedIds()
    first = [ids.new_uuid(), ids.new_uuid()]
    ids.drawn = 0
    assert [ids.new_uuid(), ids.new_uuid()] == first
    assert first[0] != first[1]
    assert first[0][14] == "4"
    assert len(ids.token_bytes()) == 32
