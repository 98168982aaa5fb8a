"""Starting each child as a new program, and supervising a program that runs."""

import os
import signal
import sys
from typing import Final, final

import trio

from runtime.errors import SpawnFailed
from runtime.identity import ProcessIdentity, identity_of
from runtime.output_tail import OutputTail
from runtime.process import OUTPUT_BYTES_MAX, ChildSpec, ExitStatus
from runtime.program import Program, start_program
from runtime.session_child import SessionChild

_POLL_S: Final = 0.02


@final
class ExecSpawner:
    """Starts each child as a new program; must be used in a thread of trio."""

    async def spawn(self, spec: ChildSpec) -> SessionChild:
        """Start a child in a session of its own; see `Spawner.spawn`."""
        await trio.lowlevel.checkpoint()
        try:
            program = start_program(spec.argv, cwd=spec.cwd, env=spec.env, marker=spec.marker)
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            raise SpawnFailed(f"cannot start {spec.argv[0]}: {error}") from error
        return supervise(program, output_bytes_max=spec.output_bytes_max)


def supervise(program: Program, *, output_bytes_max: int = OUTPUT_BYTES_MAX) -> SessionChild:
    """Make a child of a just started program, or end it again.

    Raises:
        SpawnFailed: it cannot be watched; nothing of it is left behind.
    """
    program.is_supervised = True
    output = OutputTail(program.output, output_bytes_max)
    leader: _ProgramLeader | None = None
    try:
        leader = _ProgramLeader(program)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(program.socket))
        return SessionChild(leader, program.marker, stream, output)
    except BaseException as error:
        os.killpg(program.process.pid, signal.SIGKILL)  # In its first moments, its only group.
        program.process.wait()  # it is killed: this ends at once
        program.socket.close()
        output.close()
        if leader is not None:
            leader.close()
        if isinstance(error, OSError):
            raise SpawnFailed(f"cannot watch process {program.process.pid}: {error}") from error
        raise


@final
class _ProgramLeader:
    """A direct child of this process."""

    def __init__(self, program: Program) -> None:
        """Watch it.

        Raises:
            OSError: no descriptor is left to watch it by.
            SpawnFailed: it has no identity.
        """
        process = program.process
        identity = identity_of(process.pid)
        if identity is None:
            raise SpawnFailed(f"process {process.pid} has no readable identity")
        self.identity: Final[ProcessIdentity] = identity
        self._process: Final = process
        self._pidfd: Final = os.pidfd_open(process.pid) if sys.platform == "linux" else None

    def signal_group(self, sig: signal.Signals) -> None:
        # macOS refuses to signal a group of nothing but zombies with EPERM.
        try:
            os.killpg(self._process.pid, sig)
        except (ProcessLookupError, PermissionError):
            return

    async def exited(self) -> None:
        """Wait for the exit; where there are no pidfds the wait polls and reaps."""
        if self._pidfd is not None:
            await trio.lowlevel.wait_readable(self._pidfd)
            return
        while self._process.poll() is None:  # noqa: ASYNC110 - no event here
            await trio.sleep(_POLL_S)

    async def reap(self) -> ExitStatus:
        """Reap it; it has exited, so this ends at once."""
        return ExitStatus.from_returncode(self._process.wait())

    def close(self) -> None:
        """Close the pidfd."""
        if self._pidfd is not None:
            os.close(self._pidfd)
