"""A file is opened only if it is exactly ours, and a refusal leaves every byte as it was."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw
import pytest

from store import opening
from store.creation import create_database
from store.errors import (
    STATE_INCOMPATIBLE_TEXT,
    SqliteVersionError,
    StateBusyError,
    StateIncompatibleError,
    StateMissingError,
    StatePathError,
)
from store.opening import open_reader, open_writer, require_sqlite, verify_state_file
from store.wal import wal_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.store.conftest import StateFolder

NO_CHECKS: Final = "PRAGMA ignore_check_constraints = ON"
CHANGE_SCHEMA_AND_DIE: Final = """
import apsw, os, signal, sys
apsw.Connection(sys.argv[1]).execute("CREATE TABLE extra (x)")
os.kill(os.getpid(), signal.SIGKILL)
"""


def altered(*statements: str) -> "Callable[[StateFolder], None]":
    return lambda state: state.alter(*statements)


def header(offset: int) -> "Callable[[StateFolder], None]":
    return lambda state: state.overwrite(offset, (7).to_bytes(4, "big"))


def replaced(data: bytes) -> "Callable[[StateFolder], None]":
    def replace(state: "StateFolder") -> None:
        state.path.write_bytes(data)

    return replace


def cut(state: "StateFolder") -> None:
    state.path.write_bytes(state.path.read_bytes()[:4096])


INCOMPATIBLE: Final = {
    "other application id": header(68),
    "other user version": header(60),
    "no schema_meta row": altered("DELETE FROM schema_meta"),
    "no schema_meta table": altered("DROP TABLE schema_meta"),
    "other digest": altered("UPDATE schema_meta SET schema_digest = zeroblob(32)"),
    "other app version": altered("UPDATE schema_meta SET app_version = '2'"),
    "other schema name": altered(NO_CHECKS, "UPDATE schema_meta SET schema_name = 'another'"),
    "other schema version": altered(NO_CHECKS, "UPDATE schema_meta SET schema_version = 2"),
    "extra table": altered("CREATE TABLE extra (x)"),
    "extra column": altered("ALTER TABLE projects ADD COLUMN extra TEXT"),
    "missing column": altered("ALTER TABLE runs DROP COLUMN title"),
    "extra index": altered("CREATE INDEX extra ON runs (title)"),
    "missing index": altered("DROP INDEX runs_status"),
    "extra view": altered("CREATE VIEW extra AS SELECT 1"),
    "extra trigger": altered("CREATE TRIGGER extra AFTER INSERT ON runs BEGIN SELECT 1; END"),
    "empty file": replaced(b""),
    "no database": replaced(b"not a database\n" * 400),
    "cut file": cut,
}


@pytest.mark.parametrize("change", INCOMPATIBLE)
def test_incompatible_file_gets_the_reset_text_and_keeps_every_byte(
    state: "StateFolder", change: str
) -> None:
    """No byte changes, and no log or index appears beside the file.

    Case: A3, A4, A5, A6, D1.
    """
    INCOMPATIBLE[change](state)
    before = state.content()
    for attempt in (verify_state_file, open_writer):
        with pytest.raises(StateIncompatibleError) as refusal:
            attempt(state.path)
        assert str(refusal.value) == STATE_INCOMPATIBLE_TEXT
        assert state.content() == before


@pytest.mark.parametrize("change", INCOMPATIBLE)
def test_reader_refuses_an_incompatible_file(state: "StateFolder", change: str) -> None:
    """Views and the offline verifier check the exact shape as well.

    Case: A3, A4, A5, A6.
    """
    INCOMPATIBLE[change](state)
    with pytest.raises(StateIncompatibleError):
        open_reader(state.path)


@pytest.mark.parametrize("change", ["empty file", "no database"])
def test_incompatible_file_with_a_filled_log_keeps_every_byte(
    state: "StateFolder", change: str
) -> None:
    """The log is neither replayed nor emptied nor removed, although a crash left it.

    Case: A6.
    """
    state.leave_uncheckpointed()
    INCOMPATIBLE[change](state)
    before = state.content()
    assert before["state.sqlite-wal"]
    with pytest.raises(StateIncompatibleError):
        open_writer(state.path, after_unclean_stop=True)
    assert state.content() == before


def test_change_that_only_the_log_holds_is_found_and_the_log_stays(state: "StateFolder") -> None:
    """What a killed stranger committed counts, although the database file is still ours.

    Case: A5.
    """
    arguments = [sys.executable, "-c", CHANGE_SCHEMA_AND_DIE, str(state.path)]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    before = state.content()
    with pytest.raises(StateIncompatibleError):
        open_writer(state.path)
    assert state.content() == before


def test_verifying_a_good_file_with_a_filled_log_changes_nothing(state: "StateFolder") -> None:
    state.leave_uncheckpointed()
    before = state.content()
    verify_state_file(state.path)
    assert state.content() == before


def test_filled_log_of_a_database_in_use_is_busy(state: "StateFolder") -> None:
    """Only a file that nobody has open can be settled, so nobody is let past this point."""
    writer = open_writer(state.path)
    state.commit(writer, "one")
    with pytest.raises(StateBusyError):
        verify_state_file(state.path)
    writer.close()


def test_missing_file_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    """Neither readers nor the writer make a file.

    Case: A9.
    """
    for attempt in (verify_state_file, open_writer, open_reader):
        with pytest.raises(StateMissingError):
            attempt(tmp_path / "state.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_symlinked_database_is_refused(state: "StateFolder", tmp_path: Path) -> None:
    link = tmp_path / "state.sqlite"
    link.symlink_to(state.path)
    for attempt in (open_writer, open_reader):
        with pytest.raises(StatePathError, match="symbolic link"):
            attempt(link)


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_link_beside_the_database_is_refused_and_nothing_is_written_through_it(
    state: "StateFolder", tmp_path: Path, suffix: str
) -> None:
    """SQLite itself would follow it."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    side = state.path.with_name(f"{state.path.name}{suffix}")
    side.symlink_to(precious)
    for attempt in (verify_state_file, open_writer, open_reader):
        with pytest.raises(StatePathError, match=re.escape(str(side))):
            attempt(state.path)
    assert precious.read_bytes() == b"precious"
    assert side.is_symlink()


