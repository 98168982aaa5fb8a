"""Restarting: a new run of what a run was started with, once, and nothing else of it."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import ActorType, RunStatus, StepOutcome
from store import projection, run_restarting, verification
from store.authority import Permit
from store.blobs import Blob
from store.effect_resolving import Resolution, Verb, resolve_effect
from store.errors import AuthorityError, RunUnknownError, StaleResourceError
from store.proposals import FinishRun
from store.resources import Actor
from store.run_creation import MountSource, create_run
from store.run_parking import Departure, park_run
from store.run_pausing import pause_run
from store.run_recovering import NoRecovery, RecoveryRefusedError, launch_link
from store.run_restarting import RestartReply, RunNotEndedError
from store.run_resuming import EffectAmbiguousError
from tests.store.writes.conftest import WrittenRun

if TYPE_CHECKING:
    from store.transaction import Transaction
    from tests.store.writes.conftest import WriteStore

CONTROL: Final = Actor(ActorType.CONTROL)
SESSION: Final = Actor(ActorType.SESSION, "session-1")
REPAIR: Final = SourceIdentity(SourceKind.FILE, "/projects/one/repair_flow.py", "cd" * 32)
MAY_NOT: Final = [
    actor for actor in ActorType if actor not in {ActorType.CONTROL, ActorType.SESSION}
]


def restart(
    run: WrittenRun, revision: int | None = None, *, message: str | None = None
) -> RestartReply:
    seen = run.revision if revision is None else revision
    permit = Permit(CONTROL if message is None else SESSION, expected_revision=seen)
    return run.store.do(
        run_restarting.restart_run, permit, run.run_id, recovery_message_id=message
    )


def completed(run: WrittenRun) -> WrittenRun:
    run.walk()
    run.advance(run.completed())
    run.end_child()
    return run


def row(store: "WriteStore", table: str, run_id: str) -> dict[str, object]:
    """Return a run's one row of a table, by column."""
    sql = f"SELECT * FROM {table} WHERE run_id = :id"  # noqa: S608
    cursor = store.writer.connection.execute(sql, {"id": run_id})
    names = [name for name, *_ in cursor.get_description()]
    return dict(zip(names, next(cursor), strict=True))


def test_restart_gives_a_new_run_the_definition_and_the_input_and_nothing_else(
    run: WrittenRun,
) -> None:
    """Case: B47."""
    store = run.store
    completed(run)
    before = store.dump()
    store.now += 5
    reply = restart(run)
    child = WrittenRun(store, reply.run.run_id)
    assert (reply.adopted, reply.restart_number, reply.revision) == (False, 1, 1)
    assert child.status == ("queued", "queued")
    assert child.events() == ["run_created"]
    parent_row, child_row = row(store, "runs", run.run_id), row(store, "runs", child.run_id)
    differing = {name for name, value in child_row.items() if value != parent_row[name]}
    assert differing == {
        "run_id",
        "resource_id",
        "parent_run_id",
        "lineage_kind",
        "restart_number",
        "parent_run_revision",
        "status",
        "final_output_hash",
        "created_at",
        "updated_at",
        "finished_at",
    }
    assert (child_row["parent_run_id"], child_row["parent_run_revision"]) == (
        run.run_id,
        run.revision,
    )
    assert child_row["root_run_id"] == run.run_id
    for table in ("run_steps", "node_attempts", "workflow_follow_ups", "human_decisions"):
        count = f"SELECT count(*) FROM {table} WHERE run_id = :id"  # noqa: S608
        assert store.value(count, id=child.run_id) == 0
    assert child.effects() == []
    of_parent = {
        name: [found for found in rows if run.run_id in found] for name, rows in before.items()
    }
    assert {
        name: [found for found in rows if run.run_id in found and child.run_id not in found]
        for name, rows in store.dump().items()
    } == of_parent, "the parent is not changed"
    completed(child)
    assert store.do(projection.run_state, child.run_id)["parentRunId"] == run.run_id
    assert store.do(verification.violations) == []


def test_restart_pins_the_same_sources_of_all_that_is_included(store: "WriteStore") -> None:
    mounts = (MountSource("fix", REPAIR),)
    store.do(create_run, Permit(CONTROL), replace(store.new_run("run-1"), mounts=mounts))
    run = completed(WrittenRun(store, "run-1"))
    child = restart(run).run.run_id
    pinned = "SELECT mount_path, source_type, source_ref, source_revision FROM run_sources"
    of_parent, of_child = (
        store.rows(f"{pinned} WHERE run_id = :id ORDER BY mount_path", id=run_id)
        for run_id in (run.run_id, child)
    )
    assert of_parent == of_child
    assert [path for path, *_ in of_child] == ["", "fix"]


def test_first_runner_of_a_restart_is_told_so(run: WrittenRun) -> None:
    completed(run)
    child = WrittenRun(run.store, restart(run).run.run_id)
    child.take()
    child.launch()
    first = child.ready()
    assert (first.command, first.step_count, first.interrupted) == ("restart", 0, None)
    child.park()
    child.take()
    child.launch()
    assert child.ready().command == "resume"


