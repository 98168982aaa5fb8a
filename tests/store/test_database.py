"""The writer's batches and the reader's view of one moment, on a real file."""

from typing import TYPE_CHECKING

import apsw
import pytest

from store.errors import (
    OutcomeUnknown,
    ReadOnlyStateError,
    StateBusyError,
    StateIncompatibleError,
)
from store.opening import open_reader, open_writer
from store.wal import wal_path

if TYPE_CHECKING:
    from store.database import Writer
    from tests.store.conftest import StateFolder


def test_write_lock_held_elsewhere_is_busy_at_once(state: "StateFolder", writer: "Writer") -> None:
    second = open_writer(state.path)
    writer.begin_immediate()
    with pytest.raises(StateBusyError):
        second.begin_immediate()
    writer.rollback()
    second.begin_immediate()
    second.rollback()
    second.close()
    writer.close()


def test_refused_command_is_undone_and_its_neighbours_stay(
    state: "StateFolder", writer: "Writer"
) -> None:
    writer.begin_immediate()
    for name, end in (
        ("one", writer.release),
        ("two", writer.rollback_to),
        ("three", writer.release),
    ):
        writer.savepoint()
        state.insert(writer, name)
        end()
    writer.commit()
    assert not writer.in_transaction
    found = writer.connection.execute("SELECT project_id FROM projects ORDER BY rowid").fetchall()
    assert found == [("one",), ("three",)]
    writer.close()


def test_nested_block_of_a_command_is_undone_alone(state: "StateFolder", writer: "Writer") -> None:
    def fail_inside() -> None:
        with writer.nested():
            state.insert(writer, "inner")
            raise ZeroDivisionError

    writer.begin_immediate()
    writer.savepoint()
    writer.in_command = True
    state.insert(writer, "outer")
    with pytest.raises(ZeroDivisionError):
        fail_inside()
    with writer.nested():
        state.insert(writer, "kept")
    assert writer.in_command
    writer.in_command = False
    writer.release()
    writer.commit()
    assert state.projects(writer.connection) == 2
    writer.close()


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT",
        "ROLLBACK",
        "BEGIN IMMEDIATE",
        "SAVEPOINT command",
        "RELEASE command",
        "ROLLBACK TO command",
        "ATTACH ':memory:' AS other",
        "DETACH other",
        "REINDEX",
        "ANALYZE",
        "PRAGMA foreign_keys = OFF",
        "PRAGMA schema_version",
        "CREATE TABLE extra (x)",
        "CREATE TEMP TABLE extra (x)",
        "CREATE VIEW extra AS SELECT 1",
        "CREATE TRIGGER extra AFTER INSERT ON runs BEGIN SELECT 1; END",
        "CREATE INDEX extra ON runs (title)",
        "ALTER TABLE runs ADD COLUMN extra TEXT",
        "DROP TABLE viewer_deltas",
        "DROP INDEX runs_status",
        "DELETE FROM sqlite_sequence",
    ],
)
def test_command_cannot_reach_beyond_its_savepoint(writer: "Writer", statement: str) -> None:
    """It reads and changes rows, and that is all.

    Also not with the text of a control statement that the store has just run itself.
    """
    for _ in range(2):
        writer.begin_immediate()
        writer.savepoint()
        writer.in_command = True
        with pytest.raises(apsw.AuthError):
            writer.connection.execute(statement)
        writer.in_command = False
        writer.rollback_to()
        writer.commit()
    writer.close()


def test_authorizer_is_asked_once_per_statement_and_not_once_per_use(
    state: "StateFolder", writer: "Writer"
) -> None:
    """The statement cache keeps the authorizer, which is Python, off the hot path."""
    asked: list[int] = []
    authorize = writer.connection.authorizer
    assert authorize is not None

    def counted(operation: int, *names: str | None) -> int:
        if operation == apsw.SQLITE_INSERT:
            asked.append(operation)
        return authorize(operation, *names)

    writer.connection.authorizer = counted
    for number in range(50):
        state.commit(writer, f"project-{number}")
    assert len(asked) == 1
    writer.close()