def test_rollback_journal_beside_the_database_is_refused_and_not_played_back(
    state: "StateFolder",
) -> None:
    """A journal of some other copy would undo what this one holds."""
    journal = state.path.with_name(f"{state.path.name}-journal")
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))
    before = state.content()
    for attempt in (open_writer, open_reader):
        with pytest.raises(StatePathError, match="not part of this database"):
            attempt(state.path)
    assert state.content() == before


def test_home_behind_a_symlink_is_fine(state: "StateFolder", tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.symlink_to(state.path.parent)
    open_writer(home / state.path.name).close()
    open_reader(home / state.path.name).close()


def test_database_of_another_user_is_refused(
    state: "StateFolder", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StatePathError, match="another user"):
        open_writer(state.path)


def test_sqlite_that_can_damage_the_log_is_refused() -> None:
    require_sqlite()
    require_sqlite(3_051_003)
    with pytest.raises(SqliteVersionError, match=r"3\.51\.2 .* 3\.51\.3"):
        require_sqlite(3_051_002)
    with pytest.raises(SqliteVersionError, match=r"3\.52\.0 .* 3\.51\.3"):
        require_sqlite(3_052_000)


def test_file_is_not_opened_by_a_sqlite_that_can_damage_it(
    state: "StateFolder", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers, readers and creation ask the same gate, and nothing is touched."""
    before = state.content()
    monkeypatch.setattr(apsw, "SQLITE_VERSION_NUMBER", 3_051_002)
    elsewhere = state.path.with_name("other.sqlite")
    for attempt in (verify_state_file, open_writer, open_reader):
        with pytest.raises(SqliteVersionError, match="known bug that damages databases"):
            attempt(state.path)
    with pytest.raises(SqliteVersionError):
        create_database(elsewhere, now=1)
    assert state.content() == before


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("foreign_keys", 1),
        ("busy_timeout", 0),
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("wal_autocheckpoint", 0),
        ("journal_size_limit", 67_108_864),
        ("temp_store", 2),
        ("trusted_schema", 0),
        ("cell_size_check", 1),
        ("fullfsync", 1),
        ("checkpoint_fullfsync", 1),
        ("mmap_size", 0),
        ("application_id", 0x50495746),
        ("user_version", 1),
    ],
)
def test_live_writer_has_every_pragma(state: "StateFolder", pragma: str, value: object) -> None:
    """All pragma values are read back from the connection.

    Case: A1.
    """
    writer = open_writer(state.path)
    writer.connection.authorizer = None
    assert writer.connection.pragma(pragma) == value
    writer.close()


def test_maintenance_connection_waits_for_locks(state: "StateFolder") -> None:
    writer = open_writer(state.path, busy_timeout_ms=opening.MAINTENANCE_BUSY_MS)
    writer.connection.authorizer = None
    assert writer.connection.pragma("busy_timeout") == 5_000
    writer.close()


def test_every_file_of_the_open_database_is_private(state: "StateFolder") -> None:
    """The log and its index inherit mode 0600.

    Case: A1, C7.
    """
    writer = open_writer(state.path)
    state.commit(writer, "one")
    names = ("state.sqlite", "state.sqlite-wal", "state.sqlite-shm")
    assert state.modes() == dict.fromkeys(names, 0o600)
    writer.close()
    assert not wal_path(state.path).exists()


def test_sql_cannot_damage_the_file(state: "StateFolder") -> None:
    """No schema surgery, and a misspelt column is an error, not a text."""
    writer = open_writer(state.path)
    with pytest.raises(apsw.SQLError):
        writer.connection.execute("UPDATE sqlite_schema SET sql = '' WHERE name = 'runs'")
    with pytest.raises(apsw.SQLError, match="no such column"):
        writer.connection.execute('SELECT "no_such_column" FROM runs')
    writer.close()


def test_nothing_of_a_connection_is_left_open_to_a_crafted_file(state: "StateFolder") -> None:
    """Neither schema surgery nor triggers, views, extensions or other databases."""
    writer = open_writer(state.path)
    reader = open_reader(state.path)
    off = (
        *("WRITABLE_SCHEMA", "TRUSTED_SCHEMA", "DQS_DDL", "DQS_DML", "ENABLE_TRIGGER"),
        *("ENABLE_VIEW", "ENABLE_LOAD_EXTENSION", "ENABLE_FTS3_TOKENIZER"),
        *("ENABLE_ATTACH_CREATE", "ENABLE_ATTACH_WRITE"),
    )
    for connection in (writer.connection, reader.connection):
        assert connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1) == 1
        for switch in off:
            assert connection.config(getattr(apsw, f"SQLITE_DBCONFIG_{switch}"), -1) == 0, switch
        assert connection.limit(apsw.SQLITE_LIMIT_ATTACHED) == 0
        assert connection.limit(apsw.SQLITE_LIMIT_WORKER_THREADS) == 0
    reader.close()
    writer.close()


def test_cascades_work_although_triggers_are_off(state: "StateFolder") -> None:
    """Foreign keys are kept by SQLite's own triggers, which the switch must not reach."""
    writer = open_writer(state.path)
    writer.begin_immediate()
    writer.connection.execute("INSERT INTO resources VALUES ('r', 'channel', 'c', 0, 1, 1)")
    writer.connection.execute("INSERT INTO leases (resource_id, generation) VALUES ('r', 0)")
    writer.connection.execute("DELETE FROM resources")
    assert writer.connection.execute("SELECT count(*) FROM leases").get == 0
    writer.commit()
    writer.close()
