"""Child processes: what to start, what a started one offers, and starting it by exec."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, Self, final

import trio

from runtime.errors import ProcessesSurvived, SpawnFailed
from runtime.identity import ProcessIdentity, identity_of
from runtime.output_tail import OutputTail
from runtime.session_end import END_WAIT_S, MARKER_VARIABLE, STUCK_HINT, end_session

DESCRIPTOR_PLACEHOLDER: Final = "{fd}"
"""An argument that is exactly this becomes the number of the child's end of the socket pair."""

OUTPUT_BYTES_MAX: Final = 65_536
KILL_WAIT_S: Final = 5.0
"""How long a killed process may take to end; only one stuck in the kernel needs longer."""

_POLL_S: Final = 0.02

_ENVIRONMENT_ALLOWED: Final = frozenset({
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
    "ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "all_proxy", "http_proxy", "https_proxy", "no_proxy",
    "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "SSH_AUTH_SOCK", "VIRTUAL_ENV",
})  # fmt: skip
_ENVIRONMENT_PREFIXES_ALLOWED: Final = ("LC_", "XDG_")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What to start.

    Attributes:
        argv: Program and arguments; an argument equal to `{fd}` becomes the descriptor's number.
        cwd: Working directory.
        env: The whole environment; `PI_WORKFLOWS_CHILD=<marker>` is added.
        marker: Unguessable text, unique to this child, by which its descendants are found.
        output_bytes_max: How much of the end of stdout and stderr together is kept.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    marker: str
    output_bytes_max: int = OUTPUT_BYTES_MAX


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended: exactly one of the two is set.

    Attributes:
        code: Its exit code; None if a signal ended it.
        signal: The number of the signal that ended it; None if it exited.
    """

    code: int | None
    signal: int | None

    @classmethod
    def from_returncode(cls, returncode: int) -> Self:
        """Translate `subprocess`'s convention, where a negative number is a signal."""
        return cls(None, -returncode) if returncode < 0 else cls(returncode, None)


class Child(Protocol):
    """A started child. Whoever spawned it calls `stop` in the end, also after it has exited."""

    @property
    def pid(self) -> int:
        """Its process id, which is its process group's and session's id too."""
        ...

    @property
    def identity(self) -> ProcessIdentity:
        """Who it is, across reuse of its process id."""
        ...

    @property
    def stream(self) -> trio.abc.Stream:
        """Our end of the socket pair; end of file when the child has closed its end."""
        ...

    def output_tail(self) -> str:
        """Return the last part of what it printed to stdout and stderr."""
        ...

    async def wait(self) -> ExitStatus:
        """Wait for its end and that of its session; every call returns the same status.

        What it has left in its session is killed as soon as it ends, before it is reaped.
        """
        ...

    async def stop(self, grace_s: float = 2.0) -> ExitStatus:
        """End it and everything left of its session; shielded and bounded.

        SIGTERM to its group, at most `grace_s` seconds, SIGKILL to the group; at its end SIGKILL
        to what is left of its session. Closes the stream and stops reading its output.

        Raises:
            ProcessesSurvived: Something killed did not end in time, or could not be killed; also
                when `wait` has already returned.
        """
        ...


class Spawner(Protocol):
    """Starts children; by exec today, from a pre-warmed template next."""

    async def spawn(self, spec: ChildSpec) -> Child:
        """Start a child. Cancelled: nothing was started, or it has been ended again.

        Raises:
            SpawnFailed: It could not be started; nothing is left behind.
        """
        ...


