"""The server's own claim between the epoch and the first heartbeat, and after a failed start."""

import contextlib
from collections.abc import Sequence
from typing import Final, TypeVar, final

import trio

from actors.heartbeat import HEARTBEAT_S
from runtime.clock import Clock
from store import host
from store.batch import Batch, Command, run_alone, run_alone_each
from store.database import Writer
from store.errors import EpochLost, OutcomeUnknown, Rejected, StateBusyError, StoreError
from store.host import HostClaim

ResultT = TypeVar("ResultT")


@final
class StartingClaim:
    """A claim that nobody else renews yet, and that a start which fails gives back.

    After an unknown outcome the file is not written again: the claim stays, and lapses because
    its process is gone.
    """

    def __init__(self, writer: Writer, batch: Batch, claim: HostClaim, clock: Clock) -> None:
        """Take over a claim that has just been committed."""
        batch.claim = claim
        self.claim: Final = claim
        self._writer: Final = writer
        self._batch: Final = batch
        self._clock: Final = clock
        self._renewed_at = clock.monotonic()
        self._is_ours = True

    def run(self, command: Command[ResultT]) -> ResultT:
        """Run one command in a transaction of its own; there is nobody yet to share one with.

        Raises:
            BaseException: whatever the command raised; nothing was written.
            OutcomeUnknown: the commit failed.
        """
        try:
            return run_alone(self._batch, command)
        except (OutcomeUnknown, EpochLost):
            self.keep()
            raise

    def run_each(self, commands: Sequence[Command[object]]) -> list[Rejected | None]:
        """Run commands in one transaction, in order; one that is refused undoes itself alone.

        Returns:
            Of each, why it was refused; None when it was carried out.

        Raises:
            BaseException: whatever else a command raised; nothing was written.
            OutcomeUnknown: the commit failed.
        """
        try:
            return run_alone_each(self._batch, commands)
        except (OutcomeUnknown, EpochLost):
            self.keep()
            raise

    async def keep_renewed(self) -> None:
        """Renew every 10 s until cancelled, beside a step of the start that waits."""
        while True:
            await trio.sleep(HEARTBEAT_S)
            self.renew_if_due()

    def renew_if_due(self) -> None:
        """Renew if the last time is 10 s ago; for steps that never wait."""
        now = self._clock.monotonic()
        if now - self._renewed_at >= HEARTBEAT_S:
            self._renewed_at = now
            with contextlib.suppress(StateBusyError):
                self.run(lambda tx: host.heartbeat(tx, self.claim))

    def keep(self) -> None:
        """Leave the claim in the file: it is released already, or must not be written again."""
        self._is_ours = False

    def give_back(self) -> None:
        """Release the claim, if it is ours and can be; whoever comes next waits for nothing."""
        if self._is_ours and not self._writer.closed:
            with contextlib.suppress(StoreError):
                self.run(lambda tx: host.release(tx, self.claim))
        self.keep()
