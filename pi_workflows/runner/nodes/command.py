"""One command as a process group: streams drained, deadline obeyed, nothing of it left behind."""

import os
import selectors
import signal
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from pi_workflows.authoring.shell import Command, ShellResult
from pi_workflows.authoring.updates import STREAMS
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.nodes.capture import Capture
from pi_workflows.runner.nodes.lines import LineReader
from pi_workflows.runner.shell_groups import ShellGroups, signal_group

TERM_GRACE_MS: Final = 1_000
"""From SIGTERM to SIGKILL of the group."""

COLLECT_MS: Final = 2_000
"""How long output may keep coming once the command itself has ended or was killed."""

_READ_BYTES: Final = 65_536
_WRITE_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one command.

    Attributes:
        max_output_chars: kept of each stream, in UTF-16 units.
        term_grace_ms: from SIGTERM to SIGKILL.
        timeout_ms: how long the command itself may take; None is unlimited.
    """

    max_output_chars: int
    term_grace_ms: int = TERM_GRACE_MS
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EndedCommand:
    """A command that has ended.

    Attributes:
        stdout_tail: the last characters of standard output, also where `result` is cut.
        stderr_tail: the same of standard error.
        failure: what reading its lines for updates raised, for which it was ended; else None.
        timed_out: whether it was ended because it took too long.
    """

    result: ShellResult
    stdout_tail: str
    stderr_tail: str
    failure: BaseException | None = None
    timed_out: bool = False


def run_command(
    command: Command,
    limits: Limits,
    groups: ShellGroups,
    cancellation: Cancellation,
    lines: LineReader | None = None,
) -> EndedCommand:
    """Run a command to its end and return what came of it.

    The command leads its own process group in the runner's session. When cancelled, when it takes
    too long, or when a line cannot be read for updates, the group gets SIGTERM and after the
    grace SIGKILL. Once the command has ended, output that processes of
    its group still hold open is awaited for at most `COLLECT_MS`; then whatever is left of the
    group is killed. `exit_code` and `signal` are both None if it could not even be killed.

    Raises:
        OSError, ValueError: it could not be started.
    """
    started = time.monotonic()
    process = groups.start(lambda: _spawn(command))
    with ExitStack() as stack:
        watched = _WatchedProcess(process, command, limits, stack, lines)
        stack.enter_context(cancellation.listener(watched.wake))
        watched.run()
        signal_group(process.pid, signal.SIGKILL)
        watched.collect_rest()
        groups.forget(process.pid)
        status = process.wait() if watched.exited else process.poll()
    stdout, stderr = watched.captures
    result = ShellResult(
        stdout=stdout.text(),
        stderr=stderr.text(),
        exit_code=status if status is not None and status >= 0 else None,
        signal=None if status is None or status >= 0 else _signal_name(-status),
        duration_ms=round((time.monotonic() - started) * 1000),
        stdout_truncated=stdout.truncated,
        stderr_truncated=stderr.truncated,
    )
    return EndedCommand(
        result, stdout.tail(), stderr.tail(), watched.failure, timed_out=watched.timed_out
    )


def _spawn(command: Command) -> subprocess.Popen[bytes]:
    arguments = [command.command, *command.args]
    if command.shell:
        arguments = ["/bin/sh", "-c", *arguments]
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=command.cwd,
        env={**os.environ, **command.env},
        process_group=0,
    )


class _WatchedProcess:
    """The descriptors of a running command and the clock of its end."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        command: Command,
        limits: Limits,
        stack: ExitStack,
        lines: LineReader | None,
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.captures = (Capture(limits.max_output_chars), Capture(limits.max_output_chars))
        self.exited = False
        self.failure: BaseException | None = None
        self._lines = lines
        self._group = process.pid
        self._term_grace_s = limits.term_grace_ms / 1000
        self._unwritten = memoryview((command.stdin or "").encode("utf-8", "surrogateescape"))
        self._selector = stack.enter_context(selectors.DefaultSelector())
        self._open: dict[int, tuple[str, Capture]] = {}
        self.timed_out = False
        self._is_ending = False
        self._late_at = None
        if limits.timeout_ms is not None:
            self._late_at = time.monotonic() + limits.timeout_ms / 1000
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        self._wake_reader, self._wake_writer = _pipe(stack)
        self._exit_notice = _exit_notice(process.pid, stack)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._selector.register(self._exit_notice, selectors.EVENT_READ)
        streams = (process.stdout, process.stderr)
        for stream, name, capture in zip(streams, STREAMS, self.captures, strict=True):
            self._open[_nonblocking(stream, stack)] = (name, capture)
            self._selector.register(stream, selectors.EVENT_READ)
        self._stdin = process.stdin
        if self._stdin is not None:
            self._selector.register(_nonblocking(self._stdin, stack), selectors.EVENT_WRITE)

    def wake(self) -> None:
        """Make the loop see the cancellation; called from any thread."""
        with suppress(BlockingIOError):
            os.write(self._wake_writer, b"\0")

    def run(self) -> None:
        """Move data until the command has ended and its output is complete, or time is up."""
        while not self.exited or self._open:
            now = time.monotonic()
            if self._give_up_at is not None and now >= self._give_up_at:
                return
            if self._late_at is not None and now >= self._late_at:
                self.timed_out = True
                self._terminate()
            if self._kill_at is not None and now >= self._kill_at:
                signal_group(self._group, signal.SIGKILL)
                self._kill_at = None
                self._give_up_at = now + COLLECT_MS / 1000
            planned = (self._late_at, self._kill_at, self._give_up_at)
            times = [at for at in planned if at is not None]
            wait_s = max(0.0, min(times) - now) if times else None
            for key, _ in self._selector.select(wait_s):
                self._react(key.fd)

    def collect_rest(self) -> None:
        """Take what is readable without waiting, and end the texts."""
        for descriptor in list(self._open):
            with suppress(BlockingIOError):
                while descriptor in self._open:
                    self._read(descriptor)
        for name, capture in zip(STREAMS, self.captures, strict=True):
            capture.feed(b"", final=True)
            self._read_lines(name, b"", final=True)

    def _react(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._read(descriptor)
        elif descriptor == self._exit_notice:
            self._selector.unregister(descriptor)
            self.exited = True
            self._late_at = None
            if self._kill_at is None:
                self._give_up_at = time.monotonic() + COLLECT_MS / 1000
        elif descriptor == self._wake_reader:
            self._selector.unregister(descriptor)
            self._terminate()
        else:
            self._write(descriptor)

    def _terminate(self) -> None:
        """Begin to end the group; every later call does nothing."""
        self._late_at = None
        if not self._is_ending:
            self._is_ending = True
            signal_group(self._group, signal.SIGTERM)
            self._kill_at = time.monotonic() + self._term_grace_s

    def _read(self, descriptor: int) -> None:
        data = os.read(descriptor, _READ_BYTES)
        if data:
            name, capture = self._open[descriptor]
            capture.feed(data)
            self._read_lines(name, data)
        else:
            self._selector.unregister(descriptor)
            del self._open[descriptor]

    def _read_lines(self, name: str, data: bytes, *, final: bool = False) -> None:
        """Look for updates; the first failure ends the command and the looking."""
        if self._lines is None:
            return
        try:
            self._lines.feed(name, data, final=final)
        except BaseException as error:  # noqa: BLE001 - the line parser is foreign code
            self.failure, self._lines = error, None
            self.wake()

    def _write(self, descriptor: int) -> None:
        try:
            written = os.write(descriptor, self._unwritten[:_WRITE_BYTES])
            self._unwritten = self._unwritten[written:]
        except BrokenPipeError:  # The command does not want the rest.
            self._unwritten = memoryview(b"")
        if not self._unwritten:
            assert self._stdin is not None
            self._selector.unregister(descriptor)
            self._stdin.close()


def _nonblocking(stream: IO[bytes], stack: ExitStack) -> int:
    stack.callback(stream.close)
    os.set_blocking(stream.fileno(), False)
    return stream.fileno()


def _pipe(stack: ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    stack.callback(os.close, reader)
    stack.callback(os.close, writer)
    os.set_blocking(writer, False)
    return reader, writer


def _exit_notice(pid: int, stack: ExitStack) -> int:
    """Return a descriptor that turns readable when the child has exited; it stays unreaped."""
    if hasattr(os, "pidfd_open"):
        notice: int = os.pidfd_open(pid)
        stack.callback(os.close, notice)
        return notice
    reader, writer = os.pipe()
    stack.callback(os.close, reader)

    def wait() -> None:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        os.close(writer)

    threading.Thread(target=wait, name="runner-exit-notice", daemon=True).start()
    return reader


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def working_directory(command: Command) -> str:
    """Return the absolute directory that the command runs in."""
    return str(Path.cwd() / (command.cwd or ""))
