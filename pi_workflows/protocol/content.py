"""Bodies that travel beside their message: a reference where the body would stand, then parts.

A message names such a body `<field>Content` instead of `<field>`. Its bytes go the way of
`content.write` and `content.read` in parts of at most 512 KiB, base64, and count only as a whole:
by length and SHA-256.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final, Self

from pi_workflows.protocol.canonical import JsonObject, JsonValue, digest_hex

PART_BYTES_MAX: Final = 524_288
"""Most bytes of one part, before base64."""

INLINE_BYTES_MAX: Final = 131_072
"""A larger body is named by reference: four of this size and their message fit one frame."""

CONTENT_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest body. It is one value in the database and in the memory of its runner."""

JSON_MEDIA: Final = "application/json"

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class ContentInvalid(ValueError):
    """A reference or a part is not what it has to be; the text names the field, never a value."""


@dataclass(frozen=True, slots=True)
class ContentReference:
    """What a body is known by.

    Attributes:
        sha256: of its bytes, 64 hexadecimal digits.
        byte_length: 1 to `CONTENT_BYTES_MAX`.
    """

    sha256: str
    byte_length: int

    @classmethod
    def of(cls, content: bytes) -> Self:
        """Return the reference of these bytes."""
        return cls(digest_hex(content), len(content))

    @classmethod
    def parse(cls, value: JsonValue) -> Self:
        """Read `{"bytes", "mediaType", "sha256"}`; further fields are somebody else's.

        Raises:
            ContentInvalid: a field is missing or out of bounds.
        """
        if not isinstance(value, dict):
            raise ContentInvalid("a content reference is an object")
        sha256, byte_length = value.get("sha256"), value.get("bytes")
        if not isinstance(sha256, str) or _SHA256.fullmatch(sha256) is None:
            raise ContentInvalid("sha256 is not 64 hexadecimal digits")
        if type(byte_length) is not int or not 0 < byte_length <= CONTENT_BYTES_MAX:
            raise ContentInvalid(f"bytes is not 1 to {CONTENT_BYTES_MAX}")
        if value.get("mediaType") != JSON_MEDIA:
            raise ContentInvalid(f"mediaType is not {JSON_MEDIA}")
        return cls(sha256, byte_length)

    def to_json(self) -> JsonObject:
        """Return the form that `parse` reads."""
        return {"sha256": self.sha256, "bytes": self.byte_length, "mediaType": JSON_MEDIA}


def encode_part(data: bytes | memoryview) -> str:
    """Return the wire form of a part's bytes."""
    return base64.b64encode(data).decode()


def decode_part(value: JsonValue) -> bytes:
    """Return the bytes of a part.

    Raises:
        ContentInvalid: it is not base64, is empty, or has more than `PART_BYTES_MAX` bytes.
    """
    try:
        data = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError) as error:
        raise ContentInvalid("data is not base64") from error
    if not 0 < len(data) <= PART_BYTES_MAX:
        raise ContentInvalid(f"data is not 1 to {PART_BYTES_MAX} bytes as base64")
    return data
