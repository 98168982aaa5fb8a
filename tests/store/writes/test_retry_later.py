"""A failed try that says when the next one is due."""

import dataclasses
from typing import TYPE_CHECKING

import pytest

from store import run_queue
from store.blobs import Blob
from store.errors import ProposalRefused
from tests.store.writes.test_retrying import again, assert_sound, given_back, graph, shown

if TYPE_CHECKING:
    from store.proposals import FinishAttempt, SettleEffect
    from tests.store.writes.conftest import WriteStore


@pytest.mark.parametrize("recovery", [None, "idempotent"])
def test_wait_that_the_code_asks_for_takes_the_place_of_the_declared_one_once(
    store: "WriteStore", recovery: str | None
) -> None:
    """Run and effect are due at that instant; one longer than the longest wait is refused.

    Case: D18.
    """
    run = store.create(graph=graph(recovery, backoffMs=60_000)).begin()
    for number, (asked, wait_ms) in enumerate([(7_000, 7_000), (None, 120_000)], start=1):
        start = run.started("flaky")
        reserved = [] if recovery is None else [run.reserved(start)]
        run.advance(start, *reserved)
        closing: list[FinishAttempt | SettleEffect] = [again(run, start)]
        if recovery is not None:
            closing.insert(0, given_back(run, start, number))
        too_long, wanted = (
            [dataclasses.replace(one, retry_after_ms=ms) for one in closing]
            for ms in (300_001, asked)
        )
        with pytest.raises(ProposalRefused, match="shorter longest wait"):
            run.advance(*too_long)
        assert run.advance(*wanted).parked
        run.end_child()
        (waiting,) = store.do(run_queue.claimable, 10)
        assert waiting.due_at == store.now + wait_ms
        if recovery is not None:
            assert store.value("SELECT next_attempt_at FROM effects") == waiting.due_at
        store.now = waiting.due_at
        run.begin()
    assert_sound(store)


def test_wait_that_the_code_asks_for_is_shown_as_one(store: "WriteStore") -> None:
    """Its receipt says so; a failed action leaves a receipt too, and asks for nothing."""
    run = store.create(graph=graph(backoffMs=60_000)).begin()
    for receipt, asked in (({"actionType": "function", "retryAfterMs": 7}, True), ({}, None)):
        start = run.started("flaky")
        failed = dataclasses.replace(again(run, start), receipt=Blob.of_json(receipt))
        run.advance(start, failed)
        run.end_child()
        between = shown(run)
        assert between is not None
        assert between.get("asked") is asked
        (waiting,) = store.do(run_queue.claimable, 10)
        store.now = waiting.due_at
        run.begin()
