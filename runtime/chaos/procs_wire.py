"""Lines of JSON between a controller and one process of its pool, over a stream socket.

One line is under way at a time in either direction: who has asked waits for the answer. There is
nothing to confuse, so a line is a plain object and what it means is said by its keys.
"""

import socket
from typing import Final, final

import orjson

from pi_workflows.protocol.canonical import JsonObject

PATIENCE_S: Final = 120.0
"""How long a controller waits for a process that does not stand at a point. None is that slow: it
only guards against one that hangs, and such an exploration has no verdict."""

_CHUNK: Final = 65_536


class PeerGone(Exception):
    """The other end has closed, or ended."""


@final
class Line:
    """One end."""

    def __init__(self, end: socket.socket, *, patience_s: float | None = None) -> None:
        """Take over one end of a pair.

        Args:
            patience_s: how long `receive` waits; None waits for ever, as a process of the pool
                does: its controller may think as long as it likes.
        """
        self._end: Final = end
        end.settimeout(patience_s)

    def send(self, message: JsonObject) -> None:
        """Send one object.

        Raises:
            PeerGone: nobody will read it.
        """
        try:
            self._end.sendall(orjson.dumps(message) + b"\n")
        except OSError as error:
            raise PeerGone from error

    def send_with(self, message: JsonObject, descriptor: int) -> None:
        """Send one object and a descriptor for the other process to have.

        Raises:
            PeerGone: nobody will read it.
        """
        try:
            socket.send_fds(self._end, [orjson.dumps(message) + b"\n"], [descriptor])
        except OSError as error:
            raise PeerGone from error

    def receive(self) -> JsonObject:
        """Wait for the next object.

        Raises:
            PeerGone: there will be none.
            TimeoutError: there was none for as long as the patience lasts.
        """
        try:
            received = self._end.recv(_CHUNK)
            while not received.endswith(b"\n"):
                more = self._end.recv(_CHUNK)
                if not more:
                    raise PeerGone
                received += more
        except ConnectionError as error:
            raise PeerGone from error
        return _parsed(received)

    def receive_with(self) -> tuple[JsonObject, list[int]]:
        """Wait for the next object and the descriptors that come with it, ours from now on.

        Raises:
            PeerGone: there will be none.
        """
        try:
            received, descriptors, _, _ = socket.recv_fds(self._end, _CHUNK, 1)
        except ConnectionError as error:
            raise PeerGone from error
        if not received:
            raise PeerGone
        return _parsed(received), descriptors

    def close(self) -> None:
        """Leave; the other end learns it."""
        self._end.close()


def _parsed(received: bytes) -> JsonObject:
    message: JsonObject = orjson.loads(received)
    return message
