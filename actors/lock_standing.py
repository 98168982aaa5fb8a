"""What can be said about the process that the server lock names (README 19).

The flock says that somebody has the lock, the JSON beside it says who, the socket says whether it
answers, the claim in the database when it last gave a sign of life. Only a process that is proven
to be the named one, lives, does not answer and has no live claim is ever ended.
"""

import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

import trio

from actors.errors import AlreadyRunning
from actors.state_files import StateFiles
from pi_workflows.protocol.paths import StatePaths
from runtime.errors import ForeignFile, ProcessesSurvived
from runtime.identity import Liveness, ProcessIdentity
from runtime.lock_file import LockHolder, read_lock_file
from runtime.log import Log
from runtime.session_end import END_WAIT_S, STUCK_HINT
from runtime.world import World
from store.host import HOST_CLAIM_MS, HostRow

PROBE_S: Final = 0.5
_HELLO_BYTES: Final = 4_096


class Standing(StrEnum):
    """What a starting server has in front of it."""

    FREE = "free"
    """Nobody: no file, or a process that is proven gone, or this very process."""
    ANSWERS = "answers"
    """A server that says hello."""
    UNKNOWN = "unknown"
    """Somebody silent of whom nothing is proven; never signalled."""
    YOUNG = "young"
    """Silent and younger than a claim lasts: it is starting."""
    CLAIMING = "claiming"
    """Silent, its claim is live: frozen, or very busy."""
    CLAIMLESS = "claimless"
    """Silent, old and without a claim: stuck in its start or at its end."""
    LAPSED = "lapsed"
    """Silent, its claim has lapsed: of no use to anybody."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One look at the lock.

    Attributes:
        holder: the named process; None when nobody is named.
        left_ms: until the live claim lapses; 0 without one.
    """

    standing: Standing
    holder: LockHolder | None = None
    left_ms: int = 0

    @property
    def pid(self) -> int | None:
        """The process that is named."""
        return None if self.holder is None else self.holder.identity.pid


@final
class LockJudge:
    """Looks at the lock, and ends who holds it up."""

    def __init__(self, paths: StatePaths, world: World, state: StateFiles, log: Log) -> None:
        self._paths: Final = paths
        self._world: Final = world
        self._state: Final = state
        self._log: Final = log

    async def look(self, *, is_ours: bool) -> Judged:
        """Say who is in the way. With the flock in hand a process proven gone is not probed.

        Args:
            is_ours: the flock is held by the caller.
        """
        holder = self.named() or (self._claimant() if is_ours else None)
        liveness = Liveness.GONE if holder is None else self._liveness(holder)
        if is_ours and (liveness is Liveness.GONE or self._is_self(holder)):
            return Judged(Standing.FREE, holder)
        if await self._answers():
            return Judged(Standing.ANSWERS, holder)
        if holder is None or liveness is not Liveness.ALIVE or self._is_self(holder):
            row = self._state.host_row() if is_ours else None
            return Judged(Standing.UNKNOWN, holder, 0 if row is None else self._unlapsed(row))
        return self._deaf(holder)

    def named(self) -> LockHolder | None:
        """Return whom the file beside the lock names; None if there is no readable one."""
        try:
            return read_lock_file(self._paths.lock, self._world.files)
        except ForeignFile as foreign:
            self._log.warning("lock_file_unreadable", error=str(foreign))
            return None

    async def displace(self, found: Judged) -> None:
        """End exactly the named process and wait for its end; bounded.

        Nothing is done when the lock has come to name another meanwhile.

        Raises:
            AlreadyRunning: it belongs to another user.
            ProcessesSurvived: it does not end, though it was killed.
        """
        holder = found.holder
        assert holder is not None, "nobody is ended who is not named"
        if self.named() not in {holder, None}:
            return
        identity = holder.identity
        try:
            was_there = self._world.processes.signal_exactly(identity, signal.SIGKILL)
        except PermissionError:
            raise AlreadyRunning(identity.pid) from None
        if was_there:
            self._log.warning("server_displaced", pid=identity.pid, serverId=holder.server_id)
        with trio.move_on_after(END_WAIT_S):
            await self._world.processes.wait_gone(identity)
            return
        raise ProcessesSurvived(
            f"the deaf server (PID {identity.pid}) did not end within {END_WAIT_S:g} s of SIGKILL",
            hint=STUCK_HINT,
        )

    def _deaf(self, holder: LockHolder) -> Judged:
        """Tell a silent server that may yet speak from one that will not.

        The database is not opened while a young holder may be opening it.
        """
        age_s = self._world.processes.age_s(holder.identity)
        if age_s is None or age_s * 1000 < HOST_CLAIM_MS:
            return Judged(Standing.YOUNG, holder)
        row = self._state.host_row()
        if row is None or _process_of(row) != holder.identity:
            return Judged(Standing.CLAIMLESS, holder)
        left_ms = row.left_ms(self._world.clock.wall_ms())
        return Judged(Standing.CLAIMING if left_ms else Standing.LAPSED, holder, left_ms)

    def _claimant(self) -> LockHolder | None:
        """Return whom the database names, for a lock whose files somebody has removed.

        After an orderly stop there is no log and nobody is named; then nothing is opened.
        """
        row = self._state.host_row() if self._state.wal_bytes() else None
        process = None if row is None else _process_of(row)
        if row is None or process is None or row.host_id is None:
            return None
        return LockHolder(process, row.host_id)

    def _unlapsed(self, row: HostRow) -> int:
        return max(0, (row.expires_at or 0) - self._world.clock.wall_ms())

    def _liveness(self, holder: LockHolder) -> Liveness:
        return self._world.processes.is_alive(holder.identity)

    def _is_self(self, holder: LockHolder | None) -> bool:
        own = self._world.processes.own_pid()
        return holder is not None and holder.identity == self._world.processes.identity_of(own)

    async def _answers(self) -> bool:
        """Say whether somebody says hello on the socket within 500 ms."""
        with trio.move_on_after(PROBE_S):
            try:
                async with await self._world.network.connect(self._paths.socket) as stream:
                    return bool(await stream.receive_some(_HELLO_BYTES))
            except (OSError, trio.BrokenResourceError):
                return False
        return False


def _process_of(row: HostRow) -> ProcessIdentity | None:
    if row.pid is None or row.process_start_identity is None:
        return None
    return ProcessIdentity(row.pid, row.process_start_identity)
