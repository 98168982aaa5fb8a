"""Group commit: neighbours, a transaction that dies, control statements, and the epoch fence."""

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import apsw
import pytest

from pi_workflows.protocol.states import ActorType
from store import host, leases
from store.authority import Permit
from store.batch import Batch, TransactionDied, run_alone, run_alone_each
from store.errors import (
    EpochLost,
    HostHeldError,
    ProposalRefused,
    RunExistsError,
    StorageFault,
)
from store.host import HostClaim, HostProcess
from store.opening import open_writer
from store.resources import Actor
from store.run_advance import advance
from store.run_creation import create_run
from store.transaction import Change

if TYPE_CHECKING:
    from store.runs import RunRow
    from store.transaction import Transaction
    from tests.store.writes.conftest import WriteStore, WrittenRun

CONTROL: Final = Permit(Actor(ActorType.CONTROL))
FIRST: Final = HostProcess("server-1", 101, "boot:101:1")
SECOND: Final = HostProcess("server-2", 102, "boot:102:1")
HOST_CLAIM_MS: Final = 30_000


def creating(store: "WriteStore", run_id: str) -> "partial[RunRow]":
    return partial(_create, store, run_id)


def _create(store: "WriteStore", run_id: str, tx: "Transaction") -> "RunRow":
    return create_run(tx, CONTROL, store.new_run(run_id))


def _kill_transaction(tx: "Transaction") -> None:
    """Violate a key in the way that makes SQLite roll everything back."""
    tx.connection.execute(
        "INSERT OR ROLLBACK INTO projects SELECT * FROM projects LIMIT 1",
    )


def runs_of(store: "WriteStore") -> list[str]:
    return [row[0] for row in store.rows("SELECT run_id FROM runs ORDER BY rowid")]


def test_neighbours_of_a_refused_command_survive(store: "WriteStore", run: "WrittenRun") -> None:
    """The refused one undoes itself alone, what it had written before included."""
    run.begin()
    start = run.started("fetch")
    bad = run.message(start, run.started("note"))
    store.batch.begin()
    store.batch.run(creating(store, "run-2"))
    with pytest.raises(RunExistsError):
        store.batch.run(creating(store, "run-2"))
    with pytest.raises(ProposalRefused):
        store.batch.run(lambda tx: advance(tx, run.permit, bad))
    with pytest.raises(ZeroDivisionError):
        store.batch.run(lambda _: 1 / 0)
    store.batch.run(creating(store, "run-3"))
    changes = store.batch.commit()
    assert changes == {Change("run", "run-2"), Change("run", "run-3")}
    assert runs_of(store) == ["run-1", "run-2", "run-3"]
    assert run.events()[-1] == "run_started"


def test_commands_of_a_batch_share_one_instant(store: "WriteStore") -> None:
    """The clock is read once, after the write lock is held."""
    ticks = iter(range(100, 200))
    batch = Batch(store.writer, store.ids, lambda: next(ticks))
    for expected in (100, 101):
        batch.begin()
        assert [batch.run(lambda tx: tx.now) for _ in range(3)] == [expected] * 3
        batch.commit()


def test_transaction_that_died_is_reported_so_that_the_innocent_run_again(
    store: "WriteStore",
) -> None:
    """SQLite threw the whole group away: nothing of it is there, and it can be repeated."""
    store.create("run-1")
    before = store.dump()
    innocent = creating(store, "run-2")
    store.batch.begin()
    store.batch.run(innocent)
    with pytest.raises(TransactionDied) as died:
        store.batch.run(_kill_transaction)
    assert isinstance(died.value.cause, apsw.ConstraintError)
    store.batch.abandon()
    assert store.dump() == before
    run_alone(store.batch, innocent)
    assert runs_of(store) == ["run-1", "run-2"]


def test_of_commands_that_a_start_runs_together_the_refused_one_undoes_itself_alone(
    store: "WriteStore",
) -> None:
    store.create("run-1")
    commands = [creating(store, run_id) for run_id in ("run-2", "run-1", "run-3")]
    refusals = run_alone_each(store.batch, commands)
    assert [type(refusal) for refusal in refusals] == [type(None), RunExistsError, type(None)]
    assert runs_of(store) == ["run-1", "run-2", "run-3"]


def test_of_commands_that_a_start_runs_together_none_survives_a_fault(
    store: "WriteStore",
) -> None:
    store.create("run-1")
    before = store.dump()
    with pytest.raises(apsw.ConstraintError):
        run_alone_each(store.batch, [creating(store, "run-2"), _kill_transaction])
    assert store.dump() == before


