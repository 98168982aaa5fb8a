"""Children that are coroutines: the spawner of a simulation, where no process escapes the loop."""

import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

import trio

from runtime.errors import SpawnFailed
from runtime.identity import ProcessIdentity
from runtime.process import ChildSpec, ExitStatus

Script: TypeAlias = Callable[[trio.SocketStream], Awaitable[ExitStatus]]
"""What a child does with its end of the socket pair; its result is how it exited."""

STOPPED: Final = ExitStatus(None, int(signal.SIGTERM))
FIRST_PID: Final = 4_200_000
"""Above the largest process id of a system with default limits: it names no real process."""


@final
class ScriptedChild:
    """A child that follows a script; see `runtime.process.Child`.

    Attributes:
        was_stopped: whether `stop` was called, also after its end.
    """

    def __init__(self, pid: int, stream: trio.SocketStream) -> None:
        self.pid: Final = pid
        self.identity: Final = ProcessIdentity(pid, f"scripted:{pid}")
        self.stream: Final = stream
        self.was_stopped = False
        self._scope = trio.CancelScope()
        self._status: ExitStatus | None = None
        self._ended = trio.Event()

    def output_tail(self) -> str:
        """Return a fixed text: a script prints nothing."""
        return "the last words of the child"

    async def wait(self) -> ExitStatus:
        """Wait for the end of the script."""
        await self._ended.wait()
        assert self._status is not None
        return self._status

    async def stop(self, grace_s: float = 2.0) -> ExitStatus:  # noqa: ARG002 - the protocol's
        """Cancel the script, which counts as ended by SIGTERM, and close our end; shielded."""
        self.was_stopped = True
        with trio.CancelScope(shield=True):
            self._scope.cancel()
            await self._ended.wait()
            await self.stream.aclose()
        assert self._status is not None
        return self._status

    async def live(self, script: Script, theirs: trio.SocketStream) -> None:
        """Follow the script until its end or `stop`, then close the child's end."""
        status = STOPPED
        try:
            with self._scope:
                status = await script(theirs)
        finally:
            self._status = status
            await trio.aclose_forcefully(theirs)
            self._ended.set()


@final
@dataclass
class ScriptedSpawner:
    """Starts scripts instead of programs; see `runtime.process.Spawner`.

    Attributes:
        nursery: where the scripts run; an error of one is an error there.
        scripts: taken in order, the last one again and again.
        refusals: how many of the next spawns fail.
        spawned, specs: every child so far with what was to be started.
        living: children that have not ended; `living_max` is the most there ever were.
    """

    nursery: trio.Nursery
    scripts: list[Script] = field(default_factory=list)
    refusals: int = 0
    spawned: list[ScriptedChild] = field(default_factory=list)
    specs: list[ChildSpec] = field(default_factory=list)
    living: int = 0
    living_max: int = 0

    async def spawn(self, spec: ChildSpec) -> ScriptedChild:
        """Start the next script. Cancelled: nothing was started.

        Raises:
            SpawnFailed: it was told to refuse.
        """
        await trio.lowlevel.checkpoint()
        if self.refusals:
            self.refusals -= 1
            raise SpawnFailed("told to refuse")
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        ours, theirs = map(_stream, socket.socketpair())
        child = ScriptedChild(FIRST_PID + len(self.spawned), ours)
        self.spawned.append(child)
        self.specs.append(spec)
        self.living += 1
        self.living_max = max(self.living_max, self.living)
        self.nursery.start_soon(self._live, child, script, theirs)
        return child

    async def _live(self, child: ScriptedChild, script: Script, theirs: trio.SocketStream) -> None:
        try:
            await child.live(script, theirs)
        finally:
            self.living -= 1


def _stream(end: socket.socket) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(end))
