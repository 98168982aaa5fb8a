"""Children of simulated processes: programs that are coroutines, behind the real `Child`."""

import signal
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, final

import trio

from runtime.identity import ProcessIdentity
from runtime.process import ChildSpec, ExitStatus
from runtime.simulation.machine import Machine
from runtime.simulation.network import own
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.streams import SimulatedStream

START_S_MAX: Final = 0.02
"""Longest time from a spawn to the first step of the child's program."""

ChildProgram: TypeAlias = Callable[[SimulatedProcess, SimulatedStream, ChildSpec], Awaitable[int]]
"""What a child runs with its end of the connection; its result is the exit code."""


@final
class SimulatedChild:
    """See `runtime.process.Child`."""

    def __init__(
        self,
        machine: Machine,
        parent: SimulatedProcess,
        process: SimulatedProcess,
        stream: SimulatedStream,
    ) -> None:
        self._machine: Final = machine
        self._parent: Final = parent
        self._process: Final = process
        self._stream: Final = stream

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def identity(self) -> ProcessIdentity:
        """Who it is."""
        return self._process.identity

    @property
    def stream(self) -> SimulatedStream:
        """Our end of the connection."""
        return self._stream

    def output_tail(self) -> str:
        """Return what it printed."""
        return self._process.output

    async def wait(self) -> ExitStatus:
        """Wait for its end; what is left of its session is killed then."""
        self._parent.check()
        await self._process.ended.wait()
        self._parent.check()
        self._end_session()
        assert self._process.status is not None
        return self._process.status

    async def stop(self, grace_s: float = 2.0) -> ExitStatus:
        """SIGTERM, at most `grace_s` seconds, SIGKILL; shielded."""
        self._parent.check()
        with trio.CancelScope(shield=True):
            self._machine.processes.signal(self._process, signal.SIGTERM)
            with trio.move_on_after(grace_s):
                await self._process.ended.wait()
            self._parent.check()
            self._machine.processes.signal(self._process, signal.SIGKILL)
            self._end_session()
            await self._stream.aclose()
        assert self._process.status is not None
        return self._process.status

    def _end_session(self) -> None:
        for member in self._machine.processes.in_session_of(self._process.identity):
            self._machine.kill(member)


@final
class SimulatedSpawner:
    """Starts coroutines instead of programs; see `runtime.process.Spawner`."""

    def __init__(
        self,
        machine: Machine,
        parent: SimulatedProcess,
        program_of: Callable[[ChildSpec], tuple[str, ChildProgram]],
    ) -> None:
        """`program_of` returns the name and the program of what is to be started."""
        self._machine: Final = machine
        self._parent: Final = parent
        self._program_of: Final = program_of
        self._chance: Final = machine.chance.stream(f"starts of {parent.identity}")

    async def spawn(self, spec: ChildSpec) -> SimulatedChild:
        """Start the program; it takes its first step a little later."""
        self._parent.check()
        await trio.lowlevel.checkpoint()
        self._parent.check()
        name, program = self._program_of(spec)
        ours, theirs = self._machine.wires.pair(name)
        delay_s = self._chance.random() * START_S_MAX

        async def run(process: SimulatedProcess) -> int:
            await trio.sleep(delay_s)
            return await program(process, theirs, spec)

        process = self._machine.start(name, run)
        own(theirs, process)
        return SimulatedChild(self._machine, self._parent, process, own(ours, self._parent))
