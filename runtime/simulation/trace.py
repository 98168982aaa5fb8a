"""What happened in a simulation, in order: to read, and as a digest to compare by."""

import hashlib
from typing import Final, final

import trio

TEXT_CHARS_MAX: Final = 200
"""How much of an entry is kept for reading; the digest covers all of it."""


@final
class Trace:
    """An append-only list of entries, each with its virtual instant.

    Attributes:
        entries: instant in seconds, who, what, and the beginning of the detail.
    """

    def __init__(self) -> None:
        self.entries: Final[list[tuple[float, str, str, str]]] = []
        self._digest: Final = hashlib.sha256()
        self._noted: Final[list[bytes]] = []
        self._is_closed = False
        self._real = b""
        self._shown = b""

    def hide(self, real: str, shown: str) -> None:
        """Show a text that differs from run to run, such as a real path, as another one."""
        self._real, self._shown = real.encode(), shown.encode()

    def note(self, who: str, what: str, detail: str | bytes = "") -> None:
        """Append an entry of the present instant; does nothing once the trace is closed.

        Args:
            who: a process or another part of the machine.
            what: a constant word.
            detail: whatever tells two runs apart.
        """
        if self._is_closed:
            return
        data = detail if isinstance(detail, bytes) else detail.encode()
        if self._real:
            data = data.replace(self._real, self._shown)
        at = trio.current_time()
        head = f"{at!r} {who} {what} {len(data)} ".encode()
        self._digest.update(head)
        self._digest.update(data)
        self._noted.append(data)
        text = data[:TEXT_CHARS_MAX].decode(errors="replace").rstrip("\n")
        self.entries.append((at, who, what, text))

    def whole(self) -> bytes:
        """Return the details of all entries, whole, one after the other."""
        return b"\n".join(self._noted)

    def close(self) -> None:
        """Take no more entries: what follows is the end of the simulation, not part of it."""
        self._is_closed = True

    def digest(self) -> str:
        """Return the SHA-256 of all entries so far, in hexadecimal."""
        return self._digest.hexdigest()

    def lines(self) -> list[str]:
        """Return the entries as text, one line each."""
        return [f"{at:12.6f} {who:<16} {what:<10} {text}" for at, who, what, text in self.entries]
