"""The state directory is private; the database in it is created whole or not at all."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw
import pytest

from store import schema
from store.creation import CREATION_POINTS, create_database
from store.errors import (
    STATE_INCOMPATIBLE_TEXT,
    StateIncompatibleError,
    StatePathError,
    StorageFault,
)
from store.opening import open_reader, open_writer, verify_state_file
from store.state_dir import prepare_state_dir

if TYPE_CHECKING:
    from tests.store.conftest import StateFolder

NOW: Final = 1_700_000_000_000
CREATE_AND_DIE: Final = """
import os, signal, sys
from pathlib import Path
from store.creation import create_database
def reached(point):
    if point == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
create_database(Path(sys.argv[1]), now=1, reached=reached)
"""


def test_state_directory_is_made_private(tmp_path: Path) -> None:
    """A missing directory is made with mode 0700, one that is open to others is closed.

    Case: A1, C7.
    """
    fresh, wide = tmp_path / "home" / "workflows", tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o755)
    for directory in (fresh, wide):
        prepare_state_dir(directory)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_symlinked_state_directory_is_refused(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    with pytest.raises(StatePathError, match="symbolic link"):
        prepare_state_dir(link)


def test_state_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StatePathError, match="another user"):
        prepare_state_dir(tmp_path / "workflows")


def test_file_in_place_of_the_state_directory_is_refused_with_a_hint(tmp_path: Path) -> None:
    blocked = tmp_path / "workflows"
    blocked.write_text("a file")
    with pytest.raises(StatePathError) as refusal:
        prepare_state_dir(blocked)
    assert str(blocked) in str(refusal.value)
    assert refusal.value.hint
    with pytest.raises(StatePathError):
        prepare_state_dir(blocked / "below")


def test_new_database_has_the_identity_mode_and_first_rows_of_the_contract(
    state: "StateFolder",
) -> None:
    """Ids in the header, one `schema_meta` row, the host row at epoch 0, one file of mode 0600.

    Case: A1.
    """
    assert state.modes() == {"state.sqlite": 0o600}
    header = state.path.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == 0x50495746
    assert int.from_bytes(header[60:64], "big") == 1
    reader = open_reader(state.path)
    host = reader.connection.execute("SELECT * FROM workflow_host_state").fetchall()
    assert host == [(1, 0, None, None, None, None, None, None, None)]
    meta = reader.connection.execute("SELECT * FROM schema_meta").fetchall()
    assert meta == [(1, "pi-workflows-state", 1, schema.SCHEMA_DIGEST, "1", NOW, NOW)]
    reader.close()


def test_creation_never_touches_what_exists(state: "StateFolder") -> None:
    before = state.content()
    assert not create_database(state.path, now=NOW + 1)
    assert state.content() == before


def test_older_state_forbids_creation_and_stays_untouched(tmp_path: Path) -> None:
    """An old `runs/` without a database gets the reset text.

    Case: A7.
    """
    older = tmp_path / "runs"
    older.mkdir()
    (older / "run.json").write_text("{}")
    with pytest.raises(StateIncompatibleError) as refusal:
        create_database(tmp_path / "state.sqlite", now=NOW, older_state=(tmp_path / "no", older))
    assert str(refusal.value) == STATE_INCOMPATIBLE_TEXT
    assert [entry.name for entry in tmp_path.iterdir()] == ["runs"]
    assert (older / "run.json").read_text() == "{}"


def test_database_beside_older_state_is_the_only_live_state(state: "StateFolder") -> None:
    older = state.path.parent / "runs"
    older.mkdir()
    assert not create_database(state.path, now=NOW, older_state=(older,))
    open_writer(state.path).close()


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_log_without_its_database_forbids_creation(tmp_path: Path, suffix: str) -> None:
    """SQLite would replay the stray log into the new file."""
    stray = tmp_path / f"state.sqlite{suffix}"
    stray.write_bytes(b"frames")
    with pytest.raises(StateIncompatibleError):
        create_database(tmp_path / "state.sqlite", now=NOW)
    assert [entry.name for entry in tmp_path.iterdir()] == [stray.name]
    assert stray.read_bytes() == b"frames"


@pytest.mark.parametrize("point", CREATION_POINTS)
def test_kill_during_creation_leaves_nothing_or_a_whole_database(
    tmp_path: Path, point: str
) -> None:
    """SIGKILL at every point; the next start creates or opens, and removes what was left.

    Case: D21.
    """
    path = tmp_path / "state.sqlite"
    arguments = [sys.executable, "-c", CREATE_AND_DIE, str(path), point]
    killed = subprocess.run(arguments, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    linked = CREATION_POINTS.index(point) > CREATION_POINTS.index("create.before_link")
    assert path.exists() is linked
    if linked:
        verify_state_file(path)
    assert create_database(path, now=NOW) is not linked
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.sqlite"]
    assert path.stat().st_nlink == 1
    open_writer(path).close()


def test_creation_points_are_reached_in_order(tmp_path: Path) -> None:
    reached: list[str] = []
    create_database(tmp_path / "state.sqlite", now=NOW, reached=reached.append)
    assert tuple(reached) == CREATION_POINTS


def test_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    def fail(point: str) -> None:
        if point == "create.before_commit":
            raise apsw.FullError

    with pytest.raises(StorageFault, match="FullError"):
        create_database(tmp_path / "state.sqlite", now=NOW, reached=fail)
    assert list(tmp_path.iterdir()) == []


def test_creation_in_a_missing_directory_names_the_path(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "state.sqlite"
    with pytest.raises(StatePathError, match="cannot be created: No such file") as refusal:
        create_database(path, now=NOW)
    assert str(path) in str(refusal.value)


def test_creator_that_comes_second_overwrites_nothing(tmp_path: Path) -> None:
    """The name is taken by a link, which fails where a rename would replace."""
    path = tmp_path / "state.sqlite"

    def overtaken(point: str) -> None:
        if point == "create.before_link":
            path.write_bytes(b"the first one's")

    assert not create_database(path, now=NOW, reached=overtaken)
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.sqlite"]
    assert path.read_bytes() == b"the first one's"
