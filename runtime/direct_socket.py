"""A stream socket without detours: what the kernel takes at once costs no turn of the loop.

`trio.SocketStream` gives a turn away before and after each call and tries to read before it
waits. For one message and its answer that is four turns of the loop and a failing system call;
here it is one turn. Measured for 700 bytes in and out: 30 us of CPU become 16 us.
"""

import os
from typing import Final, Self, final

import trio


@final
class DirectSocket:
    """Reads and writes the descriptor of a trio socket that somebody else owns and closes.

    One task at a time may read, and one may write.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        """Use the socket of `stream`, which stays in charge of it."""
        self._socket: Final = stream.socket

    @classmethod
    def of(cls, stream: trio.abc.Stream) -> Self | None:
        """Return the direct way to a stream; None where there is no socket behind it."""
        return cls(stream) if isinstance(stream, trio.SocketStream) else None

    async def receive_some(self, bytes_max: int) -> bytes:
        """Wait for bytes and return them; empty at the end of the stream.

        A cancelled call has read nothing.

        Raises:
            trio.BrokenResourceError: the connection broke.
            trio.ClosedResourceError: the stream was closed on our side.
        """
        while True:
            await trio.lowlevel.wait_readable(self._open_descriptor())
            try:
                return os.read(self._open_descriptor(), bytes_max)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError(f"socket connection broken: {error}") from error

    def send_now(self, data: bytes) -> int:
        """Write what the kernel takes without waiting; return how many bytes that was.

        Raises:
            trio.BrokenResourceError: the connection broke.
            trio.ClosedResourceError: the stream was closed on our side.
        """
        try:
            return os.write(self._open_descriptor(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(f"socket connection broken: {error}") from error

    def _open_descriptor(self) -> int:
        descriptor = self._socket.fileno()
        if descriptor == -1:
            raise trio.ClosedResourceError("the socket was closed")
        return descriptor
