"""Composition root: a process that is the server, from its settings to its exit code."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from actors.errors import ServerRefused
from actors.serving import Server
from actors.startup import Started, Startup
from actors.state_files import StateFiles
from actors.store_actor import StoreActor
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.runner.limits import LimitInvalid, Limits
from runtime.errors import Refusal, RuntimeFault
from runtime.exception_groups import sole_error
from runtime.listener import check_socket_path
from runtime.log import Log
from runtime.program import Program
from runtime.template_program import START_VARIABLE, start_if_used
from runtime.world import World, production_world
from store.damage import StateDamaged
from store.database import Writer
from store.errors import (
    Fault,
    StateIncompatibleError,
)

SWITCH_INTERVAL_S: Final = 0.0001
"""The commit thread must win the interpreter back at once (README 9)."""

CAPACITY_VARIABLE: Final = "PI_WORKFLOWS_MAX_RUNNERS"
CAPACITY_DEFAULT: Final = 4

PROGRAM: Final = "pi-workflows"
"""Stands before a diagnostic on standard error, as before those of every other command."""

_REFUSED: Final = (ServerRefused, StateIncompatibleError, Refusal)


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
            check_runner_start()
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
        case StateDamaged():
            return Explained(error.code, str(error), ExitCode.FAILED)
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


def check_runner_start() -> None:
    """Refuse a way to start runners that does not exist, rather than take another one.

    Raises:
        ServerRefused: the variable is neither unset nor `exec`.
    """
    text = os.environ.get(START_VARIABLE)
    if text not in {None, "exec"}:
        raise ServerRefused(
            f"{START_VARIABLE} must be unset or 'exec', not {text!r}",
            exit_code=ExitCode.USAGE,
            code=ErrorCode.USAGE,
        )


async def serve(
    world: World,
    paths: StatePaths,
    capacity: int,
    *,
    idle_exit_ms: int | None = None,
    announce: Callable[[str], None] | None = None,
    state: StateFiles | None = None,
    store: Callable[[Writer, World], StoreActor] = StoreActor,
) -> None:
    """Start the server, run it until it is told to stop, and take it down.

    Args:
        world: real or simulated; everything outside is reached through it.
        paths: whose state.
        capacity: how many runners may live at a time.
        idle_exit_ms: end after so long without work or clients; None never does.
        announce: is told in one line each that it serves and that it stops; None wants neither.
        state: replaces the database file of `paths`; None means that file.
        store: makes the owner of the writing connection; see `Startup`.

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
            startup = Startup(world, paths, log, capacity, state, store=store)
            started = await _start(startup, world, undo)
            if started is None:
                log.info("start_abandoned")
                return
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


async def _start(startup: Startup, world: World, undo: AsyncExitStack) -> Started | None:
    """Bring the server up, unless it is told to stop meanwhile: then None, and `undo` is due."""
    started: list[Started] = []

    async def give_up_on_signals(
        scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with world.signals.receive(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for _ in signals:
                scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(give_up_on_signals, nursery.cancel_scope)
            started.append(await startup.run(undo))
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise sole_error(group) from group
    return started[0] if started else None
