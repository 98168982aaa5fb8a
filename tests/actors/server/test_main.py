"""Behaviour of the server's process: exit codes, and what a refused start leaves."""

import os
import sys
from pathlib import Path

import apsw
import pytest

from pi_workflows import server
from pi_workflows.protocol.errors import ExitCode
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.runner import limits
from store.creation import create_database
from store.errors import STATE_INCOMPATIBLE_TEXT
from store.state_dir import prepare_state_dir


@pytest.fixture(autouse=True)
def _keep_switch_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)


@pytest.fixture
def paths(home: Path) -> StatePaths:
    return StatePaths(home)


def test_incompatible_database_ends_the_start_with_code_5_and_is_not_changed(
    paths: StatePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    """The socket is never bound, and nothing is locked afterwards.

    Case: C6.
    """
    prepare_state_dir(paths.state_dir)
    create_database(paths.database, now=1)
    connection = apsw.Connection(str(paths.database))
    connection.execute("UPDATE schema_meta SET schema_digest = zeroblob(32)")
    connection.close()
    before = paths.database.read_bytes()
    assert server.main(paths) == ExitCode.INCOMPATIBLE_STATE
    assert capsys.readouterr().err == f"pi-workflows: {STATE_INCOMPATIBLE_TEXT}\n"
    assert paths.database.read_bytes() == before
    assert not paths.socket.exists()
    assert not paths.lock.exists()
    beside = {path.name for path in paths.state_dir.iterdir()}
    assert beside == {"state.sqlite", "host"}


def test_state_of_an_earlier_kind_ends_the_start_and_is_not_touched(
    paths: StatePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare_state_dir(paths.state_dir)
    (paths.state_dir / "runs").mkdir()
    (paths.state_dir / "runs" / "one.json").write_text("{}")
    assert server.main(paths) == ExitCode.INCOMPATIBLE_STATE
    assert "was not changed" in capsys.readouterr().err
    assert (paths.state_dir / "runs" / "one.json").read_text() == "{}"
    assert not paths.database.exists()


@pytest.mark.parametrize("damage", ["orphan", "page"])
def test_damaged_database_is_not_served(
    paths: StatePaths, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    """After an unclean stop the file is looked through before anybody is answered.

    Case: D2.
    """
    prepare_state_dir(paths.state_dir)
    create_database(paths.database, now=1)
    connection = apsw.Connection(str(paths.database))
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'runs_created'").get
    assert isinstance(page, int)
    if damage == "page":
        connection.execute("INSERT INTO resources VALUES ('nobody', 'channel', 'c', 0, 1, 1)")
    connection.execute("INSERT INTO leases (resource_id, generation) VALUES ('nobody', 0)")
    connection.close()
    if damage == "page":
        with paths.database.open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xff\xff\xff\xff")
    assert paths.database.with_name("state.sqlite-wal").stat().st_size > 0
    for _ in range(2):  # The first refusal must not tidy away what made the second one look.
        assert server.main(paths) == ExitCode.FAILED
        assert "is damaged and is not served" in capsys.readouterr().err
    assert not paths.socket.exists()
    assert not paths.lock.exists()


@pytest.mark.parametrize("value", ["0", "-1", "many", "", "1.5", "\u0663"])
def test_capacity_that_is_no_positive_integer_is_a_usage_error(
    paths: StatePaths,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    value: str,
) -> None:
    monkeypatch.setenv(server.CAPACITY_VARIABLE, value)
    reported: list[tuple[str, str]] = []
    assert server.main(paths, report=lambda *what: reported.append(what)) == ExitCode.USAGE
    text = f"{server.CAPACITY_VARIABLE} must be a positive integer, not {value!r}"
    assert capsys.readouterr().err == f"pi-workflows: {text}\n"
    assert reported == [("USAGE", text)]
    assert not paths.state_dir.exists()


def test_capacity_is_4_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(server.CAPACITY_VARIABLE, raising=False)
    assert server.capacity_from_environment() == 4
    monkeypatch.setenv(server.CAPACITY_VARIABLE, "12")
    assert server.capacity_from_environment() == 12


def test_socket_path_that_is_too_long_is_reported_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / ("h" * 100)
    assert server.main(StatePaths(home)) == ExitCode.UNAVAILABLE
    assert "socket path" in capsys.readouterr().err
    assert not home.exists()


def test_directory_that_others_may_enter_is_refused_with_what_to_do(
    paths: StatePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    paths.host_dir.mkdir(parents=True, mode=0o700)
    paths.host_dir.chmod(0o755)
    assert server.main(paths) == ExitCode.FAILED
    assert f"chmod 700 {paths.host_dir}" in capsys.readouterr().err
    assert not paths.database.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_home_that_cannot_be_written_is_one_clear_message(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home.chmod(0o500)
    assert server.main(StatePaths(home)) == ExitCode.FAILED
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", [limits.MEMORY_VARIABLE, limits.FILES_VARIABLE])
@pytest.mark.parametrize("value", ["", "1", "-5", "many", "9" * 30])
def test_runner_limit_that_no_runner_could_set_is_a_usage_error(
    name: str,
    value: str,
    paths: StatePaths,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    assert server.main(paths) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert told.startswith(f"pi-workflows: {name} must be a number from")
    assert repr(value) in told
    assert not paths.state_dir.exists()
