"""Be the only server of one state directory (README 19).

The flock on a file that is never removed is the lock; the JSON file beside it only says who holds
it. Whoever gets the flock and finds nobody alive behind it is the server; nobody is probed then.
Otherwise somebody is in the way, and what is done about it depends on what can be proven:

- it answers: this start is refused at once;
- it is silent and its claim has lapsed: exactly that process is killed, after a second look;
- it is silent with a live claim, or only just starting: it is waited for, and then this start is
  refused; the claim of a frozen server lapses by itself, and the next start displaces it;
- it is old, has no claim and stays silent: it is stuck in its start or at its end, and killed;
- nothing can be proven: it is waited for and never signalled.
"""

from dataclasses import dataclass
from typing import Final

import trio

from actors.errors import AlreadyRunning
from actors.lock_standing import Judged, LockJudge, Standing
from actors.state_files import StateFiles
from pi_workflows.protocol.paths import StatePaths
from runtime.lock_file import LockHolder, remove_lock_file, write_lock_file
from runtime.log import Log
from runtime.machine_files import ExclusiveLock, MachineFiles
from runtime.world import World
from store.host import HOST_CLAIM_MS

PATIENCE_S: Final = 8.0
"""How long a silent holder of the lock may be starting or stopping.

Less than a client waits for the server it has started, so that it hears why that gave up."""

LAPSE_WAIT_S: Final = HOST_CLAIM_MS / 1000 + PATIENCE_S
"""How long the claim of somebody unprovable, who has let go of the flock, is waited for."""

_RETRY_S: Final = 0.1
_LOOKS_BEFORE_A_KILL: Final = 2


@dataclass(frozen=True, slots=True)
class Locked:
    """The lock, held.

    Attributes:
        predecessor: who the file named before; None after an orderly stop.
    """

    lock: ExclusiveLock
    holder: LockHolder
    predecessor: LockHolder | None

    def release(self, paths: StatePaths, files: MachineFiles) -> None:
        """Remove the information, then let go."""
        remove_lock_file(paths.lock, self.holder, files)
        self.lock.release()


async def acquire_server_lock(
    paths: StatePaths, holder: LockHolder, world: World, state: StateFiles, log: Log
) -> Locked:
    """Take the lock and write who holds it.

    Cancelled: the lock is not held.

    Raises:
        AlreadyRunning: a holder answers on the socket, or does not let go in time.
        ProcessesSurvived: a deaf holder was killed and has not ended.
        OSError: the lock file cannot be made.
    """
    lock = world.files.lock(paths.flock)
    try:
        predecessor = await _take(lock, LockJudge(paths, world, state, log), log)
        write_lock_file(paths.lock, holder, world.files)
    except BaseException:
        lock.release()
        raise
    return Locked(lock, holder, predecessor)


class _Wait:
    """One wait for the lock, over all its looks."""

    def __init__(self, log: Log) -> None:
        self._log: Final = log
        self._since: Final = trio.current_time()
        self._looks = 0
        self._last: Judged | None = None

    def saw(self, found: Judged) -> None:
        """Note a look at somebody who is in the way."""
        last, self._last = self._last, found
        self._looks = self._looks + 1 if last is not None and last.holder == found.holder else 1
        if last is None or last.standing is not found.standing:
            self._log.info("start_waits", pid=found.pid, standing=found.standing.value)

    def has_lasted(self, seconds: float) -> bool:
        return trio.current_time() - self._since >= seconds

    def is_over_for(self, found: Judged) -> bool:
        """Say whether the holder is proven, alive, of no use, and was given its time."""
        match found.standing:
            case Standing.LAPSED:
                return self._looks >= _LOOKS_BEFORE_A_KILL
            case Standing.CLAIMLESS:
                return self.has_lasted(PATIENCE_S)
            case _:
                return False


async def _take(lock: ExclusiveLock, judge: LockJudge, log: Log) -> LockHolder | None:
    """Take the flock once nobody is alive behind it; return who was named."""
    wait = _Wait(log)
    while True:
        is_ours = lock.try_acquire()
        found = await judge.look(is_ours=is_ours)
        if found.standing is Standing.FREE:
            return found.holder
        if found.standing is Standing.ANSWERS:
            raise AlreadyRunning(found.pid)
        wait.saw(found)
        if wait.is_over_for(found):
            await judge.displace(found)
        elif is_ours and found.standing is Standing.UNKNOWN and not found.left_ms:
            return found.holder
        elif wait.has_lasted(LAPSE_WAIT_S if is_ours else PATIENCE_S):
            raise _refusal(found)
        await trio.sleep(_RETRY_S)


def _refusal(found: Judged) -> AlreadyRunning:
    match found.standing:
        case Standing.CLAIMING:
            left_s = -(-found.left_ms // 1000)
            return AlreadyRunning(
                found.pid,
                f"does not answer. Its claim lapses in {left_s} s; then a start takes over",
            )
        case Standing.YOUNG:
            return AlreadyRunning(found.pid, "is starting and does not answer yet")
        case _:
            return AlreadyRunning(found.pid, "holds the lock and does not answer")
