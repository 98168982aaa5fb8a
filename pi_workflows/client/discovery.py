"""Finding the running server, and starting one on demand.

Ready means that a hello was served. A spawned server is detached: it lives in a session of its
own, reads nothing, and writes what is not its log to `host/logs/`.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pi_workflows.client.channel import Channel, check_socket_path, open_channel
from pi_workflows.client.errors import StartFailed, Unavailable
from pi_workflows.client.python_path import server_environment
from pi_workflows.client.sans_io import CONNECT_MS
from pi_workflows.protocol.errors import ErrorCode, ExitCode
from pi_workflows.protocol.paths import StatePaths

IDLE_EXIT_MS: Final = 600_000
"""A server that was started on demand ends after so long without work or clients."""

SERVER_MODULE: Final = "pi_workflows.server_process"
IDLE_EXIT_VARIABLE: Final = "PI_WORKFLOWS_IDLE_EXIT_MS"
"""Environment variable that replaces `IDLE_EXIT_MS`; 0 means never."""

_PREFIX: Final = "pi-workflows: "
"""Stands before the words of a server, which are repeated here behind the caller's own."""

_NEVER_AGAIN: Final = {
    ExitCode.INCOMPATIBLE_STATE: ErrorCode.STATE_INCOMPATIBLE,
    ExitCode.USAGE: ErrorCode.USAGE,
}
"""Ends that another spawn would only repeat."""

_AWAKE_S: Final = 2 * CONNECT_MS / 1000
"""Longest time between two looks at the socket on a machine that goes on."""

_OUTPUT_BYTES_MAX: Final = 1_048_576
_DIAGNOSTIC_BYTES_MAX: Final = 4_096


class Spawned(Protocol):
    """The part of a child process that starting needs."""

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTiming:
    """How patiently a server is started (C §1).

    Attributes:
        poll_ms: pause between two looks at the socket.
        wait_ms: bound of the whole start. A longer time than any look takes does not count in
            full: a machine that stood still did not let the server start, either.
        grace_ms: how long after an early exit the next one is spawned; another client's server
            may appear meanwhile.
        spawns_max: how many may be spawned; after that only connecting is tried.
        monotonic: seconds of a clock that only advances.
        sleep: waits so many seconds.
    """

    poll_ms: int = 50
    wait_ms: int = 10_000
    grace_ms: int = 250
    spawns_max: int = 3
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class _Spawner:
    """Counts spawns and remembers how the last one ended."""

    def __init__(
        self, paths: StatePaths, launch: Callable[[StatePaths], Spawned], timing: StartTiming
    ) -> None:
        self._paths = paths
        self._launch = launch
        self._timing = timing
        self._output_start = 0
        self._child: Spawned | None = None
        self._exited_at: float | None = None
        self.exit_code: int | None = None
        self.spawns = 0

    def tend(self) -> None:
        """Spawn a server if none of ours runs and one is due.

        Raises:
            StartFailed: the last one found incompatible state or an unusable setting, or the
                directory cannot be used.
        """
        if self._child is not None:
            self.exit_code = self._child.poll()
            if self.exit_code is None:
                return
            self._child = None
            self._exited_at = self._timing.monotonic()
            if self.exit_code in _NEVER_AGAIN:
                raise self.failure()
        if self._due():
            prepare_directories(self._paths)
            self._output_start = _output_size(self._paths)
            self._child = self._launch(self._paths)
            self.spawns += 1

    def failure(self) -> StartFailed:
        """Return the error that ends with what the last server said."""
        said = _output_since(self._paths, self._output_start)
        if self.exit_code in _NEVER_AGAIN:
            exit_code = ExitCode(self.exit_code)
            return StartFailed(
                said or f"the workflow server ended at once (exit {exit_code})",
                code=_NEVER_AGAIN[exit_code],
                exit_code=exit_code,
            )
        text = f"the workflow server did not become ready within {self._timing.wait_ms} ms"
        if self.exit_code is not None:
            text = (
                f"the workflow server ended at once (exit {self.exit_code}, {self.spawns} tried)"
            )
        running = self.exit_code == ExitCode.ALREADY_RUNNING
        return StartFailed(
            f"{text}: {said}" if said else f"{text}; see {self._paths.logs}",
            code=ErrorCode.SERVER_ALREADY_RUNNING if running else ErrorCode.SERVER_UNAVAILABLE,
            exit_code=ExitCode.ALREADY_RUNNING if running else ExitCode.UNAVAILABLE,
        )

    def let_go(self) -> None:
        """Stop being the parent that waits: a ready server ends long after its starter."""
        if isinstance(self._child, subprocess.Popen) and self._child.returncode is None:
            self._child.returncode = 0  # Popen warns about a child that it never saw end.
        self._child = None

    def _due(self) -> bool:
        if self.spawns == 0:
            return True
        if self.spawns >= self._timing.spawns_max or self._exited_at is None:
            return False
        if self.exit_code == ExitCode.ALREADY_RUNNING:
            return False  # Another one is starting; it only has to become ready.
        return self._timing.monotonic() - self._exited_at >= self._timing.grace_ms / 1000


