"""Start a run that has ended once more: the same definition and input, and nothing else of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.ids import run_id_for, run_resource_id
from pi_workflows.protocol.states import QueueStatus, ResourceType
from pi_workflows.protocol.timestamps import compact
from store import (
    definitions,
    effect_rows,
    resources,
    run_queue,
    run_recovering,
    run_summaries,
    runs,
    settings_scopes,
)
from store.authority import Operation, Permit, holding, require_actor, revise
from store.display import standing
from store.errors import Rejected, StaleResourceError
from store.resources import run_event
from store.run_recovering import RecoveryLink
from store.run_resuming import EffectAmbiguousError
from store.runs import RunRow
from store.transaction import Reading, Transaction, affected_one
from store.unresolved_effects import unresolved

if TYPE_CHECKING:
    from store.rows import Bindings

_EFFECTS_READ: Final = 256
_SETTLED: Final = frozenset({QueueStatus.DONE, QueueStatus.FAILED, QueueStatus.CANCELLED})


class RunNotEndedError(Rejected):
    """The run has not ended: there is nothing to start once more."""

    code: ClassVar[str] = ErrorCode.RUN_NOT_ENDED
    wire_names: ClassVar[Mapping[str, str]] = {
        "status": "status",
        "paused": "paused",
        "revision": "revision",
    }

    def __init__(self, run: RunRow, revision: int, standing: str) -> None:
        """`standing` is the word that people see for where the run stands."""
        run_id, status = run.run_id, run.status
        super().__init__(
            f"{run_id} has not ended: it is {standing}; look with: pi-workflows show {run_id}, or "
            f"end it with: pi-workflows cancel {run_id}"
        )
        self.status = status
        self.paused = True if run.paused else None
        self.revision = revision


@dataclass(frozen=True, slots=True)
class RestartReply:
    """What became of a restart.

    Attributes:
        run: the child, as it now stands.
        workflow_name: of both.
        restart_number: how many restarts lead from the root to the child.
        revision: of the child.
        adopted: True when the run had been restarted before; nothing was created.
    """

    run: RunRow
    workflow_name: str
    restart_number: int
    revision: int
    adopted: bool


@dataclass(frozen=True, slots=True)
class ChildRow:
    """A restart of a run.

    Attributes:
        parent_run_revision: of the parent, as whoever asked for it saw it.
    """

    run_id: str
    restart_number: int
    parent_run_revision: int
    workflow_name: str


SELECT_CHILD: Final = """
    SELECT r.run_id, r.restart_number, r.parent_run_revision, d.workflow_name
      FROM runs AS r JOIN workflow_definitions AS d USING (definition_digest)
     WHERE r.parent_run_id = :parent AND r.lineage_kind = 'restart'
"""

# The columns that are not named are what a new run has: no output, no error, no end.
INSERT_CHILD: Final = """
    INSERT INTO runs (run_id, resource_id, project_id, parent_run_id, root_run_id, lineage_kind,
                      restart_number, parent_run_revision, recovery_root_run_id,
                      recovery_source_message_id, definition_digest, workflow_ref,
                      launch_options_hash, title, status, paused, input_hash, created_at,
                      updated_at)
    SELECT :run_id, :resource_id, project_id, run_id, root_run_id, 'restart',
           restart_number + 1, :parent_revision, :recovery_root, :recovery_message,
           definition_digest, workflow_ref, launch_options_hash, title, 'queued', 0, input_hash,
           :now, :now
      FROM runs WHERE run_id = :parent
"""

INSERT_CHILD_SOURCES: Final = """
    INSERT INTO run_sources (run_id, mount_path, source_type, source_ref, source_revision)
    SELECT :run_id, mount_path, source_type, source_ref, source_revision
      FROM run_sources WHERE run_id = :parent
"""

INSERT_CHILD_BINDING: Final = """
    INSERT INTO run_bindings (run_id, origin_session_id, execution_mode, created_at)
    SELECT :run_id, origin_session_id, execution_mode, :now
      FROM run_bindings WHERE run_id = :parent