@pytest.mark.parametrize("takes_transaction_along", [True, False])
def test_failing_disk_is_named_to_a_start_as_what_it_is(
    store: "WriteStore", *, takes_transaction_along: bool
) -> None:
    """Whether SQLite has thrown the transaction away or not; nothing is written."""
    before = store.dump()

    def fail(tx: "Transaction") -> None:
        if takes_transaction_along:
            with suppress(apsw.ConstraintError):
                _kill_transaction(tx)
        raise apsw.IOError

    with pytest.raises(StorageFault):
        run_alone_each(store.batch, [creating(store, "run-1"), fail])
    assert store.dump() == before


@pytest.mark.parametrize(
    "statement", ["COMMIT", "ROLLBACK", "SAVEPOINT mine", "RELEASE command", "PRAGMA user_version"]
)
def test_command_that_reaches_for_the_transaction_is_refused(
    store: "WriteStore", statement: str
) -> None:
    """Its neighbours commit when the batch does, not before."""
    store.batch.begin()
    store.batch.run(creating(store, "run-1"))
    with pytest.raises(apsw.AuthError):
        store.batch.run(lambda tx: tx.connection.execute(statement))
    assert store.writer.in_transaction
    store.batch.run(creating(store, "run-2"))
    store.batch.abandon()
    assert runs_of(store) == []


def take_epoch(store: "WriteStore", process: HostProcess, *, holder_gone: bool) -> HostClaim:
    claim = store.do(host.acquire, process, holder_gone=holder_gone)
    store.batch.claim = claim
    return claim


def test_second_live_server_is_refused_and_gets_the_next_epoch_after_expiry(
    store: "WriteStore",
) -> None:
    """Case: A10."""
    assert take_epoch(store, FIRST, holder_gone=False).epoch == 1
    before = store.dump()
    store.now += HOST_CLAIM_MS - 1
    with pytest.raises(HostHeldError) as held:
        store.do(host.acquire, SECOND, holder_gone=False)
    assert held.value.left_ms == 1
    assert store.dump() == before
    store.now += 1
    assert store.do(host.acquire, SECOND, holder_gone=False).epoch == 2


def test_holder_that_is_proven_gone_is_replaced_at_once(store: "WriteStore") -> None:
    """Case: C4."""
    take_epoch(store, FIRST, holder_gone=False)
    assert take_epoch(store, SECOND, holder_gone=True).epoch == 2
    assert take_epoch(store, FIRST, holder_gone=True).epoch == 3


def test_server_that_was_replaced_can_never_commit_again(store: "WriteStore") -> None:
    """It was frozen, its successor took the next epoch, it thaws: no command of it even runs.

    Its claim on the run is still live by the clock; the fence is what stops it.

    Case: D14.
    """
    second = open_writer(store.state.path)
    take_epoch(store, FIRST, holder_gone=False)
    run = store.create().begin()
    successor = Batch(second, store.ids, lambda: store.now)
    run_alone(successor, lambda tx: host.acquire(tx, SECOND, holder_gone=True))
    before = store.dump()
    ran: list[str] = []
    with pytest.raises(EpochLost):
        store.do(lambda _: ran.append("command"))
    with pytest.raises(EpochLost):
        store.do(leases.renew_claim, run.claim)
    assert ran == []
    assert not store.writer.in_transaction
    assert store.dump() == before
    second.close()


def test_fence_needs_the_token_and_not_only_the_epoch(store: "WriteStore") -> None:
    """An epoch that a restored file issued twice does not open the gate."""
    claim = take_epoch(store, FIRST, holder_gone=False)
    store.batch.claim = HostClaim(claim.epoch, claim.host_id, bytes(32))
    with pytest.raises(EpochLost):
        store.create("run-1")


def test_own_expired_claim_is_renewed_as_long_as_nobody_replaced_it(store: "WriteStore") -> None:
    """The machine slept; the epoch says that no other server has been here."""
    claim = take_epoch(store, FIRST, holder_gone=False)
    store.now += 10 * HOST_CLAIM_MS
    assert store.do(host.heartbeat, claim) == store.now + HOST_CLAIM_MS
    store.now -= HOST_CLAIM_MS
    assert store.do(host.heartbeat, claim) == store.now + HOST_CLAIM_MS
    until = store.value("SELECT expires_at FROM workflow_host_state")
    assert until == store.now + 2 * HOST_CLAIM_MS


def test_server_that_gave_its_claim_up_writes_no_more(store: "WriteStore") -> None:
    """The epoch stays, so that the next one is higher."""
    claim = take_epoch(store, FIRST, holder_gone=False)
    store.do(host.release, claim)
    with pytest.raises(EpochLost):
        store.create("run-1")
    store.batch.claim = None
    assert store.do(host.acquire, SECOND, holder_gone=False).epoch == claim.epoch + 1
