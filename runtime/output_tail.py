"""The last part of what a child printed, drained all the time so that it never blocks."""

import os
from typing import Final, final

import trio

_READ_BYTES: Final = 65_536
_CONTINUATION_BYTES: Final = bytes(range(0x80, 0xC0))


@final
class OutputTail:
    """Reads a pipe and keeps its last bytes.

    `drain` reads until end of file; `drain_available` takes only what is there. The descriptor is
    owned: it is closed at end of file or by `close`.
    """

    def __init__(self, descriptor: int, bytes_max: int) -> None:
        """Read `descriptor`, which is made non-blocking, keeping at most `bytes_max` bytes."""
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._bytes_max = bytes_max
        self._kept = bytearray()
        self._scope = trio.CancelScope()

    def text(self) -> str:
        """Return the kept bytes as text; bytes that are not UTF-8 become U+FFFD."""
        kept = bytes(self._kept)
        # Cutting the front may have split a character: its other bytes are dropped too.
        return kept.lstrip(_CONTINUATION_BYTES).decode("utf-8", errors="replace")

    async def drain(self) -> None:
        """Read until end of file, `close`, or cancellation."""
        with self._scope:
            while self._descriptor is not None:
                await trio.lowlevel.wait_readable(self._descriptor)
                self._read_once()

    def drain_available(self) -> None:
        """Take what the pipe holds now, at most as much as is kept anyway."""
        budget = self._bytes_max
        while budget > 0 and (count := self._read_once()):
            budget -= count

    def close(self) -> None:
        """Stop reading and close the descriptor; a later writer gets a broken pipe."""
        self._scope.cancel()
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            trio.lowlevel.notify_closing(descriptor)
            os.close(descriptor)

    def _read_once(self) -> int:
        """Read once; return how many bytes came, 0 when there are none now or ever."""
        if self._descriptor is None:
            return 0
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
            return 0
        self._kept += data
        del self._kept[: -self._bytes_max]
        return len(data)