def child_environment(
    extra: Mapping[str, str] | None = None, *, inherited: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the allowed part of the server's environment, overlaid with `extra`.

    Args:
        extra: Set as given, allowed or not.
        inherited: Filtered instead of this process's own environment.
    """
    source = os.environ if inherited is None else inherited
    allowed = {
        name: value
        for name, value in source.items()
        if name in _ENVIRONMENT_ALLOWED or name.startswith(_ENVIRONMENT_PREFIXES_ALLOWED)
    }
    return allowed | dict(extra or {})


@final
class ExecSpawner:
    """Starts each child as a new program.

    The fork happens synchronously on the calling thread: there is no moment at which a
    cancellation could lose a started process. It must be a thread of trio.
    """

    async def spawn(self, spec: ChildSpec) -> "ExecChild":
        """Start a child in a session of its own; see `Spawner.spawn`."""
        await trio.lowlevel.checkpoint()
        try:
            ours, theirs = socket.socketpair()
            output_read, output_write = os.pipe()
        except OSError as error:
            raise SpawnFailed(f"no descriptors for a child: {error.strerror}") from error
        try:
            process = _exec(spec, theirs.fileno(), output_write)
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            ours.close()
            os.close(output_read)
            raise SpawnFailed(f"cannot start {spec.argv[0]}: {error}") from error
        finally:
            theirs.close()
            os.close(output_write)
        output = OutputTail(output_read, spec.output_bytes_max)
        try:
            return _attach(process, spec, ours, output)
        except OSError as error:
            raise SpawnFailed(f"cannot watch {spec.argv[0]}: {error}") from error


@final
class ExecChild:
    """A child started by exec; reaped and drained by tasks of trio's own, whoever waits."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        identity: ProcessIdentity,
        marker: str,
        stream: trio.SocketStream,
        output: OutputTail,
    ) -> None:
        self.pid: Final = process.pid
        self.identity: Final = identity
        self.stream: Final = stream
        self._process = process
        self._marker = marker
        self._output = output
        self._has_exited = False
        self._status: ExitStatus | None = None
        self._survived: ProcessesSurvived | None = None
        self._ended = trio.Event()

    def output_tail(self) -> str:
        """Return the last part of what it printed; complete once `wait` has returned."""
        return self._output.text()

    async def wait(self) -> ExitStatus:
        """See `Child.wait`; cancelling the wait has no effect on the child."""
        await self._ended.wait()
        assert self._status is not None
        return self._status

    async def stop(self, grace_s: float = 2.0) -> ExitStatus:
        """End it and everything left of its session; see `Child.stop`."""
        with trio.CancelScope(shield=True):
            try:
                await self._end_group(grace_s)
            finally:
                self._output.close()
                await self.stream.aclose()
        # No checkpoint out here: a cancelled caller has more to put away.
        if self._survived is not None:
            raise self._survived
        assert self._status is not None
        return self._status

    async def _end_group(self, grace_s: float) -> None:
        self._signal_group(signal.SIGTERM)
        with trio.move_on_after(grace_s):
            await self._ended.wait()
            return
        self._signal_group(signal.SIGKILL)
        with trio.move_on_after(KILL_WAIT_S + END_WAIT_S):
            await self._ended.wait()
            return
        raise ProcessesSurvived(
            f"process {self.pid} did not end within {KILL_WAIT_S + END_WAIT_S:g} s of SIGKILL",
            hint=STUCK_HINT,
        )

    def _signal_group(self, sig: signal.Signals) -> None:
        """Signal the group before its leader has ended: until then its id cannot be reused."""
        if not self._has_exited:
            # macOS refuses to signal a group of nothing but zombies with EPERM.
            try:
                os.killpg(self.pid, sig)
            except (ProcessLookupError, PermissionError):
                return

    async def reap(self, exited: int | None) -> None:
        """Wait for the exit, end the session, reap, record; run once, as a system task.

        Until it is reaped its zombie keeps the session's number from being used again, which is
        what makes every member of the session provably its own.

        Args:
            exited: A pidfd, closed here; None where there are none, then the wait polls and reaps.
        """
        try:
            if exited is None:
                while self._process.poll() is None:  # noqa: ASYNC110 - no event here
                    await trio.sleep(_POLL_S)
            else:
                await trio.lowlevel.wait_readable(exited)
        finally:
            if exited is not None:
                os.close(exited)
        self._has_exited = True
        try:
            await end_session(self.identity, self._marker)
        except ProcessesSurvived as survived:
            self._survived = survived
        self._status = ExitStatus.from_returncode(self._process.wait())
        self._output.drain_available()
        self._ended.set()


def _exec(spec: ChildSpec, descriptor: int, output: int) -> "subprocess.Popen[bytes]":
    argv = [str(descriptor) if part == DESCRIPTOR_PLACEHOLDER else part for part in spec.argv]
    return subprocess.Popen(
        argv,
        cwd=spec.cwd,
        env={**spec.env, MARKER_VARIABLE: spec.marker},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(descriptor,),
        start_new_session=True,
    )


def _require_identity(pid: int) -> ProcessIdentity:
    identity = identity_of(pid)
    if identity is None:
        raise SpawnFailed(f"process {pid} has no readable identity")
    return identity


def _attach(
    process: "subprocess.Popen[bytes]",
    spec: ChildSpec,
    ours: socket.socket,
    output: OutputTail,
) -> ExecChild:
    """Make the child object of a just started process, or end the process again."""
    try:
        ended = os.pidfd_open(process.pid) if sys.platform == "linux" else None
        identity = _require_identity(process.pid)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # In its first moments there is no other group.
        process.wait()  # it is killed: this ends at once
        ours.close()
        output.close()
        raise
    child = ExecChild(process, identity, spec.marker, stream, output)
    trio.lowlevel.spawn_system_task(child.reap, ended, name=f"reap {process.pid}")
    trio.lowlevel.spawn_system_task(output.drain, name=f"output of {process.pid}")
    return child
