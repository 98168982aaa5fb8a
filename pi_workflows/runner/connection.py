"""The runner's socket: one frame out, its answer in, by whichever thread holds the word."""

import os
import socket
import threading
from collections import deque
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, load_stored
from pi_workflows.protocol.frames import FrameDecoder, FrameError, parse_canonical

_READ_BYTES: Final = 65_536


class ChannelLost(OSError):
    """The server cannot be spoken to any more; the process has to end."""


class Connection:
    """A blocking stream socket on which every frame is answered before the next one.

    The server never speaks unasked, so nobody has to read between two exchanges. Whoever calls
    `exchange` holds `word`: a frame is never cut by another.
    """

    def __init__(self, connection: socket.socket) -> None:
        """Own `connection`, which blocks."""
        self._connection = connection
        self._decoder = FrameDecoder()
        self._lines: deque[bytes] = deque()
        self._is_torn = False
        self._is_foreign = False
        self._inode = os.fstat(connection.fileno()).st_ino
        self.word = threading.Lock()

    @property
    def descriptor(self) -> int:
        """Number of the socket's descriptor."""
        return self._connection.fileno()

    def receive_first(self) -> JsonObject:
        """Read the frame that opens the conversation.

        Raises:
            ChannelLost: the stream ended first.
            FrameError: the frame is malformed.
            OSError: the connection broke.
        """
        return parse_canonical(self._receive())

    def exchange(self, message_id: str, frame: bytes) -> JsonObject:
        """Send a frame and return its answer; an answer that nobody took before is passed over.

        Raises:
            ChannelLost: the stream ended, or an earlier frame was cut short by an exception that
                another's code raised in the middle of it.
            FrameError: the answer is malformed.
            OSError: the connection broke, or the bound was reached.
        """
        if self._is_torn or self._is_foreign:
            raise ChannelLost("the stream cannot be used any more")
        self._is_torn = True
        self._connection.sendall(frame)
        self._is_torn = False
        while True:
            answer = _parse(self._receive())
            if answer.get("messageId") == message_id:
                return answer

    def bound(self, seconds: float) -> None:
        """Let no later wait for the server take longer than this."""
        self._connection.settimeout(seconds)

    def check_own(self) -> None:
        """Look whether the descriptor is still the socket; foreign code may have closed it.

        Raises:
            ChannelLost: its number is free, or names something else now.
        """
        try:
            is_own = os.fstat(self._connection.fileno()).st_ino == self._inode
        except OSError:
            is_own = False
        if not is_own:
            self._is_foreign = True
            raise ChannelLost("user code has closed the runner's descriptor")

    def let_go(self) -> None:
        """In a forked child: it speaks for nobody, and no thread of its parent holds its locks."""
        self._is_foreign = True
        self.word = threading.Lock()

    def _receive(self) -> bytes:
        while not self._lines:
            data = self._connection.recv(_READ_BYTES)
            if not data:
                raise ChannelLost("the server closed the stream")
            self._lines.extend(self._decoder.feed(data))
        return self._lines.popleft()


def _parse(line: bytes) -> JsonObject:
    """Parse what the server wrote; it is believed to be canonical."""
    try:
        answer = load_stored(line)
    except ValueError as error:
        raise FrameError("an answer is not JSON") from error
    if not isinstance(answer, dict):
        raise FrameError("an answer is one JSON object")
    return answer
