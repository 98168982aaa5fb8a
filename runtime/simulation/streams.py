"""Byte streams between simulated processes: bounded, torn at random places, cut by a death."""

from collections.abc import Callable
from typing import Final, final

import trio
from typing_extensions import override

from runtime.simulation.chance import Draws
from runtime.simulation.fates import Fate

CAPACITY_BYTES: Final = 65_536
"""What one direction holds before its sender has to wait."""

_WHOLE: Final = 0.5
"""How often a read or write is not torn."""

_LATE: Final = 0.25
_LATE_S_MAX: Final = 0.005
"""How often and how long data is on its way; long enough for others to act meanwhile."""


@final
class _Direction:
    """Bytes from one end to the other."""

    def __init__(self) -> None:
        self.waiting = bytearray()
        self.sender_gone = False
        self.receiver_gone = False
        self.is_reset = False
        self.late_until = 0.0
        self._moved = trio.lowlevel.ParkingLot()

    def wake(self) -> None:
        """Let both ends look again."""
        self._moved.unpark_all()

    async def changed(self) -> None:
        """Wait until something may have changed."""
        await self._moved.park()


@final
class SimulatedStream(trio.abc.Stream):
    """One end of a connection; like a Unix socket, with the kernel's part in memory.

    What was sent before the sender died still arrives. An end that dies or closes with unread
    bytes resets the connection: the other end gets no end of file but a broken stream.

    Attributes:
        name: who talks to whom, for the trace.
    """

    def __init__(
        self,
        name: str,
        incoming: _Direction,
        outgoing: _Direction,
        chance: Draws,
        sent: Callable[[bytes], Fate],
    ) -> None:
        """`sent` is told what is sent here, and says what becomes of it."""
        self.name: Final = name
        self._incoming: Final = incoming
        self._outgoing: Final = outgoing
        self._chance: Final = chance
        self._sent: Final = sent
        self._check: Callable[[], None] = lambda: None
        self._is_closed = False

    def belongs_to(self, check: Callable[[], None]) -> None:
        """Give this end to a process; `check` raises in a process that is dead."""
        self._check = check

    @override
    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything, in pieces; a cancelled call may have sent a part."""
        await self._checkpoint()
        rest = bytes(data)
        fate = self._sent(rest)
        if fate.is_lost:
            self._check_open()
            self._break()
            return
        self._outgoing.late_until = max(
            self._outgoing.late_until, trio.current_time() + fate.late_s
        )
        while rest:
            self._check_open()
            if self._outgoing.receiver_gone:
                raise trio.BrokenResourceError("the other end is gone")
            room = CAPACITY_BYTES - len(self._outgoing.waiting)
            if room <= 0:
                await self._outgoing.changed()
                self._check()
                continue
            piece = self._piece(min(room, len(rest)))
            self._outgoing.waiting += rest[:piece]
            rest = rest[piece:]
            self._outgoing.wake()
            await self._checkpoint()

    @override
    async def wait_send_all_might_not_block(self) -> None:
        """Wait for room."""
        await self._checkpoint()
        while not self._is_closed and not self._outgoing.receiver_gone:
            if len(self._outgoing.waiting) < CAPACITY_BYTES:
                return
            await self._outgoing.changed()
            self._check()

    @override
    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return at least one byte, often fewer than wait; empty at the end."""
        await self._checkpoint()
        incoming = self._incoming
        while True:
            self._check_open()
            if incoming.waiting:
                if incoming.late_until > trio.current_time():
                    await trio.sleep_until(incoming.late_until)
                    self._check()
                    continue
                if self._chance.random() < _LATE:
                    await trio.sleep(self._chance.random() * _LATE_S_MAX)
                    self._check()
                    self._check_open()
                    if not incoming.waiting:
                        continue
                size = self._piece(min(len(incoming.waiting), max_bytes or CAPACITY_BYTES))
                data = bytes(incoming.waiting[:size])
                del incoming.waiting[:size]
                incoming.wake()
                return data
            if incoming.is_reset:
                raise trio.BrokenResourceError("the other end reset the connection")
            if incoming.sender_gone:
                return b""
            await incoming.changed()
            self._check()

    def cut(self) -> None:
        """Close this end at once, as the kernel does when its process ends. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._outgoing.sender_gone = True
        self._outgoing.is_reset = bool(self._incoming.waiting)
        self._incoming.receiver_gone = True
        self._outgoing.wake()
        self._incoming.wake()

    def _break(self) -> None:
        """Break the connection for both ends; what is under way is lost."""
        for direction in (self._incoming, self._outgoing):
            direction.waiting.clear()
            direction.is_reset = direction.sender_gone = direction.receiver_gone = True
            direction.wake()

    @override
    async def aclose(self) -> None:
        """Close this end; a blocked call of it ends with `ClosedResourceError`."""
        self._check()
        self.cut()
        await trio.lowlevel.checkpoint()
        self._check()

    async def _checkpoint(self) -> None:
        self._check()
        await trio.lowlevel.checkpoint()
        self._check()

    def _check_open(self) -> None:
        if self._is_closed:
            raise trio.ClosedResourceError

    def _piece(self, size: int) -> int:
        if size <= 1 or self._chance.random() < _WHOLE:
            return size
        return self._chance.randint(1, size)


def stream_pair(
    name: str, chance: Draws, sent: Callable[[str, bytes], Fate]
) -> tuple[SimulatedStream, SimulatedStream]:
    """Return both ends of a new connection.

    Args:
        name: of the connection; the ends are called `<name>:a` and `<name>:b`.
        chance: where data is torn and how long it travels.
        sent: told which end sends what; says what becomes of it.
    """
    there, back = _Direction(), _Direction()

    def end(suffix: str, incoming: _Direction, outgoing: _Direction) -> SimulatedStream:
        own = f"{name}:{suffix}"
        return SimulatedStream(own, incoming, outgoing, chance, lambda data: sent(own, data))

    return end("a", back, there), end("b", there, back)
