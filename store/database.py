"""The two doors to the open file: one writer with transaction control, and readers without any.

SQLite asks an authorizer whenever a statement is *prepared*. While a command runs, it refuses
everything that would reach beyond the command's savepoint: a COMMIT there would commit the
command's neighbours. A cached statement is prepared already and would slip through, so the
control statements here are never cached.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import apsw

from store.errors import OutcomeUnknown, StateBusyError, StateIncompatibleError, StoreDown
from store.schema import verify_schema_meta

_READING: Final = frozenset(
    {apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE}
)
_WRITING: Final = frozenset({apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE})
_CONTROL: Final = frozenset({apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT})
_OWN_TABLES: Final = "sqlite_"  # SQLite's; it writes to them without asking.
READER_PRAGMAS: Final = frozenset(
    {
        "application_id",
        "foreign_key_check",
        "freelist_count",
        "integrity_check",
        "page_count",
        "page_size",
        "quick_check",
        "schema_version",
        "user_version",
    }
)
"""What may be asked of the file itself; each only reads when it has no argument."""


class Writer:
    """The writing connection of the process.

    Attributes:
        connection: for commands; only between `begin_immediate` and `commit`.
        in_command: set while a command runs; then it may only read and change rows. Transaction
            control, ATTACH, PRAGMA and every change of the schema are refused (`apsw.AuthError`).
        wal_frames: pages in the log after the last commit.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        """Take over an open, configured and verified connection."""
        self.connection = connection
        self.in_command = False
        self.wal_frames = 0
        self._closed = False
        self._schema_version = self._read_schema_version()
        connection.authorizer = self._authorize
        connection.set_wal_hook(self._note_log)

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closed

    @property
    def in_transaction(self) -> bool:
        """False also after SQLite has thrown a transaction away by itself."""
        return self.connection.in_transaction

    def begin_immediate(self) -> None:
        """Take the write lock and check that the schema is still the one that was verified.

        Raises:
            StateBusyError: another connection has the lock; try again later.
            StateIncompatibleError: someone changed the schema; nothing was begun.
            StoreDown: the file cannot be read.
        """
        try:
            self._control("BEGIN IMMEDIATE")
        except apsw.BusyError as error:
            raise StateBusyError from error
        except apsw.Error as error:
            raise StoreDown from error
        try:
            self._verify_unchanged()
        except BaseException:
            self.rollback()
            raise

    def savepoint(self) -> None:
        """Open the savepoint of one command."""
        self._control("SAVEPOINT command")

    def release(self) -> None:
        """Keep what the command did, as part of the transaction."""
        self._control("RELEASE command")

    def rollback_to(self) -> None:
        """Undo what the command did and close its savepoint; the transaction goes on."""
        self._control("ROLLBACK TO command")
        self._control("RELEASE command")

    def undo(self) -> None:
        """Undo what the command did and leave its savepoint open: it may begin anew."""
        self._control("ROLLBACK TO command")

    def commit(self) -> None:
        """Make the transaction durable. May run in another thread while nothing else does.

        Raises:
            OutcomeUnknown: it failed; the transaction may survive a restart or not, and this
                writer must not be used again.
        """
        try:
            self._control("COMMIT")
        except Exception as error:
            # A checkpoint of what a failed fsync left behind could spread it.
            self.keep_log()
            raise OutcomeUnknown from error

    def rollback(self) -> None:
        """Undo the transaction if there still is one."""
        if self.in_transaction:
            self._control("ROLLBACK")

    def keep_log(self) -> None:
        """Let `close` leave the log: the next start sees it and looks at the file first."""
        self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def let_log_go(self) -> None:
        """Let `close` remove the log again, after everything in it has reached the file."""
        self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)

    def close(self) -> None:
        """Close the file. As the last connection it empties and removes the log, unless kept."""
        self._closed = True
        self.connection.authorizer = None
        self.connection.set_wal_hook(None)
        self.connection.close()

    @contextmanager
    def nested(self) -> Generator[None]:
        """Run a block of a command in a savepoint of its own; an exception undoes the block."""
        self.savepoint()
        try:
            yield
        except BaseException:
            if self.in_transaction:
                self.rollback_to()
            raise
        self.release()

    def _control(self, statement: str) -> None:
        running, self.in_command = self.in_command, False
        try:
            self.connection.execute(statement, can_cache=False)
        finally:
            self.in_command = running

    def _verify_unchanged(self) -> None:
        if self._read_schema_version() != self._schema_version:
            raise StateIncompatibleError("the schema changed while it was open")
        verify_schema_meta(self.connection)

    def _read_schema_version(self) -> int:
        found = self.connection.execute("PRAGMA schema_version", can_cache=False).get
        assert isinstance(found, int), "SQLite answers with a number"
        return found

    def _note_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.wal_frames = pages
        return apsw.SQLITE_OK

    def _authorize(self, operation: int, first: str | None, *rest: str | None) -> int:
        if operation in _READING:
            return apsw.SQLITE_OK
        if operation in _WRITING and first is not None and not first.startswith(_OWN_TABLES):
            return apsw.SQLITE_OK
        if not self.in_command and (operation in _CONTROL or _asks(operation, first, rest[0])):
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY


class Reader:
    """A connection that can only SELECT.

    Attributes:
        connection: for queries; one statement is one consistent view, `snapshot` spans several.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        """Take over an open, configured and verified read-only connection."""
        self.connection = connection
        self._in_control = False
        self._is_closed = False
        connection.authorizer = self._authorize

    @contextmanager
    def snapshot(self) -> Generator[apsw.Connection]:
        """Let several queries see the same state. Keep it short: it holds up checkpoints."""
        self._control("BEGIN")
        try:
            yield self.connection
        finally:
            if self.connection.in_transaction:
                self._control("ROLLBACK")

    def close(self) -> None:
        """Close the connection, once; the log stays as it is."""
        if not self._is_closed:
            self._is_closed = True
            self.connection.authorizer = None
            self.connection.close()

    def _control(self, statement: str) -> None:
        self._in_control = True
        try:
            self.connection.execute(statement, can_cache=False)
        finally:
            self._in_control = False

    def _authorize(self, operation: int, first: str | None, *rest: str | None) -> int:
        if operation in _READING:
            return apsw.SQLITE_OK
        if operation == apsw.SQLITE_TRANSACTION and self._in_control:
            return apsw.SQLITE_OK
        return apsw.SQLITE_OK if _asks(operation, first, rest[0]) else apsw.SQLITE_DENY


def _asks(operation: int, first: str | None, second: str | None) -> bool:
    """Say whether a statement only asks something of the file itself."""
    return operation == apsw.SQLITE_PRAGMA and first in READER_PRAGMAS and second is None