def test_restart_that_is_repeated_adopts_the_first_child(run: WrittenRun) -> None:
    """Also one that names the revision at which the run now stands.

    Case: A87, B47.
    """
    completed(run)
    revision = run.revision
    first = restart(run)
    before = run.store.dump()
    second = restart(run)
    assert (first.adopted, second.adopted) == (False, True)
    assert first.run == second.run
    assert run.store.dump() == before
    run.store.rows(
        "UPDATE resources SET revision = revision + 1 WHERE resource_id = :id",
        id=run_resource_id(run.run_id),
    )
    assert restart(run, revision).run == restart(run, revision + 1).run == first.run
    with pytest.raises(StaleResourceError):
        restart(run, revision + 2)


def test_restart_of_a_restart_goes_on_counting_in_the_same_tree(run: WrittenRun) -> None:
    completed(run)
    child = WrittenRun(run.store, restart(run).run.run_id)
    child.cancel()
    grandchild = restart(child)
    assert grandchild.restart_number == 2
    (found,) = run.store.rows(
        "SELECT parent_run_id, root_run_id FROM runs WHERE run_id = :id", id=grandchild.run.run_id
    )
    assert found == (child.run_id, run.run_id)


@pytest.mark.parametrize("off_by", [-1, 1])
def test_restart_at_another_revision_is_refused_and_writes_nothing(
    run: WrittenRun, off_by: int
) -> None:
    """Case: A87, B47."""
    completed(run)
    before = run.store.dump()
    with pytest.raises(StaleResourceError, match=f"the run {run.run_id} is at revision") as stale:
        restart(run, run.revision + off_by)
    assert stale.value.fields() == {
        "expectedRevision": run.revision + off_by,
        "revision": run.revision,
    }
    assert run.store.dump() == before


@pytest.mark.parametrize("stage", ["queued", "running", "parked", "ambiguous"])
def test_live_run_is_not_restarted(run: WrittenRun, stage: str) -> None:
    """Case: A87."""
    if stage != "queued":
        run.begin()
    if stage == "parked":
        run.store.do(park_run, run.permit, run.run_id, Departure.SOURCE_CHANGED, "it differs")
    if stage == "ambiguous":
        run.work(run.started("fetch"))
        run.act("send")
        run.store.do(pause_run, Permit(CONTROL, run.claim), run.run_id)
    before = run.store.dump()
    told = f"it is {stage}; .*pi-workflows cancel {run.run_id}"
    with pytest.raises(RunNotEndedError, match=told) as refused:
        restart(run)
    fields = {"status": run.status[0], "revision": run.revision}
    assert refused.value.fields() == fields | ({"paused": True} if stage == "ambiguous" else {})
    assert run.store.dump() == before


def test_refusal_to_restart_a_paused_run_says_that_it_is_paused(run: WrittenRun) -> None:
    run.store.do(pause_run, Permit(CONTROL), run.run_id)
    with pytest.raises(RunNotEndedError, match="it is paused") as refused:
        restart(run)
    assert refused.value.fields()["paused"] is True


def test_run_with_an_unsettled_effect_is_restarted_only_after_it_is_settled(
    run: WrittenRun,
) -> None:
    """Trying it again is no way out: its run has ended, and the refusal does not name it.

    Case: A87, B47.
    """
    run.begin()
    run.work(run.started("fetch"))
    start = run.act("send")
    run.cancel(permit=Permit(CONTROL, run.claim))
    before = run.store.dump()
    with pytest.raises(EffectAmbiguousError) as refused:
        restart(run)
    assert f"effects resolve {run.effect_of(start)} --applied|--rejected --rea" in str(
        refused.value
    )
    assert run.store.dump() == before
    word = Resolution(Verb.REJECTED, "it is not there")
    run.store.do(resolve_effect, Permit(CONTROL), run.effect_of(start), word)
    assert not restart(run).adopted


@pytest.mark.parametrize("actor", MAY_NOT)
def test_only_control_and_a_session_restart_a_run(run: WrittenRun, actor: ActorType) -> None:
    completed(run)
    before = run.store.dump()
    permit = Permit(Actor(actor), expected_revision=run.revision)
    with pytest.raises(AuthorityError):
        run.store.do(run_restarting.restart_run, permit, run.run_id)
    assert run.store.dump() == before


def test_restart_of_an_unknown_run_is_refused_with_its_nearest_names(store: "WriteStore") -> None:
    store.create("run-12")
    with pytest.raises(RunUnknownError) as refused:
        store.do(run_restarting.restart_run, Permit(CONTROL, expected_revision=1), "run-13")
    assert refused.value.fields() == {"nearest": ["run-12"]}