"""

ROW_STATEMENTS: Final = {"SELECT_CHILD": ChildRow}


def restart_run(
    tx: Transaction,
    permit: Permit,
    parent_id: str,
    *,
    recovery_message_id: str | None = None,
) -> RestartReply:
    """Reserve a new run of what a run was started with; it is `queued` and due at once.

    It gets the parent's definition, sources, input, title, project and session, and begins with
    the settings that the parent began with. Steps, outputs, changes of settings, decisions and
    effects stay with the parent, which is not changed.

    Race contract: a run is restarted once. Of any number of restarts that name the revision at
    which it was restarted, or at which it now stands, the first one creates the child and the
    others adopt it.

    Args:
        permit: its expected revision names the parent as the caller has seen it; it is required.
        parent_id: a run that has ended.
        recovery_message_id: the terminal message that launches it by itself; None when a person
            or a program asks.

    Raises:
        AuthorityError: this actor may not restart runs.
        RunUnknownError: there is no such parent.
        StaleResourceError: the parent is at another revision.
        RunNotEndedError: the parent is live.
        EffectAmbiguousError: an effect of the parent has to be settled first.
        RecoveryRefusedError: the message may launch nothing.
    """
    require_actor(permit.actor, Operation.RESTART_RUN)
    parent = runs.require(tx, parent_id)
    revision = holding(tx, parent.resource_id).revision
    assert permit.expected_revision is not None, "a restart names the revision it has seen"
    child = tx.one(ChildRow, SELECT_CHILD, {"parent": parent_id})
    if child is not None and permit.expected_revision in {child.parent_run_revision, revision}:
        return _reply(tx, child, adopted=True)
    if permit.expected_revision != revision:
        raise StaleResourceError(permit.expected_revision, revision, what=f"run {parent.run_id}")
    _require_over(tx, parent, revision)
    link = None
    if recovery_message_id is not None:
        link = run_recovering.launch_link(tx, parent_id, recovery_message_id)
    _create(tx, permit, parent, revision, link)
    created = tx.one(ChildRow, SELECT_CHILD, {"parent": parent_id})
    assert created is not None, "the child was just created"
    return _reply(tx, created, adopted=False)


def _require_over(tx: Transaction, parent: RunRow, revision: int) -> None:
    """Refuse to restart what may still be going on."""
    queued = run_queue.find(tx, parent.run_id)
    if not parent.terminal or (queued is not None and queued.status not in _SETTLED):
        facts = run_summaries.require(tx, parent.run_id)
        raise RunNotEndedError(parent, revision, standing(facts, tx.now))
    if not effect_rows.unsettled(tx, parent.resource_id):
        return
    effect, *_ = unresolved(tx, parent.resource_id, limit=_EFFECTS_READ)
    raise EffectAmbiguousError(effect, has_ended=True)


def _create(
    tx: Transaction, permit: Permit, parent: RunRow, revision: int, link: RecoveryLink | None
) -> None:
    name = definitions.name_of(tx, parent.definition_digest)
    child_id = run_id_for(compact(tx.now), name, tx.ids.new_uuid()[-8:])
    resource = run_resource_id(child_id)
    resources.create(tx, ResourceType.RUN, child_id)
    about: Bindings = {"run_id": child_id, "parent": parent.run_id, "now": tx.now}
    with revise(tx, Permit(permit.actor), resource, Operation.CREATE_RUN) as recorder:
        affected_one(
            tx.execute(
                INSERT_CHILD,
                {
                    **about,
                    "resource_id": resource,
                    "parent_revision": revision,
                    "recovery_root": None if link is None else link.root_run_id,
                    "recovery_message": None if link is None else link.message_id,
                },
            )
        )
        tx.execute(INSERT_CHILD_SOURCES, {"run_id": child_id, "parent": parent.run_id})
        affected_one(tx.execute(INSERT_CHILD_BINDING, about))
        run_queue.insert(tx, child_id, origin_session_id=runs.session_of(tx, parent.run_id))
        began = settings_scopes.current(tx, parent.run_id)
        if began is not None:
            settings_scopes.create(tx, child_id, "", 1, began.initial_hash)
        recorder.record(
            run_event("run_created", {"inputStored": True, "parentRunId": parent.run_id})
        )


def _reply(reading: Reading, child: ChildRow, *, adopted: bool) -> RestartReply:
    run = runs.require(reading, child.run_id)
    revision = holding(reading, run.resource_id).revision
    return RestartReply(run, child.workflow_name, child.restart_number, revision, adopted)
