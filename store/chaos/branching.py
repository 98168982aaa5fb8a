"""A writer that can go back to where it was before any of its commits.

All that it does lies in one transaction which is never committed: BEGIN IMMEDIATE and COMMIT are
a savepoint in there, and so are the marks between batches. Everything else is the real code.

What is not the same: nothing becomes durable, and a command that makes SQLite throw the whole
transaction away takes the earlier batches with it (`BranchLost`); whoever explores such a command
does it on a database of its own. (The schema defers no constraint to COMMIT, and a command cannot
ask for it.)
"""

from typing import Final, final

import apsw
from typing_extensions import override

from store.database import Writer

_AS_SAVEPOINTS: Final = {
    "BEGIN IMMEDIATE": ("SAVEPOINT batch",),
    "COMMIT": ("RELEASE batch",),
    "ROLLBACK": ("ROLLBACK TO batch", "RELEASE batch"),
}


class BranchLost(Exception):
    """SQLite has thrown everything away, back to where `take_root` was called."""


@final
class BranchingWriter(Writer):
    """The writing connection of an exploration.

    Attributes:
        marks: how many there are.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        """Take over a connection that `open_writer` has made."""
        super().__init__(connection)
        self.marks = 0
        self._is_in_batch = False

    @property
    @override
    def in_transaction(self) -> bool:
        """Whether a batch has begun; False also after SQLite has thrown everything away."""
        return self._is_in_batch and self.connection.in_transaction

    @property
    def is_lost(self) -> bool:
        """Whether SQLite has thrown everything away; `take_root` begins anew."""
        return not self.connection.in_transaction

    def take_root(self) -> None:
        """Begin, without a mark; what is committed now is what all branches begin with."""
        self._is_in_batch = False
        self.marks = 0
        super()._control("BEGIN IMMEDIATE")

    def cut_off(self) -> None:
        """Undo everything since `take_root`."""
        self._is_in_batch = False
        if not self.is_lost:
            super()._control("ROLLBACK")

    def mark(self) -> None:
        """Remember the present state; only between batches."""
        super()._control("SAVEPOINT mark")
        self.marks += 1

    def back_to(self, mark: int) -> None:
        """Return to the state of a mark, 0 being the lowest; it stays, all above it are gone."""
        # What an inner savepoint has kept is undone with the outer one.
        while self.marks > mark + 1:
            super()._control("RELEASE mark")
            self.marks -= 1
        super()._control("ROLLBACK TO mark")
        self._is_in_batch = False

    @override
    def _control(self, statement: str) -> None:
        if statement == "BEGIN IMMEDIATE":
            if self.is_lost:
                raise BranchLost
            self._is_in_batch = True
        for each in _AS_SAVEPOINTS.get(statement, (statement,)):
            super()._control(each)
        if statement in {"COMMIT", "ROLLBACK"}:
            self._is_in_batch = False