def told(run: WrittenRun, *, kind: str = "terminal", stop: str | None = None) -> str:
    """Let a conversation be told how the run ended; return the message's id."""
    message = f"message-{run.run_id}"
    run.store.rows(
        "INSERT INTO resources (resource_id, resource_type, aggregate_key, revision, created_at,"
        " updated_at) VALUES (:id, 'workflow_message', :id, 1, 1, 1)",
        id=message,
    )
    run.store.rows(
        "INSERT INTO workflow_messages (workflow_message_id, resource_id, run_id,"
        " target_session_id, kind, source_id, content_hash, order_number, status, created_at,"
        " updated_at)"
        " SELECT :id, :id, :run_id, 'session-1', :kind, :run_id, input_hash,"
        " (SELECT count(*) + 1 FROM workflow_messages), 'pending', 1, 1"
        " FROM runs WHERE run_id = :run_id",
        id=message,
        run_id=run.run_id,
        kind=kind,
    )
    if stop is not None:
        stopped(run.store, message, stop)
    return message


def stopped(store: "WriteStore", message: str, stop: str) -> None:
    store.rows(
        "UPDATE workflow_messages SET recovery_stop = :stop WHERE workflow_message_id = :id",
        id=message,
        stop=stop,
    )


def failed(run: WrittenRun) -> WrittenRun:
    """Let the run fail at its first node."""
    run.begin()
    start = run.started("fetch")
    run.advance(start)
    run.advance(
        run.finished(start, outcome=StepOutcome.FAILED, error="boom"),
        FinishRun(RunStatus.FAILED, None, Blob.of_text("boom")),
    )
    run.end_child()
    return run


def launched(run: WrittenRun, message: str) -> WrittenRun:
    """Restart the run by itself."""
    return WrittenRun(run.store, restart(run, message=message).run.run_id)


def refusal_of(run: WrittenRun, message: str) -> NoRecovery:
    """Assert that the message launches nothing, neither way, and return why."""
    before = run.store.dump()
    with pytest.raises(RecoveryRefusedError) as refused:
        restart(run, message=message)
    with pytest.raises(RecoveryRefusedError):
        run.store.do(launch_link, run.run_id, message)
    assert run.store.dump() == before
    return refused.value.reason


def test_third_launch_of_a_chain_is_refused(run: WrittenRun) -> None:
    """A restart, then a corrected start, each bound to its terminal message and to the root.

    Case: A88.
    """
    store = run.store
    failed(run)
    child = failed(launched(run, told(run)))
    message = told(child)

    def corrected(tx: "Transaction") -> None:
        link = launch_link(tx, child.run_id, message)
        create_run(tx, Permit(SESSION), store.new_run("corrected"), recovers=link)

    store.do(corrected)
    second = failed(WrittenRun(store, "corrected"))
    links = "SELECT recovery_root_run_id, recovery_source_message_id FROM runs ORDER BY rowid"
    assert store.rows(links) == [
        (None, None),
        (run.run_id, f"message-{run.run_id}"),
        (run.run_id, message),
    ]
    assert refusal_of(second, told(second)) is NoRecovery.LIMIT
    assert not restart(second).adopted, "people are not counted"


def test_terminal_message_launches_one_run(run: WrittenRun) -> None:
    """A repeat of the restart adopts; anything else that names the message is refused.

    Case: A88.
    """
    failed(run)
    message = told(run)
    child = launched(run, message)
    assert restart(run, message=message).adopted
    with pytest.raises(RecoveryRefusedError) as refused:
        run.store.do(launch_link, run.run_id, message)
    assert refused.value.reason is NoRecovery.CONSUMED
    assert child.status == ("queued", "queued")


@pytest.mark.parametrize("stop", ["cancelled", "interrupted", "timed_out"])
def test_stopped_recovery_launches_nothing(run: WrittenRun, stop: str) -> None:
    failed(run)
    assert refusal_of(run, told(run, stop=stop)) is NoRecovery.STOPPED


def test_cancel_stops_the_whole_chain(run: WrittenRun) -> None:
    """Of the run itself, of its root, or of the recovery at an earlier message."""
    failed(run)
    child = failed(launched(run, told(run)))
    stopped(run.store, f"message-{run.run_id}", "cancelled")
    assert refusal_of(child, told(child)) is NoRecovery.CANCELLED
    stopped(run.store, f"message-{run.run_id}", "interrupted")
    grandchild = launched(child, f"message-{child.run_id}")
    grandchild.cancel()
    assert refusal_of(grandchild, told(grandchild)) is NoRecovery.CANCELLED


def test_unsettled_effect_of_the_root_keeps_the_chain_from_going_on(run: WrittenRun) -> None:
    failed(run)
    child = failed(launched(run, told(run)))
    run.store.rows(
        "UPDATE effects SET status = 'ambiguous', settled_at = NULL"
        " WHERE source_resource_id = :id",
        id=run_resource_id(run.run_id),
    )
    assert refusal_of(child, told(child)) is NoRecovery.UNSETTLED


@pytest.mark.parametrize("kind", ["notification", None])
def test_only_the_runs_own_terminal_message_launches(run: WrittenRun, kind: str | None) -> None:
    failed(run)
    message = "message-of-nobody" if kind is None else told(run, kind=kind)
    assert refusal_of(run, message) is NoRecovery.NO_MESSAGE
