"""Composition root: build the actor tree, run it until told to stop, take it down in order.

Order of the end: no more admissions, no more clients; answers that are due are written; runs are
handed off and parked; the claim is released; the log is emptied and the file closed; socket and
lock are removed.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from actors.errors import ServerRefused
from actors.gateway import Gateway
from actors.heartbeat import Heartbeat, Wake, beat_every_s
from actors.idle_exit import IdleWatch
from actors.operations import Operations
from actors.run_control import RunControl
from actors.scheduler import Scheduler
from actors.server_views import ServerViews
from actors.services import Services
from actors.soundness import check_soundness
from actors.startup import Started, Startup
from actors.state_files import StateFiles
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.runner.limits import LimitInvalid, Limits
from runtime.errors import Refusal, RuntimeFault
from runtime.exception_groups import sole_error
from runtime.listener import check_socket_path
from runtime.log import Log
from runtime.program import Program
from runtime.supervisor import Supervisor, TaskFailure
from runtime.sync_points import SyncPoint
from runtime.template_program import start_if_used
from runtime.world import World, production_world
from store import host, run_queue
from store.errors import (
    EpochLost,
    Fault,
    OutcomeUnknown,
    StateIncompatibleError,
    StoreCorrupt,
    StoreDown,
    StoreError,
)

SWITCH_INTERVAL_S: Final = 0.0001
"""The commit thread must win the interpreter back at once (README 9)."""

CAPACITY_VARIABLE: Final = "PI_WORKFLOWS_MAX_RUNNERS"
CAPACITY_DEFAULT: Final = 4

PROGRAM: Final = "pi-workflows"
"""Stands before a diagnostic on standard error, as before those of every other command."""

_REFUSED: Final = (ServerRefused, StateIncompatibleError, Refusal)
_STORE_FATAL: Final = (OutcomeUnknown, EpochLost, StoreDown, StoreCorrupt)


def main(
    paths: StatePaths,
    *,
    idle_exit_ms: int | None = None,
    template: Program | None = None,
    world: World | None = None,
    timers: trio.abc.Clock | None = None,
    report: Callable[[str, str], None] | None = None,
    announce: Callable[[str], None] | None = None,
) -> int:
    """Run the server of one state directory in this process until it is told to stop.

    Args:
        paths: whose state.
        idle_exit_ms: end after so long without work or clients; None never does.
        template: a runner template that was started ahead, owned from now on; None: one is
            started where there are any.
        world: what it takes from outside itself, its own template included; None means the
            machine. Closed in the end.
        timers: what its loop sleeps by; None means the machine's monotonic clock.
        report: is told code and text of why the server ended otherwise than in order.
        announce: is told in one line each that it serves and that it stops; None wants neither.

    Returns:
        The exit code of the process; a diagnostic for people went to standard error.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        if world is None:
            world = production_world(template=template or start_if_used())
        try:
            capacity = capacity_from_environment()
            check_runner_limits()
            serving = partial(
                serve, world, paths, capacity, idle_exit_ms=idle_exit_ms, announce=announce
            )
            trio.run(serving, clock=timers)
        finally:
            world.close()
    except KeyboardInterrupt:
        return ExitCode.OK
    except BaseException as raised:  # noqa: BLE001 - a bug is raised again, whatever it is
        end = explained(sole_error(raised))
        sys.stderr.write(f"{PROGRAM}: {end.text}\n")
        if report is not None:
            report(end.code, end.text)
        return end.exit_code
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class Explained:
    """Why the server ended, for scripts, for people and for the shell."""

    code: str
    text: str
    exit_code: ExitCode


def explained(error: BaseException) -> Explained:
    """Say why the server ended; a bug is raised again."""
    match error:
        case ServerRefused():
            return Explained(error.code, str(error), error.exit_code)
        case StateIncompatibleError():
            return Explained(error.code, str(error), ExitCode.INCOMPATIBLE_STATE)
        case Fault() | RuntimeFault():
            code = error.code if isinstance(error, Fault) else ErrorCode.SERVER_UNAVAILABLE
            hint = f" {error.hint}" if error.hint else ""
            return Explained(code, f"{error}.{hint}", ExitCode.FAILED)
        case Refusal():
            return Explained(error.code, str(error), ExitCode.UNAVAILABLE)
        case OSError():
            text = f"the server cannot start: {error}"
            return Explained(ErrorCode.SERVER_UNAVAILABLE, text, ExitCode.FAILED)
        case _:
            raise error


def capacity_from_environment() -> int:
    """Return how many runners may live at a time.

    Raises:
        ServerRefused: the variable is no positive integer.
    """
    text = os.environ.get(CAPACITY_VARIABLE)
    if text is None:
        return CAPACITY_DEFAULT
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ServerRefused(
            f"{CAPACITY_VARIABLE} must be a positive integer, not {text!r}",
            exit_code=ExitCode.USAGE,
            code=ErrorCode.USAGE,
        )
    return int(text)


def check_runner_limits() -> None:
    """Refuse limits of runners that no runner could set.

    Raises:
        ServerRefused: a variable is no number in its bounds.
    """
    try:
        Limits.read(os.environ)
    except LimitInvalid as error:
        raise ServerRefused(str(error), exit_code=ExitCode.USAGE, code=ErrorCode.USAGE) from error


def _first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what ended the store, not what others met because it had ended."""
    _, causes = group.split(StoreDown)
    found = sole_error(causes or group)
    # Several tasks may have been told of one end, each by an error of its own.
    while isinstance(found, BaseExceptionGroup) and found.split(_STORE_FATAL)[1] is None:
        found = found.exceptions[0]
    return found


async def serve(
    world: World,
    paths: StatePaths,
    capacity: int,
    *,
    idle_exit_ms: int | None = None,
    announce: Callable[[str], None] | None = None,
    state: StateFiles | None = None,
) -> None:
    """Start the server, run it until it is told to stop, and take it down.

    Args:
        world: real or simulated; everything outside is reached through it.
        paths: whose state.
        capacity: how many runners may live at a time.
        idle_exit_ms: end after so long without work or clients; None never does.
        announce: is told in one line each that it serves and that it stops; None wants neither.
        state: replaces the database file of `paths`; None means that file.

    Raises:
        ServerRefused, StateIncompatibleError, Refusal: it may not start; nothing is left behind.
        Fault, RuntimeFault, OSError: it cannot start or go on.
    """
    check_socket_path(paths.socket)
    async with AsyncExitStack() as undo:
        file = world.files.open_log(paths.logs / "server.log")
        undo.callback(file.close)
        log = Log(file, world.clock, "server")
        started: Started | None = None
        try:
            started = await Startup(world, paths, log, capacity, state).run(undo)
            await Server(started, log, idle_exit_ms, announce).run()
        except BaseException as error:
            real = sole_error(error)
            text = f"{type(real).__name__}: {real}"
            if started is None and isinstance(real, _REFUSED):
                log.info("start_refused", error=text)
            elif not isinstance(real, trio.Cancelled):
                log.error("server_failed", error=text)  # noqa: TRY400 - no `logging` logger
            raise
        log.info("server_stopped")


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
