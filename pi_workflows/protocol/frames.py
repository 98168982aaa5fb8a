"""Framing without I/O: one canonical JSON object per newline-ended line, at most 1 MiB."""

from typing import Final

import orjson

from pi_workflows.protocol.canonical import (
    CanonicalError,
    JsonObject,
    JsonValue,
    canonical_bytes,
    may_hold_long_numbers,
    parse_json,
)

FRAME_BYTES_MAX: Final = 1_048_576
"""Largest frame in bytes, the newline included."""


_TWICE_BYTES: Final = 4_096
"""A shorter line that is refused is parsed once more, for an exact reason."""


class FrameError(ValueError):
    """The peer sent bytes that are no frame; the connection cannot go on."""


class FrameTooLarge(FrameError):
    """A frame exceeds `FRAME_BYTES_MAX`."""


def encode_frame(message: JsonObject) -> bytes:
    """Return the message as one frame.

    Raises:
        FrameTooLarge: the frame would exceed 1 MiB.
        CanonicalError: the message is not JSON.
    """
    frame = canonical_bytes(message) + b"\n"
    if len(frame) > FRAME_BYTES_MAX:
        raise FrameTooLarge(f"a frame of {len(frame)} bytes exceeds {FRAME_BYTES_MAX}")
    return frame


def parse_canonical(line: bytes) -> JsonObject:
    """Parse one line (without its newline) that must be a canonical JSON object.

    Raises:
        FrameError: not JSON, not an object, or bytes other than the canonical ones.
    """
    at_once = _parse_at_once(line)
    if at_once is not None:
        return at_once
    return _parse_strictly(line)


def _parse_strictly(line: bytes) -> JsonObject:
    try:
        message = parse_json(line)
        if not isinstance(message, dict):
            raise FrameError("a frame is one JSON object")
        if canonical_bytes(message) != line:
            raise FrameError("a frame must be canonical JSON")
    except CanonicalError as error:
        raise FrameError(str(error)) from error
    return message


def _parse_at_once(line: bytes) -> JsonObject | None:
    """Parse what is canonical, eight times faster; None leaves the verdict to the strict parser.

    A value whose canonical bytes are the line itself can hide nothing: no duplicate key, no other
    spelling of a number, no depth beyond the bound.

    Raises:
        FrameError: other bytes than the canonical ones, for sure: the work is not done twice.
    """
    try:
        value: JsonValue = orjson.loads(line)
        if isinstance(value, dict) and canonical_bytes(value) == line:
            return value
    except ValueError:
        return None
    if len(line) < _TWICE_BYTES or may_hold_long_numbers(line):
        return None
    raise FrameError("a frame must be one object of canonical JSON")


class FrameDecoder:
    """Cuts a byte stream into lines; holds at most one unfinished frame."""

    def __init__(self) -> None:
        self._unfinished = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive and return the finished lines in order, newlines removed.

        Costs no more for a frame that comes byte by byte.

        Raises:
            FrameTooLarge: a line, finished or not, exceeds 1 MiB. Lines before it are lost: the
                connection is to be closed.
        """
        first, *others = data.split(b"\n")
        self._unfinished += first
        longest = max(len(self._unfinished), max(map(len, others), default=0))
        if longest >= FRAME_BYTES_MAX:
            raise FrameTooLarge(f"a frame exceeds {FRAME_BYTES_MAX} bytes")
        if not others:
            return []
        lines = [bytes(self._unfinished), *others[:-1]]
        self._unfinished = bytearray(others[-1])
        return lines

    @property
    def pending(self) -> int:
        """Bytes of the unfinished frame."""
        return len(self._unfinished)
