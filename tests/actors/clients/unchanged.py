"""Every row of every table, before and after a command that was refused."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.actors.conftest import Bench

SECRET: Final = "s3cret"  # noqa: S105 - a word of inputs and values, to look for
TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
RECEIPTS: Final = "host_commands"
REPLY: Final = """
    SELECT receipt_hash, error_hash FROM host_commands ORDER BY created_at DESC, rowid DESC LIMIT 1
"""

Rows = set[tuple[object, ...]]


class Untouched:
    """The database of a server as it is now."""

    def __init__(self, bench: "Bench") -> None:
        self._bench = bench
        self._before = self._rows()

    def assert_only_a_receipt_is_new(self) -> None:
        """Compare; the receipt has neither a value that was sent nor a traceback."""
        before, after = self._before, self._rows()
        assert before.keys() == after.keys()
        assert all(before[table] <= after[table] for table in before), "nothing is gone"
        new = {table: after[table] - before[table] for table in before}
        assert len(new.pop(RECEIPTS)) == 1
        replies = new.pop("blobs")
        assert {row[0] for row in replies} <= set(self._bench.rows(REPLY)[0])
        assert SECRET not in repr(replies)
        assert "Traceback" not in repr(replies)
        assert {table for table, rows in new.items() if rows} == set()

    def assert_nothing_is_new(self) -> None:
        """Compare."""
        assert self._rows() == self._before

    def _rows(self) -> dict[str, Rows]:
        found: dict[str, Rows] = {}
        for (name,) in self._bench.rows(TABLES):
            rows = self._bench.rows(f"SELECT * FROM {name}")  # noqa: S608 - a name of the schema
            found[str(name)] = set(rows)
        return found