def test_transaction_that_sqlite_threw_away_is_noticed(
    state: "StateFolder", writer: "Writer"
) -> None:
    """A conflict clause ends the whole batch; `in_transaction` says so, rollback is harmless."""
    writer.begin_immediate()
    writer.savepoint()
    state.insert(writer, "one")
    with pytest.raises(apsw.ConstraintError):
        writer.connection.execute(
            "INSERT OR ROLLBACK INTO projects (project_id, canonical_path, created_at)"
            " VALUES ('one', 'one', 1)"
        )
    assert not writer.in_transaction
    writer.rollback()
    assert state.projects(writer.connection) == 0
    writer.close()


def test_schema_changed_while_open_is_refused_inside_the_write(
    state: "StateFolder", writer: "Writer"
) -> None:
    state.commit(writer, "before")
    state.alter("CREATE INDEX extra ON runs (title)")
    with pytest.raises(StateIncompatibleError):
        writer.begin_immediate()
    assert not writer.in_transaction
    writer.close()


def test_identity_row_changed_while_open_is_refused_inside_the_write(
    state: "StateFolder", writer: "Writer"
) -> None:
    state.alter("UPDATE schema_meta SET app_version = '2'")
    with pytest.raises(StateIncompatibleError):
        writer.begin_immediate()
    assert not writer.in_transaction
    writer.close()


def test_failed_commit_has_an_unknown_outcome(state: "StateFolder", writer: "Writer") -> None:
    """What it left in the log is not moved into the database by closing: that could spread it."""

    def fail() -> bool:
        raise OSError

    state.commit(writer, "before")
    writer.begin_immediate()
    state.insert(writer, "one")
    writer.connection.set_commit_hook(fail)
    with pytest.raises(OutcomeUnknown):
        writer.commit()
    before = wal_path(state.path).read_bytes()
    writer.close()
    assert wal_path(state.path).read_bytes() == before


def test_reader_refuses_every_write(state: "StateFolder", writer: "Writer") -> None:
    """Nothing is written, attached, checkpointed or switched off through a reader.

    Case: A9.
    """
    state.commit(writer, "one")
    reader = open_reader(state.path)
    # The database is only looked at from outside: opening it would drop SQLite's own locks.
    before = state.path.stat().st_mtime_ns, wal_path(state.path).read_bytes()
    with pytest.raises(ReadOnlyStateError):
        state.insert(reader, "two")  # type: ignore[arg-type]
    for statement in (
        "CREATE TEMP TABLE mine (x)",
        "ATTACH ':memory:' AS other",
        "PRAGMA query_only = OFF",
        "PRAGMA wal_checkpoint",
        "PRAGMA integrity_check(1)",
        "BEGIN IMMEDIATE",
        "SAVEPOINT mine",
        "VACUUM",
        "VACUUM INTO 'elsewhere'",
        "REINDEX",
        "ANALYZE",
    ):
        with pytest.raises(apsw.AuthError):
            reader.connection.execute(statement)
    with pytest.raises(apsw.Error):
        reader.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    reader.close()
    assert (state.path.stat().st_mtime_ns, wal_path(state.path).read_bytes()) == before
    writer.close()


def test_reader_may_ask_whether_the_file_is_sound(state: "StateFolder") -> None:
    reader = open_reader(state.path)
    assert reader.connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert reader.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    reader.close()


def test_snapshot_stands_still_while_the_writer_goes_on(
    state: "StateFolder", writer: "Writer"
) -> None:
    reader = open_reader(state.path)
    with reader.snapshot() as view:
        assert state.projects(view) == 0
        state.commit(writer, "one")
        assert state.projects(view) == 0
    assert state.projects(reader.connection) == 1
    reader.close()
    writer.close()
