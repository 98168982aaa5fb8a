"""The one writer: takes what waits, runs it in one transaction, commits once, then answers.

What it guarantees:

- *Cancelled means not executed*: a cancelled caller's command was withdrawn before it ran, or its
  outcome is awaited and returned;
- an answer is given only after COMMIT returned, so it is durable;
- renewals and cancels go first; a batch is bounded by count and by time, and keeps the loop for a
  few milliseconds at a time: many small batches would commit more often than the disk likes;
- statements run on the loop, COMMIT in the world's commit executor (measured: a writer thread
  collapses a hundredfold as soon as the loop is busy);
- nobody of a batch is answered before its COMMIT returned, refused callers included: a refusal may
  rest on what a neighbour wrote;
- a failed COMMIT or a lost epoch ends the store: every caller of the batch learns which, nobody
  is answered from a guess, and the server stops.

Commands may be run twice (`store.batch`): what one does besides writing must bear that.
"""

import enum
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import trio
from trio_util import AsyncBool

from actors.batch_pace import Pace
from actors.store_asking import Asking, LongCommand, as_exception, own_copy
from runtime.mailbox import Lane, Letter, Mailbox
from runtime.sync_points import SyncPoint
from runtime.world import World
from store.batch import Batch, Command, TransactionDied
from store.damage import StateDamaged
from store.database import Writer
from store.errors import (
    EpochLost,
    OutcomeUnknown,
    StateBusyError,
    StateIncompatibleError,
    StoreDown,
)
from store.host import HostClaim
from store.transaction import Change, SavepointNeeded, Transaction
from store.wal import CheckpointMode, checkpoint

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
_Letter = Letter[Command[Any], Any]

# Looked up once: before Python 3.12 that costs more than the call.
_BEFORE_BEGIN: Final = SyncPoint.COMMAND_BEFORE_BEGIN
_AFTER_BEGIN: Final = SyncPoint.COMMAND_AFTER_BEGIN
_AFTER_COMMAND: Final = SyncPoint.COMMAND_AFTER_COMMAND
_BEFORE_COMMIT: Final = SyncPoint.COMMAND_BEFORE_COMMIT
_AFTER_COMMIT: Final = SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY
_AFTER_REPLY: Final = SyncPoint.COMMAND_AFTER_REPLY

INBOX_MAX: Final = 256
BATCH_MAX: Final = 128
PORTION_MAX: Final = 16
"""Commands taken at a time; between two portions urgent ones go first."""

BUSY_S: Final = 5.0
BUSY_RETRY_FIRST_S: Final = 0.001
BUSY_RETRY_MAX_S: Final = 0.05

CHECKPOINT_FRAMES: Final = 2_000
"""Frames of the log (4 KiB each) at which a checkpoint is due while busy."""

IDLE_BEFORE_CHECKPOINT_S: Final = 2.0
IDLE_BEFORE_CHECKPOINT_MAX_S: Final = 64.0
"""Between two tries while a reader holds the log and nothing is written."""

LOG_FRAMES_MAX: Final = 32_768
"""Frames (128 MiB) that may pile up behind a reader: in the end all of them are one checkpoint,
and a renewal waits behind it."""

_FATAL: Final = (OutcomeUnknown, EpochLost, StateIncompatibleError, StoreDown, StateDamaged)


class _Fate(enum.Enum):
    """What became of a group."""

    ANSWERED = enum.auto()
    NEEDS_SAVEPOINTS = enum.auto()
    DIED = enum.auto()


