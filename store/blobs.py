"""Content-addressed values: each body is stored once, under the SHA-256 of its bytes."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from pi_workflows.protocol.canonical import (
    CanonicalError,
    JsonValue,
    canonical_bytes,
    digest,
    load_stored,
    parse_json,
)
from pi_workflows.protocol.content import JSON_MEDIA
from store.errors import BlobConflictError, StoreCorrupt
from store.transaction import Reading, Transaction

TEXT_MEDIA: Final = "text/plain"
_JSON_BEGINNINGS: Final = frozenset(bytes([first]) for first in b'"-0123456789[{tfn')


@dataclass(frozen=True, slots=True)
class Blob:
    """A value ready to be stored: hashed and serialised before any transaction begins.

    Attributes:
        blob_hash: SHA-256 of `content`, 32 bytes.
        media_type: `application/json` (canonical) or `text/plain` (UTF-8).
    """

    blob_hash: bytes
    media_type: str
    content: bytes

    @classmethod
    def of_json(cls, value: object) -> "Blob":
        """Make the blob of a JSON value.

        Raises:
            CanonicalError: the value has no canonical form.
        """
        content = canonical_bytes(value)
        return cls(digest(content), JSON_MEDIA, content)

    @classmethod
    def of_text(cls, text: str) -> "Blob":
        """Make the blob of a text for people.

        A text whose bytes would be those of a JSON value gets a final newline, which no canonical
        JSON has: content of one kind must never be in the way of the other (A §3 refuses it).
        """
        content = text.encode("utf-8", "replace")
        if _is_canonical_json(content):
            content += b"\n"
        return cls(digest(content), TEXT_MEDIA, content)

    @classmethod
    def checked(
        cls, media_type: str, content: bytes, *, blob_hash: bytes, byte_length: int
    ) -> "Blob":
        """Make the blob of bytes that their sender has described.

        Raises:
            BlobConflictError: the bytes have another digest or length than the sender said.
        """
        if byte_length != len(content):
            raise BlobConflictError("length")
        if blob_hash != digest(content):
            raise BlobConflictError("digest")
        return cls(blob_hash, media_type, content)


class BlobRow(NamedTuple):
    """One stored value."""

    blob_hash: bytes
    media_type: str
    byte_length: int
    content: bytes


INSERT_BLOB: Final = """
    INSERT OR IGNORE INTO blobs (blob_hash, media_type, byte_length, content, created_at)
    VALUES (:blob_hash, :media_type, :byte_length, :content, :now)
"""

SELECT_BLOB: Final = """
    SELECT blob_hash, media_type, byte_length, content FROM blobs WHERE blob_hash = :blob_hash
"""

ROW_STATEMENTS: Final = {"SELECT_BLOB": BlobRow}


def _is_canonical_json(content: bytes) -> bool:
    if content[:1] not in _JSON_BEGINNINGS:
        return False
    try:
        return canonical_bytes(parse_json(content)) == content
    except CanonicalError:
        return False


def put(tx: Transaction, blob: Blob) -> bytes:
    """Store the value unless the same one is there, and return its hash.

    Raises:
        BlobConflictError: these bytes are stored under another media type, or other bytes under
            this hash.
    """
    inserted = tx.execute(
        INSERT_BLOB,
        {
            "blob_hash": blob.blob_hash,
            "media_type": blob.media_type,
            "byte_length": len(blob.content),
            "content": blob.content,
            "now": tx.now,
        },
    )
    if inserted == 0:
        stored = tx.one(BlobRow, SELECT_BLOB, {"blob_hash": blob.blob_hash})
        if stored is None or (stored.media_type, stored.content) != (
            blob.media_type,
            blob.content,
        ):
            raise BlobConflictError("media type or bytes")
    return blob.blob_hash


def put_json(tx: Transaction, value: object) -> bytes:
    """Store a small JSON value; large ones are made with `Blob.of_json` before the transaction."""
    return put(tx, Blob.of_json(value))


def put_optional(tx: Transaction, blob: Blob | None) -> bytes | None:
    """Store a value that may be absent."""
    return None if blob is None else put(tx, blob)


def read(reading: Reading, blob_hash: bytes) -> BlobRow:
    """Return a stored value.

    Raises:
        StoreCorrupt: a row references a blob that is not there.
    """
    found = reading.one(BlobRow, SELECT_BLOB, {"blob_hash": blob_hash})
    if found is None:
        raise StoreCorrupt("a row references a blob that is missing")
    return found


def read_json(reading: Reading, blob_hash: bytes) -> JsonValue:
    """Return a stored JSON value.

    Raises:
        StoreCorrupt: the blob is missing or holds a text.
    """
    found = read(reading, blob_hash)
    if found.media_type != JSON_MEDIA:
        raise StoreCorrupt("a JSON value is stored as another media type")
    return load_stored(found.content)


def read_text(reading: Reading, blob_hash: bytes) -> str:
    """Return a stored text.

    Raises:
        StoreCorrupt: the blob is missing or holds JSON.
    """
    found = read(reading, blob_hash)
    if found.media_type != TEXT_MEDIA:
        raise StoreCorrupt("a text is stored as another media type")
    return found.content.decode()
