"""Bodies too large for a message, on the runner's side: cut into parts, put together, checked.

Canonical bytes of a value are made once: the output of a node is measured, written to the server
and named by the effect's end and the attempt's end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from pi_workflows.protocol.canonical import (
    CanonicalError,
    JsonObject,
    JsonValue,
    canonical_bytes,
    digest_hex,
    load_stored,
)
from pi_workflows.protocol.content import (
    INLINE_BYTES_MAX,
    PART_BYTES_MAX,
    ContentInvalid,
    ContentReference,
    decode_part,
    encode_part,
)
from pi_workflows.runner.messages import Send

_BODIES: Final = ("output", "result", "receipt")
"""Fields of a transition that hold what user code has made, of any size."""


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A value with its canonical bytes."""

    value: JsonValue
    content: bytes

    @property
    def is_large(self) -> bool:
        """True when it does not stand in a message itself."""
        return len(self.content) > INLINE_BYTES_MAX


_NOTHING: Final = _Encoded(None, b"null")


class Bodies:
    """Values as their bytes; remembers the largest since the last message."""

    def __init__(self) -> None:
        self._kept = _NOTHING

    def size(self, value: JsonValue) -> int:
        """Return how many bytes of canonical JSON the value has."""
        return len(self._encode(value).content)

    def lift(self, transition: JsonObject) -> tuple[JsonObject, dict[str, bytes]]:
        """Return the transition with references for its large bodies, and these by digest."""
        lifted: dict[str, bytes] = {}
        placed = dict(transition)
        for name in _BODIES:
            if name in placed and (encoded := self._encode(placed[name])).is_large:
                del placed[name]
                reference = ContentReference.of(encoded.content)
                placed[f"{name}Content"] = reference.to_json()
                lifted[reference.sha256] = encoded.content
        # The server knows the last output: a large final output is not said again.
        if "finalOutput" in placed and self._encode(placed["finalOutput"]).is_large:
            del placed["finalOutput"]
        return placed, lifted

    def forget(self) -> None:
        """Let go of what is remembered."""
        self._kept = _NOTHING

    def _encode(self, value: JsonValue) -> _Encoded:
        if value is self._kept.value:
            return self._kept
        encoded = _Encoded(value, canonical_bytes(value))
        if len(encoded.content) > len(self._kept.content):
            self._kept = encoded
        return encoded


def parts(content: bytes) -> Iterator[Send]:
    """Yield the messages that write these bytes to the server, in order."""
    reference = ContentReference.of(content).to_json()
    view = memoryview(content)
    for offset in range(0, len(content), PART_BYTES_MAX):
        data = encode_part(view[offset : offset + PART_BYTES_MAX])
        yield Send("content.write", {**reference, "offset": offset, "data": data}, None)


class Arriving:
    """A body that the server has named by reference, while its parts come."""

    def __init__(self, reference: JsonValue) -> None:
        """Begin to read.

        Raises:
            ContentInvalid: it is no reference.
        """
        self._reference = ContentReference.parse(reference)
        self._content = bytearray()

    @property
    def is_complete(self) -> bool:
        """True once all announced bytes are there."""
        return len(self._content) >= self._reference.byte_length

    def wanted(self) -> JsonObject:
        """Return the payload that asks for the next part."""
        return {"sha256": self._reference.sha256, "offset": len(self._content)}

    def take(self, result: JsonObject) -> None:
        """Add the part that a `content.read` has brought.

        Raises:
            ContentInvalid: it is no base64, empty, or too long.
        """
        self._content += decode_part(result.get("data"))

    def value(self) -> JsonValue:
        """Return the value.

        Raises:
            ContentInvalid: length, digest or JSON are not what was announced.
        """
        if len(self._content) != self._reference.byte_length:
            raise ContentInvalid("a content has another length than was announced")
        content = bytes(self._content)
        if digest_hex(content) != self._reference.sha256:
            raise ContentInvalid("a content has another digest than was announced")
        try:
            return load_stored(content)
        except (CanonicalError, ValueError) as error:
            raise ContentInvalid("a content is not JSON") from error


def named(holder: JsonObject, name: str) -> tuple[JsonValue, JsonObject | None]:
    """Return (value, None) of a body, or (None, its reference) when it stands elsewhere."""
    return holder.get(name), cast("JsonObject | None", holder.get(f"{name}Content"))