class StoreActor:
    """Owner of the writing connection."""

    def __init__(
        self,
        writer: Writer,
        world: World,
        *,
        checkpoint_frames: int = CHECKPOINT_FRAMES,
        log_frames_max: int = LOG_FRAMES_MAX,
    ) -> None:
        """Take over an open writer; `serve` must run for anything to be answered."""
        self._checkpoint_frames: Final = checkpoint_frames
        self._log_frames_max: Final = log_frames_max
        self._world: Final = world
        self._writer: Final = writer
        self._batch: Final = Batch(writer, world.ids, world.clock.wall_ms)
        self._mailbox: Final = Mailbox[Command[Any], Any](INBOX_MAX)
        self._listeners: Final[list[Callable[[frozenset[Change]], None]]] = []
        self._long: Final[deque[_Letter]] = deque()
        self._is_log_new = False
        self._checkpoint_due = checkpoint_frames
        self._is_stopping = False
        self._owes_check = False
        self._is_log_crowded: Final = AsyncBool()
        writer.keep_log()

    @property
    def is_log_crowded(self) -> AsyncBool:
        """True while more than `LOG_FRAMES_MAX` frames wait for a reader to leave."""
        return self._is_log_crowded

    @property
    def claim(self) -> HostClaim | None:
        """The server's claim that fences every batch; None before it is taken."""
        return self._batch.claim

    def fence(self, claim: HostClaim | None) -> None:
        """From now on check this claim at the start of every batch."""
        self._batch.claim = claim

    def listen(self, listener: Callable[[frozenset[Change]], None]) -> None:
        """Call `listener` on the loop after each COMMIT with what changed; it must not block."""
        self._listeners.append(listener)

    async def do(
        self,
        command: Callable[Concatenate[Transaction, P], ResultT],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ResultT:
        """Run a store command in the next batch and return its result once it is durable.

        Cancelled: the command was withdrawn before it ran, or this returns its real outcome.

        Raises:
            Rejected: the command was refused; nothing of it was written.
            OutcomeUnknown: the commit failed; ask again after the restart.
            StateBusyError: another process held the write lock for 5,000 ms; nobody waits longer.
            StoreDown: the store has stopped; the command did not run.
        """
        return await self._ask(lambda tx: command(tx, *args, **kwargs), Lane.NORMAL)

    async def do_urgent(
        self,
        command: Callable[Concatenate[Transaction, P], ResultT],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ResultT:
        """Like `do`, ahead of everything that waits in the normal lane: renewals and cancels."""
        return await self._ask(lambda tx: command(tx, *args, **kwargs), Lane.URGENT)

    async def insist(self, command: Command[ResultT]) -> ResultT:
        """Like `do`, again and again while another process holds the write lock.

        For what must not be lost to somebody's long transaction; a command that was refused as
        busy did not run. Bounded by whoever cancels it: a tenure does when its lease runs out.
        """
        while True:
            with suppress(StateBusyError):
                return await self._ask(command, Lane.NORMAL)

    async def do_long(self, command: Command[ResultT]) -> ResultT:
        """Like `insist`, but the command runs alone and off the loop, in the commit executor.

        For what takes more than milliseconds, such as storing a large body. The loop goes on
        meanwhile; other commands wait.
        """
        while True:
            with suppress(StateBusyError):
                return cast("ResultT", await self._mailbox.ask(LongCommand(command)))

    async def _ask(self, command: Callable[..., ResultT], lane: Lane) -> ResultT:
        return cast("ResultT", await self._mailbox.ask(command, lane=lane))

    async def serve(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Answer commands until cancelled, stopped, or the store fails.

        A checkpoint is one slice of the commit thread's work: at most `CHECKPOINT_FRAMES` and the
        batch that went beyond them, or what a reader has held back until it left.

        Raises:
            OutcomeUnknown, EpochLost, StateIncompatibleError, StoreDown: the store is finished.
            StorageFault: a checkpoint failed; the log keeps everything, and the store is finished.
            StateDamaged: a command, a checkpoint or a reader found the file damaged.
        """
        with self._mailbox:
            task_status.started()
            try:
                while True:
                    letter = self._long.popleft() if self._long else await self._next_letter()
                    with trio.CancelScope(shield=True):
                        await self.carry_out([letter])
                        if self._writer.wal_frames >= self._checkpoint_due:
                            await self._checkpoint(CheckpointMode.PASSIVE)
            except StoreDown:
                if not self._is_stopping:
                    raise
            finally:
                self.stop()
                for letter in self._long:
                    letter.refuse(StoreDown())

    def end_damaged(self) -> None:
        """End `serve`: a reader has found the file damaged, and nothing more is written to it."""
        self._mailbox.close(StateDamaged)

    def stop(self) -> None:
        """End `serve`: what a batch has taken is still answered, everything else is refused."""
        self._is_stopping = True
        self._mailbox.close(StoreDown)

    def owe_check(self) -> None:
        """Let even an orderly end leave the log: the next start then looks at the file first."""
        self._owes_check = True

    def check_passed(self) -> None:
        """The file was looked at and is sound; an orderly end may remove the log."""
        self._owes_check = False

    async def close(self) -> None:
        """Empty the log into the database and close it; the actor serves no more.

        Any other end leaves the log: it is what tells the next start that this one was unclean.

        Raises:
            StorageFault: the disk is full or failing; the log stays and nothing is lost.
        """
        with trio.CancelScope(shield=True):
            try:
                if not self._owes_check:
                    await self._checkpoint(CheckpointMode.TRUNCATE)
                    self._writer.let_log_go()
            finally:
                self._writer.close()

    async def _next_letter(self) -> _Letter:
        """Wait for work; use the first quiet moment after work to move the log."""
        quiet_s = IDLE_BEFORE_CHECKPOINT_S
        while self._is_log_new and not len(self._mailbox):
            with trio.move_on_after(quiet_s):
                return await self._mailbox.take()
            with trio.CancelScope(shield=True):
                await self._checkpoint(CheckpointMode.PASSIVE)
            quiet_s = min(quiet_s * 2, IDLE_BEFORE_CHECKPOINT_MAX_S)
        return await self._mailbox.take()

    async def _checkpoint(self, mode: CheckpointMode) -> None:
        done = await self._world.commits.run(partial(checkpoint, self._writer.connection, mode))
        # What a reader holds back stays in the log until a quiet moment finds the reader gone;
        # while there is none, the next try has to be worth its fsync.
        self._is_log_new = not done.complete
        left = 0 if done.complete else done.frames
        self._checkpoint_due = left + self._checkpoint_frames
        self._is_log_crowded.value = left >= self._log_frames_max

    async def carry_out(self, taken: list[Asking]) -> None:
        """Run and answer a group, and what else waits; for `serve`, or a driver in its place.

        What could not be kept of the group runs again, more carefully: first without savepoints,
        then with them; one command at a time if one of them makes SQLite throw the transaction
        away.

        Args:
            taken: at least one; a long one comes alone.

        Raises:
            OutcomeUnknown, EpochLost, StateIncompatibleError, StoreDown, StateDamaged: the store
                is finished; everybody in the group has been told.
        """
        try:
            first = taken[0]
            if isinstance(first.message, LongCommand):
                await self._run_long(first, first.message.command)
                return
            fate = await self._run_group(taken, self._batch.run_lightly, more=True)
            if fate is _Fate.NEEDS_SAVEPOINTS:
                fate = await self._run_group(taken, self._batch.run, more=True)
            if fate is _Fate.DIED:
                for letter in taken:
                    await self._run_group([letter], self._batch.run)
        except _FATAL as fault:
            for letter in taken:
                letter.refuse(own_copy(fault))
            self._mailbox.close(StoreDown)
            raise

    async def _run_group(
        self, taken: list[Asking], run: Callable[[Command[Any]], Any], *, more: bool = False
    ) -> _Fate:
        """Run and commit `taken` and, if `more`, what else waits.

        Letters taken from the mailbox are added to `taken`, so that the caller can answer them
        if the store fails; one that is answered for good is removed.
        """
        reached = self._world.sync_points.reached
        reached(_BEFORE_BEGIN)
        try:
            await self._begin()
        except StateBusyError as busy:
            self._refuse_busy(taken, busy)
            return _Fate.ANSWERED
        reached(_AFTER_BEGIN)
        answers: list[Callable[[], None]] = []
        pace = Pace(self._world.clock)
        index = 0
        while index < len(taken):
            letter = taken[index]
            index += 1
            await pace.give_turn()
            try:
                answers.append(partial(letter.answer, run(letter.message)))
            except SavepointNeeded:
                self._batch.abandon()
                return _Fate.NEEDS_SAVEPOINTS
            except TransactionDied as died:
                taken.remove(letter)
                letter.refuse(as_exception(died.cause))
                return _Fate.DIED
            except Exception as error:  # noqa: BLE001 - every error of a command is its caller's
                answers.append(partial(letter.refuse, as_exception(error)))
            reached(_AFTER_COMMAND)
            if more and index == len(taken) < BATCH_MAX and pace.has_time:
                self._take_more(taken, min(PORTION_MAX, BATCH_MAX - index))
        await self._commit(answers)
        return _Fate.ANSWERED

    def _take_more(self, taken: list[Asking], count: int) -> None:
        for letter in self._mailbox.take_waiting(count):
            (self._long if isinstance(letter.message, LongCommand) else taken).append(letter)

    def _refuse_busy(self, taken: list[Asking], busy: StateBusyError) -> None:
        """Refuse a group, and at once whoever would only wait for the same lock after it."""
        self._take_more(taken, len(self._mailbox))
        for letter in taken:
            letter.refuse(own_copy(busy))

    async def _run_long(self, letter: Asking, command: Command[Any]) -> None:
        """Run one command alone, in the commit executor, and commit it."""
        reached = self._world.sync_points.reached
        reached(_BEFORE_BEGIN)
        try:
            await self._begin()
        except StateBusyError as busy:
            self._refuse_busy([letter], busy)
            return
        reached(_AFTER_BEGIN)
        run = partial(self._batch.run, command, may_take_long=True)
        try:
            answer = partial(letter.answer, await self._world.commits.run(run))
        except TransactionDied as died:
            letter.refuse(as_exception(died.cause))
            return
        except Exception as error:  # noqa: BLE001 - every error of a command is its caller's
            answer = partial(letter.refuse, as_exception(error))
        reached(_AFTER_COMMAND)
        await self._commit([answer])

    async def _begin(self) -> None:
        """Begin, waiting on the loop (never in SQLite) while another process holds the lock."""
        give_up_at: float | None = None
        pause = BUSY_RETRY_FIRST_S
        while True:
            try:
                self._batch.begin()
            except StateBusyError:
                if give_up_at is None:
                    give_up_at = trio.current_time() + BUSY_S
                if trio.current_time() + pause > give_up_at:
                    raise
                await trio.sleep(pause)
                pause = min(pause * 2, BUSY_RETRY_MAX_S)
            else:
                return

    async def _commit(self, answers: list[Callable[[], None]]) -> None:
        reached = self._world.sync_points.reached
        reached(_BEFORE_COMMIT)
        changes = await self._world.commits.run(self._batch.commit)
        self._is_log_new = True
        reached(_AFTER_COMMIT)
        for answer in answers:
            answer()
        reached(_AFTER_REPLY)
        if changes:
            for listener in self._listeners:
                listener(changes)
