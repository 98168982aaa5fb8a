"""Behaviour of documents that are read in parts: bounded in number, bytes and time."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from actors import documents
from actors.documents import DOCUMENTS_KEPT, UNUSED_S, Document, Documents

Clock = trio.testing.MockClock

RUN = "run-1"


@pytest.fixture
async def kept() -> AsyncIterator[Documents]:
    """Documents that are forgotten in time."""
    found = Documents()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.forget_unused)
        yield found
        nursery.cancel_scope.cancel()


def offer(kept: Documents, name: str, size: int = 10) -> str:
    return str(kept.offer(RUN, Document(b"x" * size, name))["path"])


async def test_document_is_dropped_a_minute_after_its_last_use(
    autojump_clock: Clock, kept: Documents
) -> None:
    with trio.fail_after(1_000):
        used, unused = offer(kept, "used"), offer(kept, "unused")
        await trio.sleep(UNUSED_S - 1)
        assert kept.part(RUN, used, 0) is not None
        await trio.sleep(2)
        assert kept.part(RUN, unused, 0) is None
        assert kept.part(RUN, used, 0) is not None
        await trio.sleep(UNUSED_S + 1)
        assert kept.bytes_kept == 0
        again = offer(kept, "used")
        await trio.sleep(UNUSED_S + 1)
        assert kept.part(RUN, again, 0) is None


async def test_longest_unused_document_makes_room(
    autojump_clock: Clock, kept: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [offer(kept, f"{number}") for number in range(DOCUMENTS_KEPT)]
    assert kept.part(RUN, paths[0], 0) is not None
    offer(kept, "one more")
    assert kept.part(RUN, paths[1], 0) is None
    assert kept.part(RUN, paths[0], 0) is not None
    monkeypatch.setattr(documents, "BYTES_KEPT", 100)
    huge = offer(kept, "huge", 1_000)
    assert kept.bytes_kept == 1_000
    assert kept.part(RUN, huge, 1_000) is not None
    assert kept.part(RUN, huge, 1_001) is None


async def test_document_of_a_run_is_not_to_be_had_under_another(
    autojump_clock: Clock, kept: Documents
) -> None:
    """Case: C110."""
    path = offer(kept, "one")
    assert kept.part(RUN, path, 0) is not None
    assert kept.part("run-2", path, 0) is None


async def test_document_is_found_by_its_run_its_digest_and_its_type_alone(
    autojump_clock: Clock, kept: Documents
) -> None:
    """One of the three does not do.

    Case: A18.
    """
    path = offer(kept, "one")
    assert path == "artifacts/sha256/one.json"
    assert kept.part(RUN, path, 0) is not None
    for run_id, asked in (
        ("run-2", path),
        (RUN, path.replace("one", "two")),
        (RUN, path.replace(".json", ".txt")),
        (RUN, "one"),
    ):
        assert kept.part(run_id, asked, 0) is None
