"""Bring a server up in the order of C §1; a step that fails leaves nothing behind.

lock -> database -> epoch -> ended children -> freed leases -> settled effects and parked runs.
Only after that is the socket bound: whoever is answered is answered from recovered state.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import trio

from actors.errors import AlreadyRunning, ServerRefused
from actors.owning import Owning
from actors.readers import Readers
from actors.server_lock import Locked, acquire_server_lock
from actors.services import ServerIdentity, Services
from actors.starting_claim import StartingClaim
from actors.state_files import DiskStateFiles, StateFiles
from actors.store_actor import StoreActor
from pi_workflows.protocol.paths import StatePaths
from runtime.exception_groups import sole_error
from runtime.identity import Liveness, ProcessIdentity
from runtime.listener import check_socket_path
from runtime.lock_file import LockHolder
from runtime.log import Log
from runtime.registry import ProcessRegistry
from runtime.sync_points import SyncPoint
from runtime.template_spawner import TemplateSpawner
from runtime.world import World
from store import host, quick_check
from store.database import Writer
from store.errors import HostHeldError, StateBusyError
from store.host import HOST_CLAIM_MS, HostProcess
from store.transaction import Reading

OPEN_WAIT_S: Final = 5.0
"""How long a child of a dead server may take to notice that and to close the file."""

_OPEN_RETRY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Started:
    """A server that owns the database and has recovered it; nothing runs yet.

    Attributes:
        claim: given back when the server fails before it serves.
        unchecked: True when the last stop was unclean and the file too large to be looked through
            before it is served; the server does that then, beside its work (README 18).
    """

    services: Services
    claim: StartingClaim
    locked: Locked
    unchecked: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """The database under this server's epoch."""

    writer: Writer
    claim: StartingClaim
    unchecked: bool


