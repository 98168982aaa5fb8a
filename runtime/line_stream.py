"""Frames over a byte stream: whole lines in, whole lines out."""

import math
from collections import deque
from typing import Final, final

import trio

from pi_workflows.protocol.frames import FrameDecoder, FrameError
from runtime.direct_socket import DirectSocket
from runtime.sync_points import InertSyncPoints, SyncPoint, SyncPoints

_RECEIVE_BYTES: Final = 65_536
_MID_FRAME: Final = SyncPoint.SOCKET_MID_FRAME  # Looked up once; every frame asks for it.


@final
class LineStream:
    """Cuts a trio stream into frames. One reader at a time, any number of writers.

    `aclose` ends a blocked `receive` and a blocked `send` with `trio.ClosedResourceError`.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        sync_points: SyncPoints | None = None,
        *,
        frame_s: float = math.inf,
    ) -> None:
        """Wrap `stream`, which is owned from now on.

        Args:
            frame_s: how long a call may wait in all for the rest of a frame that has begun;
                between frames the peer may be silent for ever.
        """
        self._frame_s = frame_s
        self._frame_left_s = math.inf
        self._stream = stream
        self._direct = DirectSocket.of(stream)
        self._sync_points = sync_points or InertSyncPoints()
        self._decoder = FrameDecoder()
        self._lines: deque[bytes] = deque()
        self._sending = trio.Lock()
        self._is_torn = False

    async def receive(self) -> bytes | None:
        """Return the next line without its newline; None at end of file.

        Bytes of an unfinished line at end of file are dropped. A cancelled call loses nothing.

        Raises:
            FrameTooLarge: The peer's line exceeds the limit; the stream is useless now.
            FrameError: The peer has begun a line and did not finish it in time.
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: The stream was closed on our side.
        """
        if self._lines:
            await trio.lowlevel.checkpoint()
        while not self._lines:
            data = await self._receive_some()
            if not data:
                return None
            self._take(bytes(data))
        return self._lines.popleft()

    async def _receive_some(self) -> bytes | bytearray:
        stream = self._direct or self._stream
        if self._frame_left_s == math.inf:
            return await stream.receive_some(_RECEIVE_BYTES)
        began_at = trio.current_time()
        with trio.move_on_after(self._frame_left_s):
            data = await stream.receive_some(_RECEIVE_BYTES)
            # Only waiting counts: while nobody reads here, the peer cannot finish its frame.
            self._frame_left_s -= trio.current_time() - began_at
            return data
        raise FrameError(f"a frame was begun and not finished within {self._frame_s:g} s")

    def _take(self, data: bytes) -> None:
        lines = self._decoder.feed(data)
        self._lines.extend(lines)
        if not self._decoder.pending:
            self._frame_left_s = math.inf
        elif lines or self._frame_left_s == math.inf:
            self._frame_left_s = self._frame_s

    async def send(self, frame: bytes) -> None:
        """Write one frame, its newline included; frames of several writers never mix.

        Gives no turn of the loop away if the socket takes all of it at once.

        A call cancelled while it writes leaves half a frame behind: the stream then refuses
        every further frame, so that a peer can never read two halves as one.

        Raises:
            trio.BrokenResourceError: The connection broke, or a frame was cut short before.
            trio.ClosedResourceError: The stream was closed on our side.
        """
        assert frame.endswith(b"\n"), "a frame ends with a newline"
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._sending.locked():
            await self._sending.acquire()
        else:
            self._sending.acquire_nowait()
        try:
            if self._is_torn:
                raise trio.BrokenResourceError("an earlier frame was cut short")
            self._is_torn = True
            await self._send(frame)
            self._is_torn = False
        finally:
            self._sending.release()

    async def _send(self, frame: bytes) -> None:
        if self._sync_points.is_armed(_MID_FRAME):
            half = len(frame) // 2
            await self._stream.send_all(frame[:half])
            self._sync_points.reached(_MID_FRAME)
            frame = frame[half:]
        sent = 0 if self._direct is None else self._direct.send_now(frame)
        if sent < len(frame):
            await self._stream.send_all(frame[sent:])

    async def aclose(self) -> None:
        """Close the stream; a second call does nothing."""
        await self._stream.aclose()
