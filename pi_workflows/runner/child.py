"""The life of a runner child: verify, load, drive the engine over the channel, leave."""

import os
import socket
import time
import traceback
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from pi_workflows.authoring.errors import AuthoringError
from pi_workflows.protocol.frames import FrameError
from pi_workflows.protocol.ids import time_ordered
from pi_workflows.protocol.states import WorkerMessageOutcome
from pi_workflows.runner.channel import GRACE_MS, Channel, Stopped
from pi_workflows.runner.engine import Engine
from pi_workflows.runner.entry import EXIT_CHANNEL_LOST, EXIT_CRASHED, complain
from pi_workflows.runner.launch import (
    SOURCE_CHANGED,
    Launch,
    LaunchError,
    SourceChanged,
    describe_load_error,
    load_verified,
    parse_launch,
)
from pi_workflows.runner.limits import LimitInvalid, Limits
from pi_workflows.runner.messages import (
    Call,
    CallResult,
    Ending,
    EngineLoop,
    ExitReason,
    Reply,
    Send,
    bounded_text,
)
from pi_workflows.runner.nodes.executor import Executor
from pi_workflows.runner.shell_groups import ShellGroups


class SystemOrigin:
    """Ids and wall clock of this machine."""

    def attempt_id(self) -> str:
        """Return a new `attempt-<uuid7>`."""
        return f"attempt-{time_ordered(str(uuid.uuid4()), self.now_ms())}"

    def now_ms(self) -> int:
        """Return UTC epoch milliseconds."""
        return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """What a test may shorten.

    Attributes:
        grace_ms: from a deadline to abandonment, and from SIGTERM to SIGKILL of a command.
    """

    grace_ms: int = GRACE_MS


def run_child(connection: socket.socket, options: ChildOptions) -> NoReturn:
    """Run one child to its end; the process ends here, on every way.

    Args:
        connection: this end of the socket pair; blocking.
        options: bounds of the grace.
    """
    try:
        _run_child(connection, options)
    finally:  # A process out of memory must not go through the interpreter's own end.
        os._exit(EXIT_CRASHED)


def _run_child(connection: socket.socket, options: ChildOptions) -> NoReturn:
    with suppress(LimitInvalid):  # The server has refused to start with such a value.
        Limits.read(os.environ).apply()
    groups = ShellGroups()
    channel = Channel(connection, groups, grace_ms=options.grace_ms)
    try:
        launch = parse_launch(channel.receive_first())
    except (OSError, FrameError, LaunchError) as error:
        complain(f"runner: no launch: {error}\n")
        channel.end(EXIT_CHANNEL_LOST)
    channel.start(launch.identity)
    try:
        ending = _run(launch, channel, groups, options)
    except Stopped:
        channel.leave(ExitReason.STOPPED)
    except (OSError, FrameError) as error:
        complain(f"runner: the channel is lost: {error}\n")
        channel.end(EXIT_CHANNEL_LOST)
    except BaseException:  # noqa: BLE001 - a bug must end the process, not leave it half alive
        try:
            complain(traceback.format_exc())
        finally:
            channel.end(EXIT_CRASHED)
    channel.leave(ending.reason, ending.detail)


def _run(launch: Launch, channel: Channel, groups: ShellGroups, options: ChildOptions) -> Ending:
    try:
        definition = load_verified(launch)
    except SourceChanged as changed:
        return _park(channel, bounded_text(str(changed)))
    except AuthoringError as error:
        return Ending(ExitReason.FAILED, bounded_text(describe_load_error(error)))
    executor = Executor(
        definition,
        groups,
        source_directory=launch.root.path.parent,
        speak=channel.request_in_turn,
        term_grace_ms=options.grace_ms,
    )
    loop = Engine(definition, run_id=launch.identity.run_id, origin=SystemOrigin()).run()
    return drive(loop, channel, executor)


def _park(channel: Channel, detail: str) -> Ending:
    reply = channel.request(Send("run.park", {"reason": SOURCE_CHANGED, "detail": detail}, None))
    if reply.outcome is WorkerMessageOutcome.REJECTED:
        return Ending(ExitReason.REJECTED, reply.error)
    return Ending(ExitReason.PARKED, detail)


def drive(loop: EngineLoop, channel: Channel, executor: Executor) -> Ending:
    """Carry the loop's messages over the channel and run its calls on this thread.

    Raises:
        Stopped: the server asked this child to end; the current node stays unrecorded.
    """
    try:
        step = next(loop)
        while True:
            step = loop.send(_answer(step, channel, executor))
    except StopIteration as end:
        ending: Ending = end.value
        return ending


def _answer(step: Send | Call, channel: Channel, executor: Executor) -> Reply | CallResult:
    if isinstance(step, Send):
        return channel.request(step)
    return channel.run_turn(step, partial(executor.run, step))
