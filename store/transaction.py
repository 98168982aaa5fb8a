"""What a query and a command are handed: typed access to rows at one instant."""

import base64
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

import apsw

from pi_workflows.protocol.ids import ResourceId
from store import rows
from store.database import Writer
from store.rows import Bindings

RowT = TypeVar("RowT")


class IdSource(Protocol):
    """Where new identifiers and secrets come from; injected, so that a seed can own it."""

    def new_uuid(self) -> str:
        """Return a new random UUID in its 36-character form."""
        ...

    def token_bytes(self, count: int = 32) -> bytes:
        """Return `count` bytes that nobody can guess."""
        ...


class SavepointNeeded(BaseException):
    """A command without a savepoint would have to undo what it has written.

    Not an `Exception`: no command may take it for a refusal and go on.
    """


class LongWork(Exception):
    """A command met work that would hold up the loop; it is to be asked for as `do_long`."""


class Change(NamedTuple):
    """An aggregate that an accepted command changed; published after COMMIT.

    Attributes:
        resource_type: as stored in `resources.resource_type`.
        aggregate_key: as stored in `resources.aggregate_key`.
    """

    resource_type: str
    aggregate_key: str


@dataclass(slots=True)
class Reading:
    """Typed queries on one connection.

    Attributes:
        connection: READONLY for views, the writer's inside a transaction.
        now: UTC epoch ms that every derived fact of this reading uses.
    """

    connection: apsw.Connection
    now: int
    _cursor: apsw.Cursor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # One for all statements: the connection would make a new one for each.
        self._cursor = self.connection.cursor()

    def one(self, row_type: type[RowT], sql: str, bindings: Bindings) -> RowT | None:
        """Return the only row, or None when there is none."""
        return rows.one(self._cursor, row_type, sql, bindings)

    def many(self, row_type: type[RowT], sql: str, bindings: Bindings) -> list[RowT]:
        """Return all rows in the statement's order."""
        return rows.many(self._cursor, row_type, sql, bindings)


@dataclass(slots=True)
class Transaction(Reading):
    """Proof that BEGIN IMMEDIATE succeeded and the epoch fence held; what commands write with.

    Attributes:
        ids: source of new ids and tokens.
        undoable_at: SQLite's count of changes when a command without a savepoint began; only
            while it stands can the command be undone. None: the command has a savepoint.
        may_take_long: the command runs off the loop, alone.
        changes: aggregates changed so far by the command that is running.
    """

    writer: Writer
    ids: IdSource
    undoable_at: int | None = None
    may_take_long: bool = False
    changes: set[Change] = field(default_factory=set)

    def execute(self, sql: str, bindings: Bindings) -> int:
        """Run one statement and return how many rows it changed."""
        try:
            self._cursor.execute(sql, bindings)
        except apsw.Error as error:
            rows.raise_translated(self.connection, error)
        return self.connection.changes()

    def undo(self) -> None:
        """Undo all that the running command has written; it goes on as if it had just begun.

        Raises:
            SavepointNeeded: it has written and has no savepoint; it will be run again with one.
        """
        if self.undoable_at is None:
            self.writer.undo()
        elif self.connection.total_changes() != self.undoable_at:
            raise SavepointNeeded
        self.changes = set()

    def take_long(self) -> None:
        """Announce work that takes more than a few milliseconds.

        Raises:
            LongWork: this is the loop.
        """
        if not self.may_take_long:
            raise LongWork

    @contextmanager
    def nested(self) -> Generator[None]:
        """Run a block in a savepoint of its own: an exception undoes the block and goes on up."""
        kept = set(self.changes)
        with self.writer.nested():
            try:
                yield
            except BaseException:
                self.changes = kept
                raise


def new_token(ids: IdSource) -> str:
    """Return a new secret: 32 random bytes as base64url text."""
    return base64.urlsafe_b64encode(ids.token_bytes(32)).decode().rstrip("=")


def affected_one(changes: int) -> None:
    """Assert that a statement fenced by facts read in this transaction touched its one row."""
    assert changes == 1, "a row read in this transaction was not there to be changed"


def as_resource(text: str) -> ResourceId:
    """Mark a stored text as the resource id it is."""
    return ResourceId(text)
