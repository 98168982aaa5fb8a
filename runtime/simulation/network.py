"""Local sockets between simulated processes, by path."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

import trio
from typing_extensions import override

from runtime.simulation.chance import Draws
from runtime.simulation.fates import FairFates, Fate, Fates
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.streams import SimulatedStream, stream_pair
from runtime.simulation.trace import Trace


@final
class Wires:
    """Every listening socket and every connection of one machine."""

    def __init__(self, chance: Draws, trace: Trace, fates: Fates | None = None) -> None:
        """`fates` says what becomes of what is sent; None lets all of it arrive."""
        self._chance: Final = chance
        self._fates: Final = fates or FairFates()
        self._trace: Final = trace
        self._made = 0
        self.listening: Final[dict[Path, SimulatedListener]] = {}

    def pair(self, name: str) -> tuple[SimulatedStream, SimulatedStream]:
        """Return both ends of a new connection; they belong to nobody yet."""
        self._made += 1
        return stream_pair(f"{name}#{self._made}", self._chance, self._sent)

    def _sent(self, end: str, data: bytes) -> Fate:
        self._trace.note(end, "send", data)
        return self._fates.of_sending(end)


def own(stream: SimulatedStream, process: SimulatedProcess) -> SimulatedStream:
    """Let a process own an end: it is cut with the process."""
    stream.belongs_to(process.check)
    process.hold(stream.cut)
    return stream


@final
class SimulatedListener(trio.abc.Listener[SimulatedStream]):
    """A listening socket."""

    def __init__(self, process: SimulatedProcess, removed: Callable[[], None]) -> None:
        self._process: Final = process
        self._removed: Final = removed
        self._backlog: Final[deque[SimulatedStream]] = deque()
        self._arrival: Final = trio.lowlevel.ParkingLot()
        self._is_closed = False

    def connected(self, stream: SimulatedStream) -> None:
        """Put a connection into the backlog."""
        self._backlog.append(stream)
        self._arrival.unpark()

    @override
    async def accept(self) -> SimulatedStream:
        """Return the next connection."""
        self._process.check()
        await trio.lowlevel.checkpoint()
        while not self._backlog:
            self._process.check()
            if self._is_closed:
                raise trio.ClosedResourceError
            await self._arrival.park()
        self._process.check()
        return own(self._backlog.popleft(), self._process)

    def cut(self) -> None:
        """Close the socket and reset who waits in its backlog."""
        if not self._is_closed:
            self._is_closed = True
            self._removed()
            while self._backlog:
                self._backlog.popleft().cut()
            self._arrival.unpark_all()

    @override
    async def aclose(self) -> None:
        """Stop listening."""
        self._process.check()
        self.cut()
        await trio.lowlevel.checkpoint()


@final
class SimulatedNetwork:
    """The sockets as one process sees them; see `runtime.network.Network`."""

    def __init__(self, wires: Wires, process: SimulatedProcess) -> None:
        self._wires: Final = wires
        self._process: Final = process

    def listen(self, path: Path) -> SimulatedListener:
        """Listen at a path, in the place of whoever listened there before."""
        self._process.check()
        listener = SimulatedListener(self._process, lambda: self._forget(path, listener))
        self._wires.listening[path] = listener
        self._process.hold(listener.cut)
        return listener

    async def connect(self, path: Path) -> SimulatedStream:
        """Connect to whoever listens at a path.

        Raises:
            ConnectionRefusedError: nobody does.
        """
        self._process.check()
        await trio.lowlevel.checkpoint()
        self._process.check()
        listener = self._wires.listening.get(path)
        if listener is None:
            raise ConnectionRefusedError(f"nobody listens at {path}")
        ours, theirs = self._wires.pair(self._process.name)
        listener.connected(theirs)
        return own(ours, self._process)

    def _forget(self, path: Path, listener: SimulatedListener) -> None:
        if self._wires.listening.get(path) is listener:
            del self._wires.listening[path]
