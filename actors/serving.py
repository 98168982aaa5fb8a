"""A started server: its actors, and the order in which they end.

No more admissions, no more clients; answers that are due are written; runs are handed off and
parked; the claim is released; the log is emptied and the file closed. Socket and lock are removed
by whoever has taken them.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from actors.gateway import Gateway
from actors.heartbeat import Heartbeat, Wake, beat_every_s
from actors.idle_exit import IdleWatch
from actors.operations import Operations
from actors.run_control import RunControl
from actors.scheduler import Scheduler
from actors.server_views import ServerViews
from actors.services import Services
from actors.soundness import check_soundness
from actors.startup import Started
from runtime.exception_groups import sole_error
from runtime.log import Log
from runtime.supervisor import Supervisor, TaskFailure
from runtime.sync_points import SyncPoint
from store import host, run_queue
from store.errors import EpochLost, OutcomeUnknown, StoreCorrupt, StoreDown, StoreError

_STORE_FATAL: Final = (OutcomeUnknown, EpochLost, StoreDown, StoreCorrupt)


def _first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what ended the store, not what others met because it had ended."""
    _, causes = group.split(StoreDown)
    found = sole_error(causes or group)
    # Several tasks may have been told of one end, each by an error of its own.
    while isinstance(found, BaseExceptionGroup) and found.split(_STORE_FATAL)[1] is None:
        found = found.exceptions[0]
    return found


async def _admitting(
    scheduler: Scheduler, *, task_status: trio.TaskStatus[trio.CancelScope]
) -> None:
    """Admit runs until the scope that this starts with is cancelled."""
    with trio.CancelScope() as scope:
        task_status.started(scope)
        await scheduler.run()


@dataclass
class Server:
    """A started server: its actors, and the order in which they end."""

    started: Started
    log: Log
    idle_exit_ms: int | None
    announce: Callable[[str], None] | None = None
    stopping: trio.Event = field(default_factory=trio.Event)
    recheck: Callable[[], None] = lambda: None

    @property
    def services(self) -> Services:
        """What the actors share."""
        return self.started.services

    async def run(self) -> None:
        """Serve until told to stop, then take everything down.

        Raises:
            EpochLost, OutcomeUnknown, StoreDown, StoreCorrupt: the store cannot go on.
        """
        store, claim = self.services.store, self.started.claim
        try:
            async with trio.open_nursery() as base:
                await base.start(store.serve)
                base.start_soon(self._heartbeat().run)
                await self._serve_runs_and_clients()
                await store.do(host.release, claim.claim)
                claim.keep()
                store.stop()
                base.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            cause = _first_cause(group)
            if isinstance(cause, StoreError):
                claim.keep()
            raise cause from group
        # Only the last connection to close takes the emptied log away.
        self.services.readers.close()
        await store.close()

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            self.services.store,
            self.started.claim.claim,
            self.services.world.clock,
            woke=self._woke,
            beaten=self.services.world.service_manager.alive,
            every_s=beat_every_s(self.services.world.service_manager.watchdog_s),
        )

    def _woke(self, wake: Wake) -> None:
        """Drop what the sleep of the machine has cost, and look again at what is due.

        The claim of the server has been taken up again; a run whose lease has expired has not.
        """
        with self.services.readers.reading() as reading:
            dropped = self.services.claims.drop_lapsed(reading)
        self.log.info(
            "woke", wallGapS=round(wake.wall_gap_s), lateS=round(wake.late_s), runs=len(dropped)
        )
        self.recheck()

    async def _serve_runs_and_clients(self) -> None:
        services = self.services
        async with Supervisor(
            randomness=services.world.randomness,
            on_failure=self._owner_failed,
            fatal=_STORE_FATAL,
        ) as owners:
            views = ServerViews(services)
            idle = IdleWatch(lambda: self._is_needed(views, scheduler))
            scheduler = Scheduler(services, owners, idle.touch)
            self.recheck = scheduler.recheck
            services.store.listen(lambda _: idle.touch())

            def population(clients: int) -> None:
                views.clients = clients
                idle.touch()

            control = RunControl(services, self.stopping.set)
            gateway = Gateway(services, Operations(services, control, views), population)
            listener = services.world.network.listen(services.paths.socket)
            async with listener, trio.open_nursery() as front:
                services.world.sync_points.reached(SyncPoint.START_SOCKET_BOUND)
                front.start_soon(gateway.run, listener)
                front.start_soon(views.forget_unused)
                front.start_soon(self._stop_on_signals)
                if self.started.unchecked:
                    front.start_soon(check_soundness, services)
                admission = await front.start(_admitting, scheduler)
                if self.idle_exit_ms is not None:
                    front.start_soon(self._stop_when_idle, idle, self.idle_exit_ms / 1000)
                self.log.info("server_ready", epoch=services.identity.epoch)
                self._announce(
                    f"serving PID {services.identity.pid}, socket {services.paths.socket};"
                    " Ctrl-C stops it"
                )
                if not services.world.service_manager.ready():
                    self.log.warning("service_manager_not_reached")
                await self.stopping.wait()
                self.log.info("server_stopping")
                services.world.service_manager.stopping()
                self._announce("stopping; its runs are parked and go on with the next server")
                admission.cancel()
                views.state = "stopping"
                await gateway.drain()
                front.cancel_scope.cancel()
            await owners.stop_all()

    def _announce(self, line: str) -> None:
        if self.announce is not None:
            self.announce(line)

    def _is_needed(self, views: ServerViews, scheduler: Scheduler) -> bool:
        if views.clients or scheduler.active:
            return True
        with self.services.readers.reading() as reading:
            return bool(run_queue.claimable(reading, 1))

    async def _stop_when_idle(self, idle: IdleWatch, idle_s: float) -> None:
        await idle.wait_idle(idle_s)
        self.log.info("server_idle")
        self.stopping.set()

    async def _stop_on_signals(self) -> None:
        with self.services.world.signals.receive(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self.log.info("signal", number=int(number))
                self.stopping.set()

    def _owner_failed(self, failure: TaskFailure) -> None:
        self.log.error("run_owner_failed", runId=failure.key, error=failure.text)
