"""Content is stored once, under its digest, and never under a wrong one."""

from typing import TYPE_CHECKING

import pytest

from pi_workflows.protocol.canonical import digest
from pi_workflows.protocol.content import JSON_MEDIA
from store import blobs
from store.blobs import TEXT_MEDIA, Blob
from store.errors import BlobConflictError, StoreCorrupt

if TYPE_CHECKING:
    from store.transaction import Transaction
    from tests.store.writes.conftest import WriteStore


def test_same_bytes_twice_are_one_row(store: "WriteStore") -> None:
    """Equal values adopt the row, however their keys were ordered.

    Case: A13.
    """
    first = store.do(blobs.put_json, {"a": 1, "b": 2})
    before = store.dump()
    assert store.do(blobs.put_json, {"b": 2, "a": 1}) == first == digest(b'{"a":1,"b":2}')
    assert store.dump() == before
    assert store.do(blobs.read_json, first) == {"a": 1, "b": 2}


def test_same_bytes_as_another_media_type_conflict_and_undo_the_command(
    store: "WriteStore",
) -> None:
    """The text `1` against the number 1; what the command wrote before goes too.

    Case: A14.
    """
    store.do(blobs.put_json, 1)
    before = store.dump()

    def write_both(tx: "Transaction") -> None:
        blobs.put_json(tx, "something else")
        blobs.put(tx, Blob(digest(b"1"), TEXT_MEDIA, b"1"))

    with pytest.raises(BlobConflictError):
        store.do(write_both)
    assert store.dump() == before


def test_other_bytes_under_a_stored_digest_conflict(store: "WriteStore") -> None:
    right = Blob.of_json("right")
    store.do(blobs.put, right)
    before = store.dump()
    for content in (b'"wrong"', b'"right" '):
        with pytest.raises(BlobConflictError):
            store.do(blobs.put, Blob(right.blob_hash, JSON_MEDIA, content))
    assert store.dump() == before


def test_wrong_digest_or_length_of_a_sender_is_refused() -> None:
    """Before there is anything that could be stored.

    Case: A15.
    """
    content = b"text"
    right = digest(content)
    with pytest.raises(BlobConflictError, match="digest"):
        Blob.checked(TEXT_MEDIA, content, blob_hash=bytes(32), byte_length=4)
    with pytest.raises(BlobConflictError, match="length"):
        Blob.checked(TEXT_MEDIA, content, blob_hash=right, byte_length=5)
    assert Blob.checked(TEXT_MEDIA, content, blob_hash=right, byte_length=4) == Blob.of_text(
        "text"
    )


def test_value_is_read_only_as_what_it_was_stored_as(store: "WriteStore") -> None:
    """Also a row that names nothing."""
    number = store.do(blobs.put_json, 12)
    text = store.do(blobs.put, Blob.of_text("13 days"))
    assert store.do(blobs.read_json, number) == 12
    assert store.do(blobs.read_text, text) == "13 days"
    for reader, blob_hash in ((blobs.read_text, number), (blobs.read_json, text)):
        with pytest.raises(StoreCorrupt):
            store.do(reader, blob_hash)
    with pytest.raises(StoreCorrupt):
        store.do(blobs.read, bytes(32))


@pytest.mark.parametrize("text", ["1", '"done"', "null", "[]", '{"a":1}', "1.5", "1 ", "no"])
def test_text_for_people_is_never_in_the_way_of_a_value(store: "WriteStore", text: str) -> None:
    """An error that reads like JSON gets a newline, which no canonical JSON has."""
    values: dict[str, object] = {"1": 1, "null": None, "[]": [], "1.5": 1.5}
    value = values.get(text, text.strip('"'))
    for value_first in (True, False):
        pair = (Blob.of_json(value), Blob.of_text(text))
        for blob in pair if value_first else reversed(pair):
            store.do(blobs.put, blob)
    assert store.do(blobs.read_text, Blob.of_text(text).blob_hash).rstrip("\n") == text
