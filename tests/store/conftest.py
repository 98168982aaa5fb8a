"""A real database in a folder of its own, and what a stranger or a crash can do to it."""

import signal
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw
import pytest

from store.creation import create_database
from store.database import Writer
from store.opening import open_writer
from store.rows import execute, scalar
from store.state_dir import prepare_state_dir

NOW: Final = 1_700_000_000_000
INSERT_PROJECT: Final = (
    "INSERT INTO projects (project_id, canonical_path, created_at) VALUES (:id, :id, 1)"
)
_COMMIT_AND_DIE: Final = """
import os, signal, sys
from pathlib import Path
from store.opening import open_writer
from store.rows import execute
writer = open_writer(Path(sys.argv[1]))
writer.begin_immediate()
execute(writer.connection, sys.argv[2], {"id": "in-the-log"})
writer.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """A private directory with one database.

    Attributes:
        path: the database.
    """

    path: Path

    def content(self) -> dict[str, bytes]:
        """Return every file's bytes; only while nothing here has the database open."""
        return {
            entry.name: entry.read_bytes()
            for entry in self.path.parent.iterdir()
            if entry.is_file()
        }

    def modes(self) -> dict[str, int]:
        """Return the permission bits of every file, by name."""
        entries = self.path.parent.iterdir()
        return {entry.name: stat.S_IMODE(entry.lstat().st_mode) for entry in entries}

    def alter(self, *statements: str) -> None:
        """Change the closed database the way a stranger would, and leave it closed."""
        connection = apsw.Connection(str(self.path))
        for statement in statements:
            connection.execute(statement)
        connection.close()

    def overwrite(self, offset: int, data: bytes) -> None:
        """Replace bytes of the closed database."""
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def leave_uncheckpointed(self) -> None:
        """Commit one project in a process that is killed before it can close the database."""
        arguments = [sys.executable, "-c", _COMMIT_AND_DIE, str(self.path), INSERT_PROJECT]
        ended = subprocess.run(arguments, check=False, capture_output=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr

    def insert(self, writer: Writer, name: str) -> None:
        """Write one project, without transaction control."""
        execute(writer.connection, INSERT_PROJECT, {"id": name})

    def commit(self, writer: Writer, name: str) -> None:
        """Write one project in a transaction of its own."""
        writer.begin_immediate()
        self.insert(writer, name)
        writer.commit()

    def projects(self, connection: apsw.Connection) -> int:
        """Count the projects that a connection sees."""
        found = scalar(connection, "SELECT count(*) FROM projects", {})
        assert isinstance(found, int)
        return found


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    """A freshly created, closed database."""
    directory = tmp_path / "workflows"
    prepare_state_dir(directory)
    database = directory / "state.sqlite"
    assert create_database(database, now=NOW)
    return StateFolder(database)


@pytest.fixture
def writer(state: StateFolder) -> Writer:
    """The open writer of that database; the test closes it."""
    return open_writer(state.path)
