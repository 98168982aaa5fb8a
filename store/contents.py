"""Large bodies between their file and their row, slice by slice: never whole in memory.

Adopting one takes long (measured: a second for 50 MiB on a slow disk), so it is refused on the
loop: `Transaction.take_long`.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, Protocol

from pi_workflows.protocol.canonical import JsonValue, load_stored
from pi_workflows.protocol.content import INLINE_BYTES_MAX, JSON_MEDIA, ContentReference
from store import blobs
from store.blobs import Blob
from store.errors import BlobConflictError, ProposalRefused, StoreCorrupt
from store.transaction import Reading, Transaction

SLICE_BYTES: Final = 524_288


class Bytes(Protocol):
    """Where the bytes of a staged body are."""

    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`; fewer only at the end."""
        ...


@dataclass(frozen=True, slots=True)
class StagedContent:
    """A JSON body that waits beside the database, its digest and its UTF-8 checked.

    Attributes:
        blob_hash: SHA-256 of the bytes, 32 bytes.
    """

    blob_hash: bytes
    byte_length: int
    source: Bytes


Body = Blob | StagedContent


@dataclass(frozen=True, slots=True)
class BlobSizeRow:
    """A stored value without its bytes."""

    row_number: int
    media_type: str
    byte_length: int


@dataclass(frozen=True, slots=True)
class IsJsonRow:
    """Whether a stored value is JSON."""

    is_json: bool


@dataclass(frozen=True, slots=True)
class HasMemberRow:
    """Whether a stored object has a member, be it null."""

    has_member: bool


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member of a stored object as JSON text; None when it has none such."""

    member: str | None


@dataclass(frozen=True, slots=True)
class ScalarRow:
    """A value inside a stored body; None for what is no text, number or truth value."""

    kind: str | None
    value: str | int | float | None


SELECT_BLOB_SIZE: Final = """
    SELECT rowid AS row_number, media_type, byte_length FROM blobs WHERE blob_hash = :blob_hash
"""

INSERT_EMPTY_BLOB: Final = """
    INSERT INTO blobs (blob_hash, media_type, byte_length, content, created_at)
    VALUES (:blob_hash, :media_type, :byte_length, zeroblob(:byte_length), :now)
"""

SELECT_IS_JSON: Final = """
    SELECT json_valid(CAST(content AS TEXT)) AS is_json FROM blobs WHERE blob_hash = :blob_hash
"""

SELECT_HAS_MEMBER: Final = """
    SELECT json_type(CAST(content AS TEXT), :path) IS NOT NULL AS has_member
      FROM blobs WHERE blob_hash = :blob_hash
"""

SELECT_MEMBER: Final = """
    SELECT CAST(content AS TEXT) -> :path AS member FROM blobs WHERE blob_hash = :blob_hash
"""

SELECT_SCALAR: Final = """
    SELECT json_type(CAST(content AS TEXT), :path) AS kind,
           CASE WHEN json_type(CAST(content AS TEXT), :path)
                     IN ('text', 'integer', 'real', 'true', 'false')
                THEN json_extract(CAST(content AS TEXT), :path) END AS value
      FROM blobs WHERE blob_hash = :blob_hash
