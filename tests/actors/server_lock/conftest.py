"""A lock in a real folder, and a world in which one other process may hold it."""

# ruff: noqa: ARG002 - fakes have the signatures of what they stand for

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from actors.errors import AlreadyRunning
from actors.server_lock import Locked, acquire_server_lock
from actors.state_files import DiskStateFiles
from pi_workflows.protocol.paths import StatePaths
from runtime.flock import FileLock
from runtime.identity import Liveness, ProcessIdentity
from runtime.lock_file import LockHolder, read_lock_file, write_lock_file
from runtime.log import Log, LogFile
from store.host import HOST_CLAIM_MS, HostRow

if TYPE_CHECKING:
    from runtime.world import World

Script = Callable[[trio.abc.Stream], Awaitable[None]]

OWN: Final = LockHolder(ProcessIdentity(4_300_000, "fake:own"), "server-new")
OTHER: Final = LockHolder(ProcessIdentity(4_300_001, "fake:other"), "server-old")
REUSED: Final = LockHolder(ProcessIdentity(4_300_001, "fake:earlier"), "server-old")
OLD_S: Final = 3_600.0


@dataclass
class People:
    """A process table with one other process in it.

    Attributes:
        unprovable: whether it can be told who that is.
        survives: whether SIGKILL has no effect on it.
    """

    age: float | None = OLD_S
    lives: bool = True
    unprovable: bool = False
    survives: bool = False
    protected: bool = False
    signals: list[tuple[ProcessIdentity, int]] = field(default_factory=list)
    when_killed: Callable[[], object] = lambda: None
    gone: trio.Event = field(default_factory=trio.Event)

    def own_pid(self) -> int:
        return OWN.identity.pid

    def identity_of(self, pid: int) -> ProcessIdentity | None:
        return next((one.identity for one in (OWN, OTHER) if one.identity.pid == pid), None)

    def is_alive(self, identity: ProcessIdentity) -> Liveness:
        if self.unprovable:
            return Liveness.UNPROVABLE
        is_there = identity in {OWN.identity, OTHER.identity}
        return Liveness.ALIVE if is_there and self.lives else Liveness.GONE

    def age_s(self, identity: ProcessIdentity) -> float | None:
        return None if self.age is None else self.age + trio.current_time()

    def leader_started_by(self, parent: ProcessIdentity, pid: int) -> ProcessIdentity | None:
        raise AssertionError

    def signal_exactly(self, identity: ProcessIdentity, sig: signal.Signals) -> bool:
        if self.protected:
            raise PermissionError
        if self.is_alive(identity) is not Liveness.ALIVE:
            return False
        self.signals.append((identity, sig))
        if not self.survives:
            self.end()
        return True

    async def wait_gone(self, identity: ProcessIdentity) -> None:
        if self.lives:
            await self.gone.wait()

    async def end_session(
        self, leader: ProcessIdentity, marker: str, *, within_s: float = 0
    ) -> None:
        raise AssertionError

    def end(self) -> None:
        self.lives = False
        self.when_killed()
        self.gone.set()


class Scene:
    """A lock, somebody who may hold it, and what the database says.

    Attributes:
        other: the one other process there is.
        earlier: one that had the same pid before it.
    """

    other = OTHER
    earlier = REUSED

    def __init__(self, home: Path, world: "World", log: Log) -> None:
        self.people = People()
        self.probes = 0
        self.row: HostRow | None = None
        self.paths: Final = StatePaths(home)
        self.looks_at_database = 0
        self._world: Final = replace(world, processes=self.people, network=self)
        self._log: Final = log
        self._script: Script | None = None
        self._state = DiskStateFiles(self.paths)
        self._state.host_row = self.host_row  # type: ignore[method-assign]
        self._state.wal_bytes = self.wal_bytes  # type: ignore[method-assign]
        self.other_lock: Final = FileLock(self.paths.flock)

    def host_row(self) -> HostRow | None:
        self.looks_at_database += 1
        return self.row

    def wal_bytes(self) -> int:
        return 0 if self.row is None else 4_152

    def claim(self, holder: LockHolder, beat_ago_s: float) -> None:
        """Let the database name a holder whose last sign of life is so old."""
        beat = self._world.clock.wall_ms() - round(beat_ago_s * 1000)
        pid, start = holder.identity.pid, holder.identity.start_identity
        self.row = HostRow(3, holder.server_id, b"", pid, start, beat, beat, beat + HOST_CLAIM_MS)

    def hold(self, holder: LockHolder | None, *, flock: bool = True) -> None:
        """Let somebody hold the lock, named in the file or not."""
        if flock:
            assert self.other_lock.try_acquire()
            self.people.when_killed = self.other_lock.release
        if holder is not None:
            write_lock_file(self.paths.lock, holder)

    def answer(self, script: Script) -> None:
        """Let somebody listen at the socket."""
        self._script = script

    def listen(self, path: Path) -> trio.abc.Listener[trio.abc.Stream]:
        raise AssertionError

    async def connect(self, path: Path) -> trio.abc.Stream:
        self.probes += 1
        await trio.lowlevel.checkpoint()
        if self._script is None:
            raise ConnectionRefusedError
        ours, theirs = trio.testing.memory_stream_pair()
        await self._script(theirs)
        return ours

    async def acquire(self) -> Locked:
        locked = await acquire_server_lock(self.paths, OWN, self._world, self._state, self._log)
        assert locked.lock.is_held
        assert read_lock_file(self.paths.lock) == OWN
        return locked

    async def refused(self) -> str:
        """Be refused, and leave everything as it is."""
        before = read_lock_file(self.paths.lock)
        with pytest.raises(AlreadyRunning) as refusal:
            await self.acquire()
        assert read_lock_file(self.paths.lock) == before
        assert self.people.signals == []
        return str(refusal.value)


@pytest.fixture
def scene(home: Path, world: "World") -> Scene:
    paths = StatePaths(home)
    paths.host_dir.mkdir(parents=True, mode=0o700)
    file = LogFile(paths.logs / "server.log")
    return Scene(home, world, Log(file, world.clock, "server"))