class Startup:
    """The steps before the socket, each undone when a later one fails."""

    def __init__(
        self,
        world: World,
        paths: StatePaths,
        log: Log,
        capacity: int,
        state: StateFiles | None = None,
        *,
        check_bytes_max: int = quick_check.QUICK_CHECK_BYTES_MAX,
        store: Callable[[Writer, World], StoreActor] = StoreActor,
    ) -> None:
        """Describe the start.

        Args:
            capacity: bounds the runners.
            state: replaces the database file of `paths`; None means that file.
            check_bytes_max: a larger file is not looked through before it is served.
            store: makes the owner of the writing connection; one with lower bounds is the same.
        """
        self._store: Final = store
        self._world: Final = world
        self._state: Final = state or DiskStateFiles(paths)
        self._owning: Final = Owning(
            self._state, world.clock, world.ids, log, check_bytes_max=check_bytes_max
        )
        self._paths: Final = paths
        self._log: Final = log
        self._capacity: Final = capacity
        self._reached: Final = world.sync_points.reached

    async def run(self, undo: AsyncExitStack) -> Started:
        """Bring everything up; `undo` takes it down again in the reverse order.

        Raises:
            ServerRefused: another server runs, or the file is damaged.
            StateIncompatibleError: not our database; not a byte was changed.
            StatePathError, NotPrivate, SocketPathTooLong: the directory cannot be used.
        """
        paths = self._paths
        check_socket_path(paths.socket)
        self._state.prepare()
        self._world.files.prepare_directory(paths.host_dir)
        self._world.files.remove_left_scratch(paths.host_dir)
        locked = await self._lock(undo)
        opened = await self._open(locked, undo)
        registry = ProcessRegistry(paths.registry, self._world.processes, self._world.files)
        await self._end_children(registry, opened.claim)
        template = await self._begin_template(registry, undo)
        self._recover(opened)
        readers = Readers(self._state.open_reader(), self._world.clock.wall_ms)
        undo.callback(readers.close)
        identity = ServerIdentity(
            locked.holder.server_id,
            opened.claim.claim.epoch,
            locked.holder.identity.pid,
            self._world.clock.wall_ms(),
        )
        store = self._store(opened.writer, self._world)
        store.fence(opened.claim.claim)
        readers.tell_damage(store.end_damaged)
        if opened.unchecked:
            store.owe_check()
        services = Services(
            world=self._world,
            paths=paths,
            identity=identity,
            store=store,
            readers=readers,
            processes=registry,
            log=self._log,
            capacity=self._capacity,
            template=template,
        )
        return Started(services, opened.claim, locked, opened.unchecked)

    async def _lock(self, undo: AsyncExitStack) -> Locked:
        processes = self._world.processes
        own = processes.identity_of(processes.own_pid())
        if own is None:
            raise ServerRefused("this process has no readable identity; is /proc mounted?")
        server_id = f"server-{self._world.ids.new_uuid()}"
        locked = await acquire_server_lock(
            self._paths, LockHolder(own, server_id), self._world, self._state, self._log
        )
        undo.callback(locked.release, self._paths, self._world.files)
        self._reached(SyncPoint.START_LOCK_HELD)
        return locked

    async def _open(self, locked: Locked, undo: AsyncExitStack) -> Opened:
        """Create or open the database and take the next epoch.

        The lock is held and its previous holder is gone, so nobody else can have the file open:
        the log is made durable before it is served from, and the dead server's claim has lapsed.
        """
        owning = self._owning
        owning.create()
        writer = await self._open_writer()
        undo.callback(self._close_writer, writer)
        self._reached(SyncPoint.START_DATABASE_OPEN)
        unchecked = not owning.look_through(writer)
        claim = await self._take_epoch(locked.holder, writer)
        undo.callback(claim.give_back)
        self._reached(SyncPoint.START_EPOCH_TAKEN)
        return Opened(writer, claim, unchecked)

    async def _open_writer(self) -> Writer:
        """Open the file, once the last child of a dead server has closed it; bounded.

        Raises:
            StateBusyError: somebody else has it open.
        """
        give_up_at = trio.current_time() + OPEN_WAIT_S
        while True:
            try:
                return self._owning.open()
            except StateBusyError:
                if trio.current_time() >= give_up_at:
                    raise
                await trio.sleep(_OPEN_RETRY_S)

    async def _take_epoch(self, own: LockHolder, writer: Writer) -> StartingClaim:
        """Become the server of the file, after the claim of somebody unprovable has lapsed.

        Raises:
            AlreadyRunning: its claim was renewed meanwhile.
        """
        process = HostProcess(own.server_id, own.identity.pid, own.identity.start_identity)
        gone = self._is_predecessor_gone(writer)
        try:
            return self._owning.take_epoch(writer, process, holder_gone=gone)
        except HostHeldError as held:
            self._log.info("start_waits", standing="claimed", leftMs=held.left_ms)
            if held.left_ms <= HOST_CLAIM_MS:
                await trio.sleep(held.left_ms / 1000)
            try:
                return self._owning.take_epoch(writer, process, holder_gone=gone)
            except HostHeldError:
                raise AlreadyRunning(None, "has a live claim on the state") from held

    def _is_predecessor_gone(self, writer: Writer) -> bool:
        """Say whether the server named in the database is proven dead.

        Only then has its claim lapsed. The lock says so already, unless somebody has removed the
        lock file from under a living server.

        Raises:
            AlreadyRunning: it lives.
        """
        row = host.current(Reading(writer.connection, self._world.clock.wall_ms()))
        if row.pid is None or row.process_start_identity is None:
            return True
        named = ProcessIdentity(row.pid, row.process_start_identity)
        liveness = self._world.processes.is_alive(named)
        if liveness is Liveness.ALIVE and row.pid != self._world.processes.own_pid():
            raise AlreadyRunning(row.pid)
        return liveness is not Liveness.UNPROVABLE

    def _close_writer(self, writer: Writer) -> None:
        """Close the file, unless the store actor has closed it."""
        if not writer.closed:
            writer.close()

    async def _end_children(self, registry: ProcessRegistry, claim: StartingClaim) -> None:
        """End what a dead server left running, before any of its runs can be claimed."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(claim.keep_renewed)
                ended = await registry.end_registered()
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise sole_error(group) from group
        self._log.info("children_ended", ended=len(ended.ended), dropped=len(ended.dropped))
        self._reached(SyncPoint.START_CHILDREN_ENDED)

    async def _begin_template(
        self, registry: ProcessRegistry, undo: AsyncExitStack
    ) -> TemplateSpawner | None:
        """Take over the template that was started ahead; it goes on warming up beside us."""
        world = self._world
        if world.template is None:
            return None
        log = self._log.bind("template")
        template = TemplateSpawner(world.spawner, registry, log, world.randomness)
        undo.push_async_callback(template.aclose)
        await template.begin(world.template)
        return template

    def _recover(self, opened: Opened) -> None:
        left = self._owning.expire(opened.claim)
        self._reached(SyncPoint.START_LEASES_EXPIRED)
        runs = self._owning.recover(opened.writer, opened.claim)
        self._log.info("state_recovered", leases=left.leases, workers=left.workers, runs=runs)
        self._reached(SyncPoint.START_EFFECTS_SETTLED)
