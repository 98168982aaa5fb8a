"""A fault after any statement of any command leaves no trace of the command."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import (
    ActorType,
    CommandOutcome,
    EffectAttemptOutcome,
    OwnerType,
    WorkerStatus,
)
from store import (
    host,
    leases,
    receipts,
    recovery,
    run_advance,
    run_cancelling,
    run_claiming,
    run_messages,
    workers,
)
from store.authority import Permit
from store.blobs import Blob
from store.host import HostProcess
from store.leases import Owner
from store.proposals import SetDeadline
from store.receipts import Reply, Request
from store.resources import Actor
from store.run_creation import create_run
from store.run_parking import Departure, park_run
from store.workers import Launch, WorkerEnd

if TYPE_CHECKING:
    from store.transaction import Transaction
    from tests.store.writes.conftest import WriteStore, WrittenRun

Command = Callable[["Transaction"], object]

HOST: Final = Permit(Actor(ActorType.HOST, "server-1"))
CONTROL: Final = Permit(Actor(ActorType.CONTROL))
SYSTEM: Final = Permit(Actor(ActorType.SYSTEM))
OWNER: Final = Owner(OwnerType.HOST, "server-1")


class InjectedFault(Exception):
    """What goes wrong at one statement."""


def create(run: "WrittenRun") -> Command:
    return lambda tx: create_run(tx, CONTROL, run.store.new_run("run-2"))


def receipted_creation(run: "WrittenRun") -> Command:
    def start(tx: "Transaction") -> Reply:
        created = create_run(tx, CONTROL, run.store.new_run("run-2"))
        return Reply(CommandOutcome.ACCEPTED, 1, {"runId": created.run_id})

    request = Request("request-1", "client-1", "run.start", "key-1", bytes(32), None, 1)
    return lambda tx: receipts.receipted(tx, request, start)


def receipted_refusal(run: "WrittenRun") -> Command:
    def cancel(tx: "Transaction") -> Reply:
        run_cancelling.cancel_run(tx, CONTROL, run.run_id, "enough")
        return Reply(CommandOutcome.ACCEPTED)

    run.begin()
    request = Request("request-1", "client-1", "run.cancel", "key-1", bytes(32), run.run_id, 1)
    return lambda tx: receipts.receipted(tx, request, cancel)


def claim(run: "WrittenRun") -> Command:
    return lambda tx: run_claiming.claim_run(tx, HOST, run.run_id, OWNER)


def claim_bare(run: "WrittenRun") -> Command:
    return lambda tx: leases.claim(tx, HOST, run_resource_id(run.run_id), OWNER)


def renew(run: "WrittenRun") -> Command:
    held = run.take()
    run.store.now += 1_000
    return lambda tx: leases.renew_claim(tx, held)


def release(run: "WrittenRun") -> Command:
    held = run.take()
    return lambda tx: leases.release(tx, held)


def launch(run: "WrittenRun") -> Command:
    generation = run.take().generation
    launched = Launch(run.worker_epoch, run.run_id, generation, 1, Blob.of_json({"new": True}))
    return lambda tx: run_claiming.launch(tx, run.permit, launched)


def ready(run: "WrittenRun") -> Command:
    run.take()
    run.launch()
    return lambda tx: run_claiming.child_ready(tx, run.permit, run.run_id, run.worker_epoch)


def child_end(run: "WrittenRun") -> Command:
    run.begin()
    how = WorkerEnd(WorkerStatus.CRASHED, signal="KILL", diagnostic="last words")
    return lambda tx: workers.end(tx, run.worker_epoch, how)


def one_step(run: "WrittenRun") -> Command:
    """Everything that one message carries between two pieces of user code."""
    run.begin()
    run.work(run.started("fetch"))
    done = run.act("send")
    follow = run.started("note")
    message = run.message(
        run.settled(done, EffectAttemptOutcome.APPLIED),
        run.finished(done, {"sent": 1}),
        follow,
        SetDeadline(follow.attempt_id, 5_000),
        run.reserved(follow),
    )
    return lambda tx: run_messages.advance_once(tx, run.permit, message)


def refused_message(run: "WrittenRun") -> Command:
    run.begin()
    start = run.started("fetch")
    message = run.message(start, run.started("note"))
    return lambda tx: run_messages.advance_once(tx, run.permit, message)


def lost_sight(run: "WrittenRun") -> Command:
    run.begin()
    run.work(run.started("fetch"))
    start = run.act("send")
    message = run.message(run.settled(start, EffectAttemptOutcome.AMBIGUOUS))
    return lambda tx: run_advance.advance(tx, run.permit, message)


def completion(run: "WrittenRun") -> Command:
    message = run.walk().message(run.completed())
    return lambda tx: run_messages.advance_once(tx, run.permit, message)


def cancel_at_work(run: "WrittenRun") -> Command:
    run.begin()
    run.work(run.started("fetch"))
    run.act("send")
    permit = Permit(CONTROL.actor, run.claim)
    return lambda tx: run_cancelling.cancel_run(tx, permit, run.run_id, "enough")


def cancel_expired(run: "WrittenRun") -> Command:
    cancel_at_work(run)
    run.store.now += 30_000
    return lambda tx: run_cancelling.cancel_run(tx, CONTROL, run.run_id, "enough")


def park_at_work(run: "WrittenRun") -> Command:
    one = one_step(run)
    run.store.do(one)
    departure = Departure.DIED_WITHOUT_PROGRESS
    return lambda tx: park_run(tx, run.permit, run.run_id, departure)


def predecessor(run: "WrittenRun") -> Command:
    cancel_at_work(run)
    return lambda tx: recovery.close_predecessor(tx, SYSTEM)


def recover(run: "WrittenRun") -> Command:
    run.store.do(predecessor(run))
    return lambda tx: recovery.recover_run(tx, SYSTEM, run.run_id)


def epoch(_: "WrittenRun") -> Command:
    process = HostProcess("server-1", 101, "boot:101:1")
    return partial(host.acquire, process=process, holder_gone=False)


COMMANDS: Final = [
    create,
    receipted_creation,
    receipted_refusal,
    claim,
    claim_bare,
    renew,
    release,
    launch,
    ready,
    child_end,
    one_step,
    refused_message,
    lost_sight,
    completion,
    cancel_at_work,
    cancel_expired,
    park_at_work,
    predecessor,
    recover,
    epoch,
]


def fails_at(store: "WriteStore", command: Command, number: int) -> bool:
    """Run a command whose n-th statement fails; False if it ended before getting there."""
    seen = 0

    def trace(_cursor: object, _statement: str, _bindings: object) -> bool:
        nonlocal seen
        if store.writer.in_command:
            seen += 1
            if seen == number:
                raise InjectedFault
        return True

    store.writer.connection.exec_trace = trace
    try:
        store.do(command)
    except InjectedFault:
        return True
    finally:
        store.writer.connection.exec_trace = None
    return False


@pytest.mark.parametrize("prepare", COMMANDS, ids=lambda prepare: prepare.__name__)
def test_fault_at_any_statement_changes_no_row(
    run: "WrittenRun", prepare: Callable[["WrittenRun"], Command]
) -> None:
    """Every statement of the command fails once; then the command succeeds as if it were new.

    Case: A19.
    """
    store = run.store
    command = prepare(run)
    before = store.dump()
    number = 1
    while fails_at(store, command, number):
        assert store.dump() == before, f"statement {number} failed and something stayed"
        number += 1
    assert number > 2
    assert store.dump() != before


def test_fault_after_the_last_statement_changes_no_row(run: "WrittenRun") -> None:
    """Everything is written, nothing is committed.

    Case: A19.
    """
    command = one_step(run)
    before = run.store.dump()

    def fail_at_the_end(tx: "Transaction") -> None:
        command(tx)
        raise InjectedFault

    with pytest.raises(InjectedFault):
        run.store.do(fail_at_the_end)
    assert run.store.dump() == before
