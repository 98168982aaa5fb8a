"""A client's request is carried out once; its answer can be asked for again."""

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.states import ActorType, CommandOutcome
from store import receipts
from store.authority import Permit
from store.errors import Rejected
from store.receipts import Reply, Request
from store.resources import Actor
from store.run_cancelling import cancel_run
from store.run_creation import NewRun, create_run

if TYPE_CHECKING:
    from store.transaction import Transaction
    from tests.store.writes.conftest import WriteStore, WrittenRun

CONTROL: Final = Permit(Actor(ActorType.CONTROL))


def start(new: NewRun, tx: "Transaction") -> Reply:
    """Create a run the way the server does for `run.start`."""
    created = create_run(tx, CONTROL, new)
    return Reply(CommandOutcome.ACCEPTED, 1, {"runId": created.run_id})


def cancel(run_id: str, permit: Permit, tx: "Transaction") -> Reply:
    """Cancel a run the way the server does for `run.cancel`."""
    found = cancel_run(tx, permit, run_id, "enough")
    return Reply(CommandOutcome.ACCEPTED, found.revision, {"verdict": found.verdict.value})


def request(name: str = "request-1", *, run_id: str | None = None, says: int = 1) -> Request:
    """Make a request; its fingerprint follows from what it says."""
    operation = "run.start" if run_id is None else "run.cancel"
    return Request(name, "client-1", operation, "key-1", bytes([says] * 32), run_id, 1)


def test_lost_reply_is_adopted_by_the_same_key_under_a_new_request_id(
    store: "WriteStore",
) -> None:
    """The retry finds the first answer and changes nothing.

    Case: A23, C18.
    """
    action = partial(start, store.new_run("run-1"))
    first = store.do(receipts.receipted, request(), action)
    before = store.dump()
    for retry in (request(), request("request-2")):
        again = store.do(receipts.receipted, retry, action)
        assert again == dataclasses.replace(first, outcome=CommandOutcome.ADOPTED)
    assert store.dump() == before
    assert store.rows("SELECT run_id FROM host_commands") == [("run-1",)]


def test_request_id_with_other_content_conflicts(store: "WriteStore") -> None:
    """Case: A23, C19."""
    store.do(receipts.receipted, request(), partial(start, store.new_run("run-1")))
    before = store.dump()
    other = dataclasses.replace(request(says=2), idempotency_key="key-2")
    reply = store.do(receipts.receipted, other, partial(start, store.new_run("run-2")))
    assert reply.outcome is CommandOutcome.CONFLICT
    assert reply.receipt == {"code": "KEY_REUSED"}
    assert store.dump() == before


def test_key_with_other_content_conflicts(store: "WriteStore") -> None:
    """Case: A23, C20."""
    store.do(receipts.receipted, request(), partial(start, store.new_run("run-1")))
    before = store.dump()
    other = request("request-2", says=2)
    reply = store.do(receipts.receipted, other, partial(start, store.new_run("run-2")))
    assert reply.outcome is CommandOutcome.CONFLICT
    assert store.dump() == before


def test_request_that_mixes_two_others_conflicts(store: "WriteStore") -> None:
    """The id of one and the key of another: neither answer is its own."""
    store.do(receipts.receipted, request(), partial(start, store.new_run("run-1")))
    second = dataclasses.replace(request("request-2"), idempotency_key="key-2")
    store.do(receipts.receipted, second, partial(start, store.new_run("run-2")))
    mixed = dataclasses.replace(request("request-1"), idempotency_key="key-2")
    reply = store.do(receipts.receipted, mixed, partial(start, store.new_run("run-3")))
    assert reply.outcome is CommandOutcome.CONFLICT


def test_same_key_of_another_client_is_another_request(store: "WriteStore") -> None:
    store.do(receipts.receipted, request(), partial(start, store.new_run("run-1")))
    other = dataclasses.replace(request("request-2"), client_id="client-2")
    reply = store.do(receipts.receipted, other, partial(start, store.new_run("run-2")))
    assert reply.outcome is CommandOutcome.ACCEPTED


def test_stored_refusal_is_repeated_although_it_would_succeed_now(run: "WrittenRun") -> None:
    """What the refused command did is undone, its answer stays.

    Case: C22.
    """
    store = run.store
    run.begin()
    before = store.dump()
    unclaimed = partial(cancel, run.run_id, CONTROL)
    first = store.do(receipts.receipted, request(run_id=run.run_id), unclaimed)
    after = store.dump()
    assert first.outcome is CommandOutcome.CLAIM_LOST
    assert first.receipt == {"code": "CLAIM_LOST", "reason": "missingAuthority"}
    assert {name for name in after if after[name] != before[name]} == {"blobs", "host_commands"}
    owned = partial(cancel, run.run_id, Permit(CONTROL.actor, run.claim))
    assert store.do(receipts.receipted, request(run_id=run.run_id), owned) == first
    assert store.dump() == after


@pytest.mark.parametrize(
    ("permit", "outcome", "code"),
    [
        (CONTROL, CommandOutcome.NOT_FOUND, "RUN_UNKNOWN"),
        (Permit(Actor(ActorType.CHANNEL)), CommandOutcome.REJECTED, "AUTHORITY_DENIED"),
    ],
)
def test_refusal_that_names_an_unknown_run_is_stored_without_it(
    store: "WriteStore", permit: Permit, outcome: CommandOutcome, code: str
) -> None:
    asked = request(run_id="run-none")
    reply = store.do(receipts.receipted, asked, partial(cancel, "run-none", permit))
    assert reply.outcome is outcome
    assert reply.receipt is not None
    assert reply.receipt["code"] == code
    assert store.rows("SELECT run_id, outcome FROM host_commands") == [(None, outcome.value)]


def test_change_and_receipt_are_one(store: "WriteStore") -> None:
    """A receipt that cannot be written takes the change with it."""
    broken = dataclasses.replace(request(), fingerprint=b"short")
    before = store.dump()
    with pytest.raises(Exception, match="CHECK constraint failed"):
        store.do(receipts.receipted, broken, partial(start, store.new_run("run-1")))
    assert store.dump() == before


def test_error_text_is_bounded(store: "WriteStore") -> None:
    def refuse(_: "Transaction") -> Reply:
        raise Rejected("no" * 10_000)

    reply = store.do(receipts.receipted, request(), refuse)
    assert reply.error == "no" * 1_024
