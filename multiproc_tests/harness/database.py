"""The stored facts, read past the product: what SQLite itself says."""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from multiproc_tests.harness.processes import BOUND_S

ORDER: Final = """
    SELECT a.node_id || ' ' || a.visit
      FROM run_steps AS s JOIN node_attempts AS a USING (attempt_id)
     WHERE s.run_id = ? ORDER BY s.step_index
"""

TAKEN_OVER: Final = """
    UPDATE workflow_host_state SET epoch = epoch + 1, host_id = 'server-of-another-kind',
           token_hash = zeroblob(32), pid = 4300000, process_start_identity = 'unknown:1',
           heartbeat_at = 1, expires_at = 1
"""

REVISION: Final = "SELECT source_revision FROM run_sources WHERE run_id = ? AND mount_path = ?"
ANOTHER_REVISION: Final = """
    UPDATE run_sources SET source_revision = ? WHERE run_id = ? AND mount_path = ?
"""

IN_HASTE: Final = """
    SELECT 1 FROM leases WHERE owner_id IS NOT NULL AND expires_at BETWEEN :now AND :soon
    UNION ALL SELECT 1 FROM workflow_host_state WHERE expires_at BETWEEN :now AND :soon
    UNION ALL SELECT 1 FROM run_queue WHERE status = 'starting'
"""

# Each finds what an orderly stop must not leave.
LEFT_OVER: Final = {
    "a held lease": "SELECT resource_id FROM leases WHERE owner_id IS NOT NULL",
    "a held server claim": "SELECT host_id FROM workflow_host_state WHERE host_id IS NOT NULL",
    "an open runner": "SELECT worker_epoch FROM run_workers WHERE finished_at IS NULL",
    "a run in hand": "SELECT run_id FROM run_queue WHERE status IN ('starting', 'running')",
    "an open try": "SELECT attempt_id FROM node_attempts WHERE status = 'running'",
    "an applying effect": "SELECT effect_id FROM effects WHERE status = 'applying'",
    "a try recorded twice": """
        SELECT attempt_id FROM run_steps GROUP BY attempt_id HAVING count(*) > 1
    """,
    "a visit recorded twice": """
        SELECT s.run_id, a.node_id, a.visit FROM run_steps AS s
          JOIN node_attempts AS a USING (attempt_id)
         GROUP BY s.run_id, a.node_id, a.visit HAVING count(*) > 1
    """,
    "a gap in the steps": """
        SELECT run_id FROM run_steps GROUP BY run_id HAVING max(step_index) + 1 <> count(*)
    """,
    "a finished run with an unfinished try": """
        SELECT r.run_id FROM runs AS r JOIN node_attempts AS a USING (run_id)
         WHERE r.finished_at IS NOT NULL AND a.finished_at IS NULL
    """,
}


class Database:
    """The database file of one home."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query, on a connection that cannot write."""
        uri = f"file:{self._path}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=BOUND_S)) as connection:
            return connection.execute(query, values).fetchall()

    def rows_after_a_crash(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query, from a copy: what the dead server left is not touched."""
        with tempfile.TemporaryDirectory(prefix="pw-") as folder:
            copy = Path(folder) / self._path.name
            for suffix in ("", "-wal"):
                shutil.copy(f"{self._path}{suffix}", f"{copy}{suffix}")
            with closing(sqlite3.connect(copy)) as connection:
                return connection.execute(query, values).fetchall()

    def column(self, query: str, *values: object) -> list[Any]:
        """Return the first column."""
        return [row[0] for row in self.rows(query, *values)]

    def take_over(self) -> None:
        """Do what a successor does that could neither prove nor end the server before it."""
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute(TAKEN_OVER)

    def exchange_revision(self, run_id: str, mount: str, revision: str) -> str:
        """Record another revision of a run's source, as if it had been started by that version.

        Args:
            mount: path of the mount; empty for the root.

        Returns:
            The one that was recorded.
        """
        place = (run_id, mount)
        with closing(sqlite3.connect(self._path)) as connection, connection:
            (before,) = connection.execute(REVISION, place).fetchone()
            connection.execute(ANOTHER_REVISION, (revision, *place))
        return str(before)

    def is_being_written(self) -> bool:
        """Say whether somebody is in the middle of a transaction that writes."""
        with closing(sqlite3.connect(self._path, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            connection.execute("ROLLBACK")
            return False

    def is_in_haste(self, now_ms: int) -> bool:
        """Say whether a claim lapses within 15 s, or a runner has yet to say hello."""
        uri = f"file:{self._path}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=BOUND_S)) as connection:
            instants = {"now": now_ms, "soon": now_ms + 15_000}
            return connection.execute(IN_HASTE, instants).fetchone() is not None

    def runner_pids(self) -> set[int]:
        """Return the pid of every runner there ever was, which is its session's number, too."""
        if not self._path.exists():
            return set()
        return set(self.column("SELECT pid FROM run_workers WHERE pid IS NOT NULL"))

    def assert_at_rest(self) -> None:
        """Assert that an orderly stop has left nothing open, and nothing is there twice."""
        if self._path.exists():
            found = {what: rows for what, query in LEFT_OVER.items() if (rows := self.rows(query))}
            assert not found
