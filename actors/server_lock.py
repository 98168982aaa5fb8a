"""Be the only server of one state directory (README 19).

The flock on a file that is never removed is the lock; the JSON file beside it only says who holds
it. Whoever gets the flock knows that the previous holder let go of it or is gone; one that still
lives is waited for, because its last commit may be under way.
"""

from dataclasses import dataclass
from typing import Final

import trio

from actors.errors import AlreadyRunning
from pi_workflows.protocol.paths import StatePaths
from runtime.errors import ForeignFile
from runtime.identity import Liveness
from runtime.lock_file import LockHolder, read_lock_file, remove_lock_file, write_lock_file
from runtime.log import Log
from runtime.machine_files import ExclusiveLock, MachineFiles
from runtime.network import Network
from runtime.processes import ProcessTable
from runtime.world import World

PROBE_S: Final = 0.5
STARTING_WAIT_S: Final = 10.0
"""How long a holder that does not answer yet may be starting or stopping."""

RELEASED_WAIT_S: Final = 5.0
_RETRY_S: Final = 0.1
_HELLO_BYTES: Final = 4_096


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
    paths: StatePaths, holder: LockHolder, world: World, log: Log
) -> Locked:
    """Take the lock and write who holds it.

    Raises:
        AlreadyRunning: a holder answers on the socket, or does not let go in time.
        OSError: the lock file cannot be made.
    """
    lock = world.files.lock(paths.flock)
    give_up_at = trio.current_time() + STARTING_WAIT_S
    while not lock.try_acquire():
        if await _answers(paths, world.network):
            raise AlreadyRunning(_named_pid(paths, world.files))
        if trio.current_time() >= give_up_at:
            raise AlreadyRunning(_named_pid(paths, world.files))
        await trio.sleep(_RETRY_S)
    try:
        predecessor = _read(paths, world.files, log)
        if predecessor is not None:
            await _await_end(predecessor, world.processes)
        write_lock_file(paths.lock, holder, world.files)
    except BaseException:
        lock.release()
        raise
    return Locked(lock, holder, predecessor)


async def _await_end(predecessor: LockHolder, processes: ProcessTable) -> None:
    """Wait for a holder that has let go of the lock but still lives.

    Raises:
        AlreadyRunning: it does not end.
    """
    if processes.is_alive(predecessor.identity) is not Liveness.ALIVE:
        return
    with trio.move_on_after(RELEASED_WAIT_S):
        await processes.wait_gone(predecessor.identity)
        return
    raise AlreadyRunning(predecessor.identity.pid)


async def _answers(paths: StatePaths, network: Network) -> bool:
    """Say whether somebody says hello on the socket within 500 ms."""
    with trio.move_on_after(PROBE_S):
        try:
            async with await network.connect(paths.socket) as stream:
                return bool(await stream.receive_some(_HELLO_BYTES))
        except OSError:
            return False
    return False


def _read(paths: StatePaths, files: MachineFiles, log: Log) -> LockHolder | None:
    try:
        return read_lock_file(paths.lock, files)
    except ForeignFile as foreign:
        log.warning("lock_file_unreadable", error=str(foreign))
        return None


def _named_pid(paths: StatePaths, files: MachineFiles) -> int | None:
    try:
        named = read_lock_file(paths.lock, files)
    except ForeignFile:
        return None
    return named.identity.pid if named is not None else None
