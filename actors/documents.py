"""Documents that do not fit one frame, kept for a short while and read in parts."""

import base64
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import trio

from pi_workflows.protocol.canonical import JsonObject

PART_BYTES: Final = 196_608

DOCUMENTS_KEPT: Final = 16
BYTES_KEPT: Final = 256 * 1024 * 1024
"""Bytes of all kept documents; the newest one is kept whatever its size."""

UNUSED_S: Final = 60.0
"""A document that nobody has read for so long is dropped."""

_MEDIA_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Document:
    """Canonical JSON and its SHA-256 in hex, which is computed once."""

    content: bytes | bytearray
    sha256: str


@dataclass(slots=True)
class _Kept:
    """A kept document and when it was last used, on the loop's clock."""

    document: Document
    used_at_s: float


class Documents:
    """What is offered in parts; `forget_unused` must run for anything to be dropped in time."""

    def __init__(self) -> None:
        self._kept: Final[OrderedDict[tuple[str, str], _Kept]] = OrderedDict()
        self._offered = trio.Event()

    @property
    def bytes_kept(self) -> int:
        """Bytes of all kept documents."""
        return sum(len(kept.document.content) for kept in self._kept.values())

    def offer(self, run_id: str, document: Document) -> JsonObject:
        """Keep a document of a run; equal ones share an address, the longest unused go first."""
        path = f"artifacts/sha256/{document.sha256}.json"
        self._kept.pop((run_id, path), None)
        self._kept[run_id, path] = _Kept(document, trio.current_time())
        while len(self._kept) > 1 and (
            len(self._kept) > DOCUMENTS_KEPT or self.bytes_kept > BYTES_KEPT
        ):
            self._kept.popitem(last=False)
        self._offered.set()
        return {
            "path": path,
            "bytes": len(document.content),
            "sha256": document.sha256,
            "mediaType": _MEDIA_TYPE,
        }

    def part(self, run_id: str, path: str, offset: int) -> JsonObject | None:
        """Return one part of a document; None when it is not (or no longer) kept for this run."""
        kept = self._kept.get((run_id, path))
        if kept is None or offset > len(kept.document.content):
            return None
        kept.used_at_s = trio.current_time()
        self._kept.move_to_end((run_id, path))
        content = kept.document.content
        chunk = content[offset : offset + PART_BYTES]
        following = offset + len(chunk)
        complete = following >= len(content)
        return {
            "data": base64.b64encode(chunk).decode(),
            "bytes": len(content),
            "sha256": kept.document.sha256,
            "mediaType": _MEDIA_TYPE,
            "nextOffset": None if complete else following,
            "complete": complete,
        }

    async def forget_unused(self) -> None:
        """Drop what nobody reads any more, until cancelled."""
        while True:
            oldest = next(iter(self._kept.values()), None)
            if oldest is None:
                self._offered = trio.Event()
                await self._offered.wait()
            elif trio.current_time() < oldest.used_at_s + UNUSED_S:
                await trio.sleep_until(oldest.used_at_s + UNUSED_S)
            else:
                self._kept.popitem(last=False)
