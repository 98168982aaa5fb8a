"""A branching writer goes back to any mark; what a command may do stays the same."""

from collections.abc import Generator

import apsw
import pytest

from store.chaos.branching import BranchingWriter, BranchLost
from store.opening import open_reader, open_writer
from store.rows import execute, scalar
from tests.store.conftest import StateFolder


@pytest.fixture
def branching(state: StateFolder) -> Generator[BranchingWriter]:
    writer = BranchingWriter(open_writer(state.path).connection)
    writer.take_root()
    yield writer
    writer.cut_off()
    writer.close()


def test_marks_are_returned_to_in_any_depth(
    state: StateFolder, branching: BranchingWriter
) -> None:
    for name in ("a", "b", "c"):
        branching.mark()
        state.commit(branching, name)
    assert state.projects(branching.connection) == 3
    branching.back_to(2)
    assert state.projects(branching.connection) == 2
    branching.back_to(0)
    assert state.projects(branching.connection) == 0
    assert branching.marks == 1
    state.commit(branching, "d")
    branching.mark()
    branching.back_to(1)
    assert state.projects(branching.connection) == 1


def test_batch_that_is_rolled_back_leaves_the_one_before(
    state: StateFolder, branching: BranchingWriter
) -> None:
    state.commit(branching, "kept")
    stood = [branching.in_transaction]
    branching.begin_immediate()
    stood.append(branching.in_transaction)
    state.insert(branching, "undone")
    branching.rollback()
    stood.append(branching.in_transaction)
    branching.rollback()
    assert stood == [False, True, False]
    assert state.projects(branching.connection) == 1


def test_nothing_ever_becomes_durable(state: StateFolder, branching: BranchingWriter) -> None:
    state.commit(branching, "never")
    reader = open_reader(state.path)
    assert state.projects(reader.connection) == 0
    reader.close()
    branching.cut_off()
    assert state.projects(branching.connection) == 0


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "SAVEPOINT mark", "RELEASE mark"])
def test_command_reaches_no_mark(branching: BranchingWriter, statement: str) -> None:
    branching.mark()
    branching.begin_immediate()
    branching.in_command = True
    with pytest.raises(apsw.AuthError):
        branching.connection.execute(statement)
    branching.in_command = False
    branching.commit()


def test_transaction_that_sqlite_throws_away_is_noticed_before_anything_else_is_written(
    state: StateFolder, branching: BranchingWriter
) -> None:
    state.commit(branching, "lost too")
    branching.begin_immediate()
    execute(branching.connection, "INSERT INTO projects VALUES ('a', 'a', 1)", {})
    with pytest.raises(apsw.ConstraintError):
        execute(branching.connection, "INSERT OR ROLLBACK INTO projects VALUES ('a', 'a', 1)", {})
    assert branching.is_lost
    assert not branching.in_transaction
    with pytest.raises(BranchLost):
        branching.begin_immediate()
    branching.take_root()
    assert scalar(branching.connection, "SELECT count(*) FROM projects", {}) == 0
    state.commit(branching, "anew")
