"""Large bodies between their file and their row."""

from typing import TYPE_CHECKING

import pytest

from pi_workflows.protocol.canonical import canonical_bytes, digest
from store import blobs, contents
from store.blobs import Blob
from store.contents import StagedContent
from store.errors import BlobConflictError, ProposalRefused
from store.transaction import LongWork, Transaction

if TYPE_CHECKING:
    from tests.store.writes.conftest import WriteStore


class Memory:
    """Bytes in memory."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)

    def append(self, data: bytes) -> None:
        self.content += data

    def read(self, offset: int, count: int) -> bytes:
        return bytes(self.content[offset : offset + count])


def staged(content: bytes) -> StagedContent:
    return StagedContent(digest(content), len(content), Memory(content))


def patiently(store: "WriteStore", command: object) -> object:
    """Run a command as one that may take long."""

    def run(tx: Transaction) -> object:
        tx.may_take_long = True
        assert callable(command)
        return command(tx)

    return store.do(run)


def test_a_staged_body_becomes_the_same_row_as_one_put_at_once(store: "WriteStore") -> None:
    content = canonical_bytes(["x" * 1_200_000])
    patiently(store, lambda tx: contents.put_optional(tx, staged(content)))
    store.do(blobs.put, Blob.of_json(["x" * 1_200_000]))
    patiently(store, lambda tx: contents.put_optional(tx, staged(content)))
    large = "SELECT content FROM blobs WHERE byte_length > 900000"
    rows = list(store.writer.connection.execute(large))
    assert rows == [(content,)]


def test_a_stored_body_is_copied_out_whole(store: "WriteStore") -> None:
    content = canonical_bytes(["x" * 1_200_000])
    patiently(store, lambda tx: contents.adopt(tx, staged(content)))
    target = Memory()
    patiently(store, lambda tx: contents.copy_out(tx, digest(content), target))
    assert target.content == content


def test_neither_is_done_on_the_loop(store: "WriteStore") -> None:
    with pytest.raises(LongWork):
        store.do(contents.adopt, staged(b"[]"))
    with pytest.raises(LongWork):
        store.do(contents.copy_out, digest(b"[]"), Memory())


def test_a_text_in_its_place_is_a_conflict_and_a_body_that_is_no_json_is_refused(
    store: "WriteStore",
) -> None:
    text = Blob.of_text("no JSON")
    store.do(blobs.put, text)
    with pytest.raises(BlobConflictError):
        patiently(store, lambda tx: contents.adopt(tx, staged(text.content)))
    with pytest.raises(ProposalRefused, match="not JSON"):
        patiently(store, lambda tx: contents.adopt(tx, staged(b"{]")))
    assert list(store.writer.connection.execute("SELECT count(*) FROM blobs")) == [(1,)]


VALUE = {
    "a": {"b": "text", "yes": True, "no": False, "null": None, "list": [1]},
    "n": 7,
    "f": 0.5,
    'qu"ote': {"x": 1},
    "a.b": "never by a dotted path",
}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["a", "b"], (True, "text")),
        (["a", "yes"], (True, True)),
        (["a", "no"], (True, False)),
        (["a", "null"], (False, None)),
        (["a", "list"], (False, None)),
        (["a"], (False, None)),
        (["a", "b", "c"], (False, None)),
        (["missing"], (False, None)),
        (["n"], (True, 7)),
        (["f"], (True, 0.5)),
        (['qu"ote', "x"], (True, 1)),
        ([], (False, None)),
    ],
)
def test_a_value_is_found_by_its_names_without_the_rest(
    names: list[str], found: tuple[bool, object], store: "WriteStore"
) -> None:
    blob = Blob.of_json(VALUE)
    store.do(blobs.put, blob)
    seen = store.do(contents.scalar_at, blob.blob_hash, names)
    assert seen == found
    assert type(seen[1]) is type(found[1])
