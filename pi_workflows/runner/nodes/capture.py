"""Bounded text of one output stream of a command: its first characters, and its last ones."""

import codecs
from typing import Final

TAIL_CHARS: Final = 4_000
"""Last characters that are kept of a stream, whatever its limit."""

_CHARACTER_BYTES: Final = 2  # in UTF-16, the unit in which limits count


class Capture:
    """Decodes UTF-8 as it arrives and keeps the first characters; the rest is counted as cut.

    Bytes that are no UTF-8 become U+FFFD.

    Args:
        limit: UTF-16 units to keep.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []
        self._tail = ""
        self.truncated = False

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Take the next bytes; `final` ends an unfinished character."""
        text = self._decoder.decode(data, final)
        self._tail = (self._tail + text)[-TAIL_CHARS:]
        if not text or self.truncated:
            return
        units = len(text) if text.isascii() else len(text.encode("utf-16-le")) // _CHARACTER_BYTES
        if units <= self._left:
            self._left -= units
            self._pieces.append(text)
            return
        kept = text.encode("utf-16-le")[: self._left * _CHARACTER_BYTES]
        self._pieces += [kept.decode("utf-16-le", "ignore"), self._mark()]
        self.truncated = True

    def text(self) -> str:
        """Return what was kept; a cut ends with a line that says so."""
        return "".join(self._pieces)

    def tail(self) -> str:
        """Return the last characters of all that came, also of what was cut."""
        return self._tail

    def _mark(self) -> str:
        return f"\n… (cut after {self._limit} characters)"