def start_server(
    paths: StatePaths,
    *,
    launch: Callable[[StatePaths], Spawned] | None = None,
    timing: StartTiming | None = None,
) -> Channel:
    """Return a connection to the running server, starting one if none answers.

    At most `spawns_max` servers are spawned; a server of another client that becomes ready first
    is used instead. Cancellation (an interrupt) leaves a spawned server running.

    Args:
        paths: whose server.
        launch: spawns one detached server; None runs this package's own.
        timing: None takes the values of C §1.

    Raises:
        StartFailed: with the last server's words; exit code 5 when the state is incompatible,
            2 when a setting in the environment is unusable.
        VersionsDiffer: the server that answers is of another package version; no retry.
        Unavailable: the socket path is too long; nothing was spawned.
        ProtocolViolation: what answers is no workflow server.
    """
    check_socket_path(paths.socket)
    timing = timing or StartTiming()
    spawner = _Spawner(paths, launch or launch_detached, timing)
    waited_s, looked_at = 0.0, timing.monotonic()
    while True:
        try:
            channel = open_channel(paths.socket)
        except Unavailable:
            now = timing.monotonic()
            waited_s += min(now - looked_at, _AWAKE_S)
            looked_at = now
            if waited_s >= timing.wait_ms / 1000:
                raise spawner.failure() from None
        else:
            spawner.let_go()
            return channel
        spawner.tend()
        timing.sleep(timing.poll_ms / 1000)


def launch_detached(paths: StatePaths) -> Spawned:
    """Spawn a server in its own session, its output going to `host/logs/`.

    Raises:
        StartFailed: code `USAGE`, the environment sets no usable time until the idle exit.
    """
    idle = _idle_exit()
    # -P: the folder the caller stands in is not code of the server.
    command = [sys.executable, "-P", "-m", SERVER_MODULE, idle]
    output = os.open(_output_path(paths), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=paths.home,
            env=server_environment(os.environ),
            start_new_session=True,
        )
    finally:
        os.close(output)


def _idle_exit() -> str:
    text = os.environ.get(IDLE_EXIT_VARIABLE, str(IDLE_EXIT_MS))
    if not text.isascii() or not text.isdigit():
        raise StartFailed(
            f"{IDLE_EXIT_VARIABLE} must be a number of milliseconds, not {text!r}",
            code=ErrorCode.USAGE,
            exit_code=ExitCode.USAGE,
        )
    return text


def prepare_directories(paths: StatePaths) -> None:
    """Create the state and runtime directories with mode 0700; existing ones stay as they are.

    Raises:
        StartFailed: code `STATE_DIRECTORY_UNUSABLE`.
    """
    try:
        paths.state_dir.parent.mkdir(parents=True, exist_ok=True)
        for directory in (paths.state_dir, paths.host_dir, paths.logs):
            directory.mkdir(mode=0o700, exist_ok=True)
        output = _output_path(paths)
        if output.exists() and output.stat().st_size > _OUTPUT_BYTES_MAX:
            output.replace(output.with_suffix(".1"))
        os.close(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError as error:
        raise StartFailed(
            f"cannot write below {paths.state_dir}: {error.strerror or error}; make it writable"
            " or set HOME to a folder that is",
            code=ErrorCode.STATE_DIRECTORY_UNUSABLE,
            exit_code=ExitCode.UNAVAILABLE,
        ) from error


def _output_path(paths: StatePaths) -> Path:
    return paths.logs / "server.output"


def _output_size(paths: StatePaths) -> int:
    try:
        return _output_path(paths).stat().st_size
    except OSError:
        return 0


def _output_since(paths: StatePaths, start: int) -> str:
    try:
        with _output_path(paths).open("rb") as output:
            output.seek(max(start, _output_size(paths) - _DIAGNOSTIC_BYTES_MAX))
            said = output.read().decode(errors="replace").strip()
            return "\n".join(line.removeprefix(_PREFIX) for line in said.splitlines())
    except OSError:
        return ""