"""

ROW_STATEMENTS: Final = {
    "SELECT_BLOB_SIZE": BlobSizeRow,
    "SELECT_IS_JSON": IsJsonRow,
    "SELECT_HAS_MEMBER": HasMemberRow,
    "SELECT_MEMBER": MemberRow,
    "SELECT_SCALAR": ScalarRow,
}


def put_optional(tx: Transaction, body: Body | None) -> bytes | None:
    """Store a body that may be absent, and return its hash.

    Raises:
        BlobConflictError: these bytes are stored under another media type.
        ProposalRefused: a staged body is not JSON.
        LongWork: a staged body is to be stored on the loop.
    """
    if isinstance(body, StagedContent):
        return adopt(tx, body)
    return blobs.put_optional(tx, body)


def adopt(tx: Transaction, staged: StagedContent) -> bytes:
    """Make a staged body a row of this transaction, and return its hash; see `put_optional`."""
    tx.take_long()
    stored = _size(tx, staged.blob_hash)
    if stored is not None:
        if (stored.media_type, stored.byte_length) != (JSON_MEDIA, staged.byte_length):
            raise BlobConflictError("media type or length")
        return staged.blob_hash
    tx.execute(
        INSERT_EMPTY_BLOB,
        {
            "blob_hash": staged.blob_hash,
            "media_type": JSON_MEDIA,
            "byte_length": staged.byte_length,
            "now": tx.now,
        },
    )
    row_number = tx.connection.last_insert_rowid()
    with tx.connection.blob_open("main", "blobs", "content", row_number, writeable=True) as row:
        for offset in range(0, staged.byte_length, SLICE_BYTES):
            row.write(staged.source.read(offset, SLICE_BYTES))
    # SQLite parses it without the interpreter's lock; orjson would hold that for seconds.
    found = tx.one(IsJsonRow, SELECT_IS_JSON, {"blob_hash": staged.blob_hash})
    if found is None or not found.is_json:
        raise ProposalRefused("a content is not JSON")
    return staged.blob_hash


def size(reading: Reading, blob_hash: bytes) -> int:
    """Return the length of a stored value in bytes.

    Raises:
        StoreCorrupt: it is missing.
    """
    stored = _size(reading, blob_hash)
    if stored is None:
        raise StoreCorrupt("a row references a blob that is missing")
    return stored.byte_length


def read_small(
    reading: Reading, blob_hash: bytes | None
) -> tuple[JsonValue, ContentReference | None]:
    """Return a stored JSON value, or what it is known by when it is too large for a message."""
    if blob_hash is None:
        return None, None
    byte_length = size(reading, blob_hash)
    if byte_length > INLINE_BYTES_MAX:
        return None, ContentReference(blob_hash.hex(), byte_length)
    return blobs.read_json(reading, blob_hash), None


def copy_out(tx: Transaction, blob_hash: bytes, target: Bytes) -> None:
    """Append the bytes of a stored JSON value to `target`.

    Raises:
        StoreCorrupt: it is missing or no JSON.
        LongWork: asked on the loop.
        OSError: from `target`.
    """
    tx.take_long()
    stored = _size(tx, blob_hash)
    if stored is None or stored.media_type != JSON_MEDIA:
        raise StoreCorrupt("a JSON value is missing or stored as another media type")
    row_number = stored.row_number
    with tx.connection.blob_open("main", "blobs", "content", row_number, writeable=False) as row:
        while data := row.read(SLICE_BYTES):
            target.append(data)


def digest_within(
    tx: Transaction, blob_hash: bytes, cut: tuple[int, int], before: bytes, after: bytes
) -> bytes:
    """Return the SHA-256 of `before`, a stored JSON value, and `after`.

    Args:
        cut: how many bytes of the value are left out at its beginning and at its end.

    Raises:
        StoreCorrupt: it is missing or no JSON.
    """
    stored = _size(tx, blob_hash)
    if stored is None or stored.media_type != JSON_MEDIA:
        raise StoreCorrupt("a JSON value is missing or stored as another media type")
    hashed = hashlib.sha256(before)
    left = stored.byte_length - sum(cut)
    row_number = stored.row_number
    with tx.connection.blob_open("main", "blobs", "content", row_number, writeable=False) as row:
        row.seek(cut[0], 0)
        while left > 0 and (data := row.read(min(left, SLICE_BYTES))):
            hashed.update(data)
            left -= len(data)
    hashed.update(after)
    return hashed.digest()


def has_member(reading: Reading, blob_hash: bytes, name: str) -> bool:
    """Say whether a stored JSON value is an object with a member of this plain name."""
    row = reading.one(
        HasMemberRow, SELECT_HAS_MEMBER, {"blob_hash": blob_hash, "path": f'$."{name}"'}
    )
    return row is not None and row.has_member


def member(reading: Reading, blob_hash: bytes, name: str) -> JsonValue:
    """Return a member of plain name of a stored JSON object, read by itself.

    Raises:
        StoreCorrupt: it has no such member.
    """
    row = reading.one(MemberRow, SELECT_MEMBER, {"blob_hash": blob_hash, "path": f'$."{name}"'})
    if row is None or row.member is None:
        raise StoreCorrupt("a stored object has no such member")
    return load_stored(row.member.encode())


def scalar_at(reading: Reading, blob_hash: bytes, names: list[str]) -> tuple[bool, JsonValue]:
    """Return (found, value) of the text, number or truth value at a path in a large body.

    Nothing else of the body becomes an object: (False, None) for a container, null or nothing.
    """
    if any(character in name for name in names for character in '"\\'):
        return _scalar_parsed(reading, blob_hash, names)  # SQLite's paths have no escape.
    path = "".join(["$", *(f'."{name}"' for name in names)])
    row = reading.one(ScalarRow, SELECT_SCALAR, {"blob_hash": blob_hash, "path": path})
    if row is None or row.value is None:
        return False, None
    if row.kind in {"true", "false"}:
        return True, row.kind == "true"
    return True, row.value


def _scalar_parsed(reading: Reading, blob_hash: bytes, names: list[str]) -> tuple[bool, JsonValue]:
    value = blobs.read_json(reading, blob_hash)
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return False, None
        value = value[name]
    return isinstance(value, str | int | float), value


def _size(reading: Reading, blob_hash: bytes) -> BlobSizeRow | None:
    return reading.one(BlobSizeRow, SELECT_BLOB_SIZE, {"blob_hash": blob_hash})
