"""The steps by which a server comes to own its database, in order and without any waiting.

create -> open (the log is made durable first) -> look through -> take the epoch -> recover.
Whoever starts a server waits between them: `actors/startup.py` for other processes, nobody for a
harness that has the disk to itself.
"""

from functools import partial
from typing import Final, final

from actors.errors import DatabaseDamaged
from actors.services import SYSTEM
from actors.starting_claim import StartingClaim
from actors.state_files import StateFiles
from runtime.clock import Clock
from runtime.log import Log
from runtime.world import IdSource
from store import host, quick_check, recovery
from store.authority import Permit
from store.batch import Batch, run_alone
from store.database import Writer
from store.host import HostProcess
from store.runs import RunRow
from store.transaction import Reading, Transaction

RECOVERED_TOGETHER: Final = 64
"""Runs recovered in one transaction: each alone would wait for the disk."""


@final
class Owning:
    """One start's way to the database; each step needs what the one before it returned."""

    def __init__(
        self,
        state: StateFiles,
        clock: Clock,
        ids: IdSource,
        log: Log,
        *,
        check_bytes_max: int = quick_check.QUICK_CHECK_BYTES_MAX,
    ) -> None:
        """Take no step yet. `check_bytes_max`: a larger file is not looked through here."""
        self._state: Final = state
        self._clock: Final = clock
        self._ids: Final = ids
        self._log: Final = log
        self._check_bytes_max: Final = check_bytes_max
        self._is_unclean = False

    def create(self) -> None:
        """Create the file unless it is there; see `create_database` for what it raises."""
        self._state.create(self._clock.wall_ms())
        self._is_unclean = bool(self._state.wal_bytes())

    def open(self) -> Writer:
        """Open the file; may be tried again.

        Only an orderly end empties the log: a start that fails must not pass for one.

        Raises:
            StateBusyError: somebody else has it open.
            StateIncompatibleError, StatePathError, StorageFault: as `open_writer`.
        """
        writer = self._state.open_writer()
        writer.keep_log()
        return writer

    def look_through(self, writer: Writer) -> bool:
        """Look at the file after an unclean stop; False when it is too large to do that now.

        Raises:
            DatabaseDamaged: something is wrong with it.
        """
        if not self._is_unclean:
            return True
        if self._state.database_bytes() > self._check_bytes_max:
            self._log.warning("quick_check_deferred", bytesMax=self._check_bytes_max)
            return False
        if not quick_check.is_sound(Reading(writer.connection, self._clock.wall_ms())):
            raise DatabaseDamaged
        return True

    def take_epoch(
        self, writer: Writer, process: HostProcess, *, holder_gone: bool
    ) -> StartingClaim:
        """Become the server of the file; may be tried again.

        Raises:
            HostHeldError: another server's claim is live.
            OutcomeUnknown: the commit failed.
        """
        batch = Batch(writer, self._ids, self._clock.wall_ms)
        claim = run_alone(batch, lambda tx: host.acquire(tx, process, holder_gone=holder_gone))
        self._log.info("epoch_taken", epoch=claim.epoch, serverId=process.host_id)
        return StartingClaim(writer, batch, claim, self._clock)

    def expire(self, claim: StartingClaim) -> recovery.Recovered:
        """Free the leases of every earlier server and close what its children left open."""
        permit = Permit(SYSTEM)
        return claim.run(lambda tx: recovery.close_predecessor(tx, permit))

    def recover(self, writer: Writer, claim: StartingClaim) -> int:
        """Settle the effects of every run that was under way, and park it; return how many.

        A run that cannot be is left as it is, and told to the log.
        """
        permit = Permit(SYSTEM)
        under_way = recovery.under_way(Reading(writer.connection, self._clock.wall_ms()))
        for first in range(0, len(under_way), RECOVERED_TOGETHER):
            part = under_way[first : first + RECOVERED_TOGETHER]
            claim.renew_if_due()
            recovering = [partial(_recover_run, permit, run_id) for run_id in part]
            for run_id, refused in zip(part, claim.run_each(recovering), strict=True):
                if refused is not None:
                    self._log.error("run_not_recovered", runId=run_id, code=str(refused.code))
        return len(under_way)


def _recover_run(permit: Permit, run_id: str, tx: Transaction) -> RunRow:
    return recovery.recover_run(tx, permit, run_id)
