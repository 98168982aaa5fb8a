"""Group commit without I/O policy: many commands in one transaction, undone one by one.

What it guarantees:

- a refused command undoes itself alone; its neighbours commit;
- a command needs a savepoint only if it fails after it has written. So a batch is tried without
  (`run_lightly`), and begun again with a savepoint for each command (`run`) when one turns out
  to be needed: the savepoints were 40 of the 240 us of a command in a group of 64, and a failure
  after a write is rare. Both ways leave the same rows;
- no command runs before the epoch fence has held, and all of a batch share one `now`;
- an error that made SQLite throw the whole transaction away (`OR ROLLBACK`, a failed write, an
  interrupt) is reported as `TransactionDied`, so that the caller runs the innocent ones again;
- nothing is answered from here: what a batch did counts only after `commit` returned.

The actor that owns the writer decides when to begin, how much to take and where COMMIT runs.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import apsw

from pi_workflows.protocol.states import ResourceType
from store import viewer_rows
from store.database import Writer
from store.errors import Rejected, StoreError
from store.host import HostClaim, check_fence
from store.rows import translated
from store.transaction import Change, IdSource, SavepointNeeded, Transaction

ResultT = TypeVar("ResultT")
Command = Callable[[Transaction], ResultT]


class TransactionDied(StoreError):
    """A command took the whole transaction with it; `cause` is what it raised."""

    code = "TRANSACTION_DIED"

    def __init__(self, cause: BaseException) -> None:
        super().__init__("the transaction was rolled back by SQLite")
        self.cause = cause


class Batch:
    """One transaction at a time on the writing connection."""

    def __init__(self, writer: Writer, ids: IdSource, wall_ms: Callable[[], int]) -> None:
        """`wall_ms` is read once per batch, after the write lock is held."""
        self._writer: Final = writer
        self._ids: Final = ids
        self._wall_ms: Final = wall_ms
        self._now = 0
        self._changes: set[Change] = set()
        self.claim: HostClaim | None = None

    def begin(self) -> None:
        """Take the write lock, hold the fence, read the clock.

        Raises:
            StateBusyError: another connection holds the lock; nothing was begun.
            EpochLost: another server has taken over; nothing was begun.
            StateIncompatibleError, StoreDown: as `Writer.begin_immediate`.
        """
        self._writer.begin_immediate()
        self._changes = set()
        if self.claim is not None:
            try:
                check_fence(self._writer.connection, self.claim)
            except BaseException:
                self._writer.rollback()
                raise
        self._now = self._wall_ms()

    def run(self, command: Command[ResultT], *, may_take_long: bool = False) -> ResultT:
        """Run one command in its own savepoint.

        Args:
            may_take_long: this is not the loop, and the command is alone in the batch.

        Raises:
            TransactionDied: the transaction is gone, with everything the batch did before.
            BaseException: whatever the command raised; it alone was undone.
        """
        writer = self._writer
        tx = Transaction(
            writer.connection, self._now, writer, self._ids, may_take_long=may_take_long
        )
        writer.savepoint()
        try:
            result = self._carry_out(command, tx)
            writer.release()
        except BaseException as error:
            if not writer.in_transaction:
                raise TransactionDied(error) from error
            writer.rollback_to()
            raise
        self._changes |= tx.changes
        return result

    def run_lightly(self, command: Command[ResultT]) -> ResultT:
        """Run one command without a savepoint.

        Raises:
            SavepointNeeded: it failed, or would undo itself, after it had written. The batch can
                only be abandoned; begun again, all its commands go through `run`.
            TransactionDied: as `run`.
            BaseException: whatever the command raised; it had written nothing.
        """
        writer = self._writer
        written = writer.connection.total_changes
        tx = Transaction(writer.connection, self._now, writer, self._ids, written())
        try:
            result = self._carry_out(command, tx)
        except SavepointNeeded:
            raise
        except BaseException as error:
            if not writer.in_transaction:
                raise TransactionDied(error) from error
            if written() != tx.undoable_at:
                raise SavepointNeeded from error
            raise
        self._changes |= tx.changes
        return result

    def _carry_out(self, command: Command[ResultT], tx: Transaction) -> ResultT:
        self._writer.in_command = True
        try:
            result = command(tx)
            _advance_views(tx)
        finally:
            self._writer.in_command = False
        return result

    def commit(self) -> frozenset[Change]:
        """Make the batch durable; return what changed. Runs in the commit thread.

        Raises:
            OutcomeUnknown: the batch may or may not survive; the writer is finished.
        """
        self._writer.commit()
        return frozenset(self._changes)

    def abandon(self) -> None:
        """Undo the batch, if there is anything left to undo."""
        self._writer.rollback()


def run_alone(batch: Batch, command: Command[ResultT]) -> ResultT:
    """Run one command in a transaction of its own, on this thread: for start-up and for tests.

    Raises:
        OutcomeUnknown: the commit failed; what the batch did may survive.
        StorageFault, StateDamaged: the disk is full, failing or damaged; nothing was written.
        BaseException: whatever else the command raised; nothing was written.
    """
    batch.begin()
    with _abandoned_on_failure(batch):
        result = batch.run(command)
    batch.commit()
    return result


def run_alone_each(batch: Batch, commands: Sequence[Command[object]]) -> list[Rejected | None]:
    """Run commands in one transaction, on this thread; one that is refused undoes itself alone.

    Returns:
        Of each, in order, why it was refused; None when it was carried out.

    Raises:
        OutcomeUnknown: the commit failed; what the batch did may survive.
        StorageFault, StateDamaged: the disk is full, failing or damaged; nothing was written.
        BaseException: whatever else a command raised; nothing was written.
    """
    batch.begin()
    with _abandoned_on_failure(batch):
        refusals = [_refusal(batch, command) for command in commands]
    batch.commit()
    return refusals


@contextmanager
def _abandoned_on_failure(batch: Batch) -> Generator[None]:
    """Undo the batch when the block fails; there is nobody here to run the innocent ones again."""
    try:
        yield
    except BaseException as error:
        batch.abandon()
        cause = error.cause if isinstance(error, TransactionDied) else error
        known = translated(cause) if isinstance(cause, apsw.Error) else None
        if cause is error and known is None:
            raise
        raise (known or cause) from error


def _refusal(batch: Batch, command: Command[object]) -> Rejected | None:
    try:
        batch.run(command)
    except Rejected as refused:
        return refused
    return None


def _advance_views(tx: Transaction) -> None:
    for change in tx.changes:
        if change.resource_type == ResourceType.RUN:
            viewer_rows.advance(tx, change.aggregate_key)
