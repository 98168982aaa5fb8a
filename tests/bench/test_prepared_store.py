"""What a step costs the store is the same however long its run is, and is counted, not timed."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from bench.prepared_store import PreparedStore, prepare_store
from store.batch import run_alone


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PreparedStore]:
    """A database with one run at its first node."""
    prepared = prepare_store(tmp_path / "store", 1)
    yield prepared
    prepared.close()


def instructions_of_a_step(store: PreparedStore) -> int:
    """Return how many instructions SQLite executes for the next step of the run."""
    executed = 0

    def count() -> bool:
        nonlocal executed
        executed += 1
        return False

    store.writer.connection.set_progress_handler(count, 1)
    run_alone(store.batch, store.runs[0].next_step())
    store.writer.connection.set_progress_handler(None)
    return executed


def test_step_costs_the_same_after_many_steps(store: PreparedStore) -> None:
    """No statement of a step reads the run's history."""
    for _ in range(10):
        run_alone(store.batch, store.runs[0].next_step())
    early = instructions_of_a_step(store)
    for _ in range(300):
        run_alone(store.batch, store.runs[0].next_step())
    assert instructions_of_a_step(store) < early * 1.1


def test_statements_of_a_step_are_compiled_once(store: PreparedStore) -> None:
    """Binding other values makes no new plan: compiling costs several times what running does."""
    compiled: list[int] = []

    def note(operation: int, *_names: str | None) -> int:
        if operation in {apsw.SQLITE_READ, apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE}:
            compiled.append(operation)
        return apsw.SQLITE_OK

    store.writer.connection.authorizer = note
    run_alone(store.batch, store.runs[0].next_step())
    run_alone(store.batch, store.runs[0].next_step())
    assert compiled
    compiled.clear()
    store.batch.begin()
    store.batch.run(store.runs[0].next_step())
    assert compiled == []
    store.batch.abandon()
