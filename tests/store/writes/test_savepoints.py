"""Commands without a savepoint: the same rows and answers as with one, or a second try."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_workflows.protocol.states import ActorType, CommandOutcome
from store import leases, receipts, run_cancelling, run_messages
from store.authority import Permit
from store.batch import TransactionDied
from store.creation import create_database
from store.errors import Rejected, RunExistsError
from store.receipts import Reply, Request
from store.resources import Actor
from store.run_creation import create_run
from store.state_dir import prepare_state_dir
from store.transaction import Change, SavepointNeeded
from tests.store.conftest import NOW, StateFolder
from tests.store.writes.conftest import WriteStore

if TYPE_CHECKING:
    from store.transaction import Transaction
    from tests.store.writes.conftest import Dump, WrittenRun

Command = Callable[["Transaction"], object]

CONTROL: Final = Permit(Actor(ActorType.CONTROL))


class Failed(Rejected):
    code = "FAILED"


def write(tx: "Transaction", name: str) -> None:
    tx.execute(
        "INSERT INTO projects (project_id, canonical_path, created_at) VALUES (:id, :id, 1)",
        {"id": name},
    )


def write_and_fail(tx: "Transaction") -> None:
    write(tx, "never there")
    raise Failed("after a write")


def fail(_: "Transaction") -> None:
    raise Failed("before a write")


def write_and_undo(tx: "Transaction") -> str:
    tx.changes.add(Change("effect", "undone"))
    write(tx, "undone")
    tx.undo()
    return "undone"


def undo_nothing(tx: "Transaction") -> str:
    tx.changes.add(Change("effect", "nothing"))
    tx.undo()
    write(tx, "after an undo")
    return "undone"


def fail_inside(tx: "Transaction") -> str:
    try:
        with tx.nested():
            write_and_fail(tx)
    except Failed:
        write(tx, "outside")
    return "outside"


def cancel(run: "WrittenRun", key: str) -> Command:
    request = Request(f"request-{key}", "client", "run.cancel", key, bytes(32), run.run_id, 1)

    def action(tx: "Transaction") -> Reply:
        run_cancelling.cancel_run(tx, Permit(CONTROL.actor, run.claim), run.run_id, "enough")
        return Reply(CommandOutcome.ACCEPTED)

    return lambda tx: receipts.receipted(tx, request, action)


def commands_of(run: "WrittenRun") -> list[Command]:
    """Return commands that succeed, are refused, and fail; many depend on the ones before."""
    store, permit, claim = run.store, run.permit, run.claim
    start = run.started("fetch")
    follow = run.started("send")
    messages = [
        run.message(start, message_id="start"),
        run.message(run.finished(start, {"a": 1}), follow, message_id="finish"),
        run.message(follow, run.started("note"), message_id="illegal"),
        run.message(run.reserved(follow), message_id="reserve"),
    ]
    return [
        *(lambda tx, m=m: run_messages.advance_once(tx, permit, m) for m in messages),
        lambda tx: create_run(tx, CONTROL, store.new_run("run-2")),
        lambda tx: leases.renew_claim(tx, claim),
        lambda tx: leases.release(tx, claim),
        cancel(run, "one"),
        cancel(run, "two"),
        write_and_fail,
        fail,
        write_and_undo,
        fail_inside,
    ]


def run_group(store: WriteStore, commands: list[Command], *, lightly: bool) -> list[str]:
    """Run commands as one group the way the store actor does; return what each was answered."""
    answers: list[str] = []
    issued = store.ids.issued
    store.batch.begin()
    run = store.batch.run_lightly if lightly else store.batch.run
    for command in commands:
        try:
            answers.append(repr(run(command)))
        except SavepointNeeded:
            assert lightly
            store.batch.abandon()
            store.ids.issued = issued
            return run_group(store, commands, lightly=False)
        except (Rejected, apsw.ConstraintError) as error:
            answers.append(f"{type(error).__name__}: {error}")
    answers.append(repr(sorted(store.batch.commit(), key=repr)))
    return answers


@contextmanager
def fresh_run() -> Iterator["WrittenRun"]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state" / "state.sqlite"
        prepare_state_dir(path.parent)
        create_database(path, now=NOW)
        store = WriteStore(StateFolder(path))
        try:
            yield store.create().begin()
        finally:
            store.writer.close()


def outcome(chosen: list[list[int]], *, lightly: bool) -> tuple[list[list[str]], "Dump"]:
    with fresh_run() as run:
        commands = commands_of(run)
        answers = [
            run_group(run.store, [commands[index] for index in group], lightly=lightly)
            for group in chosen
        ]
        return answers, run.store.dump()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=1, max_size=3))
def test_groups_with_and_without_savepoints_leave_equal_rows_and_answers(
    chosen: list[list[int]],
) -> None:
    assert outcome(chosen, lightly=True) == outcome(chosen, lightly=False)


def test_command_that_fails_before_it_writes_harms_nobody(store: WriteStore) -> None:
    store.batch.begin()
    store.batch.run_lightly(lambda tx: write(tx, "one"))
    with pytest.raises(Failed):
        store.batch.run_lightly(fail)
    assert store.batch.run_lightly(undo_nothing) == "undone"
    assert store.batch.commit() == frozenset()
    assert store.rows("SELECT project_id FROM projects ORDER BY rowid") == [
        ("one",),
        ("after an undo",),
    ]


@pytest.mark.parametrize("command", [write_and_fail, write_and_undo])
def test_command_that_has_written_cannot_be_undone_alone(
    store: WriteStore, command: Command
) -> None:
    """Nothing of its batch may be committed then; with a savepoint the same command is undone."""
    store.batch.begin()
    with pytest.raises(SavepointNeeded):
        store.batch.run_lightly(command)
    store.batch.abandon()
    run_group(store, [command], lightly=False)
    assert store.rows("SELECT project_id FROM projects") == []


def test_no_command_takes_a_missing_savepoint_for_a_refusal() -> None:
    assert not issubclass(SavepointNeeded, Exception)


def test_transaction_that_died_under_a_light_command_is_reported(store: WriteStore) -> None:
    def destroy(tx: "Transaction") -> None:
        tx.connection.execute("INSERT OR ROLLBACK INTO projects SELECT * FROM projects LIMIT 1")

    store.batch.begin()
    store.batch.run_lightly(lambda tx: write(tx, "one"))
    with pytest.raises(TransactionDied):
        store.batch.run_lightly(destroy)
    assert not store.writer.in_transaction


def test_run_that_exists_is_refused_without_a_second_try(store: WriteStore) -> None:
    """The commonest refusal of clients writes nothing before it is known."""
    store.create("run-1")
    store.batch.begin()
    with pytest.raises(RunExistsError):
        store.batch.run_lightly(lambda tx: create_run(tx, CONTROL, store.new_run("run-1")))
    store.batch.abandon()
