"""Reserve a run: definition, sources, binding, run and queue row in one commit."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.ids import RunId, derived_id, run_resource_id
from pi_workflows.protocol.sources import SourceIdentity
from pi_workflows.protocol.states import ExecutionMode, ResourceType
from store import blobs, definitions, resources, run_queue, runs, settings_scopes
from store.authority import Operation, Permit, require_actor, revise
from store.errors import RunExistsError
from store.resources import run_event
from store.run_recovering import RecoveryLink
from store.runs import RunRow
from store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class MountSource:
    """Where the workflow at a mount comes from.

    Attributes:
        mount_path: the mounts from the root down, joined by `/`; empty for the root itself.
    """

    mount_path: str
    source: SourceIdentity


@dataclass(frozen=True, slots=True)
class NewRun:
    """Everything a run is made of, resolved, validated and hashed before the transaction.

    Attributes:
        workflow_ref: how the caller named the workflow (a name or a path).
        project_path: canonical absolute path; also the cwd of the run's children.
        source: of the workflow itself.
        origin_session_id: None exactly when the run is headless.
        mounts: the sources of all that it includes.
        settings: what they are at first; None exactly when the workflow declares none.
    """

    run_id: RunId
    workflow_name: str
    workflow_ref: str
    project_path: str
    source: SourceIdentity
    snapshot: blobs.Blob
    run_input: blobs.Blob
    launch_options: blobs.Blob
    title: str | None
    origin_session_id: str | None
    mounts: tuple[MountSource, ...] = ()
    settings: blobs.Blob | None = None

    @property
    def mode(self) -> ExecutionMode:
        """Whether the run belongs to a conversation."""
        if self.origin_session_id is None:
            return ExecutionMode.HEADLESS
        return ExecutionMode.INTERACTIVE


INSERT_PROJECT: Final = """
    INSERT OR IGNORE INTO projects (project_id, canonical_path, created_at)
    VALUES (:project_id, :canonical_path, :now)
"""

INSERT_RUN: Final = """
    INSERT INTO runs (run_id, resource_id, project_id, root_run_id, restart_number,
                      recovery_root_run_id, recovery_source_message_id,
                      definition_digest, workflow_ref, launch_options_hash, title, status, paused,
                      input_hash, created_at, updated_at)
    VALUES (:run_id, :resource_id, :project_id, :run_id, 0,
            :recovery_root, :recovery_message,
            :definition_digest, :workflow_ref, :launch_options_hash, :title, 'queued', 0,
            :input_hash, :now, :now)
"""

INSERT_SOURCE: Final = """
    INSERT INTO run_sources (run_id, mount_path, source_type, source_ref, source_revision)
    VALUES (:run_id, :mount_path, :source_type, :source_ref, :source_revision)
"""

INSERT_BINDING: Final = """
    INSERT INTO run_bindings (run_id, origin_session_id, execution_mode, created_at)
    VALUES (:run_id, :origin_session_id, :execution_mode, :now)
"""


def create_run(
    tx: Transaction, permit: Permit, new: NewRun, *, recovers: RecoveryLink | None = None
) -> RunRow:
    """Reserve the run as `queued`; it has its final id and is due at once.

    Args:
        recovers: the chain that launches it by itself, from `run_recovering.launch_link` in this
            transaction; None when a person or a program asks.

    Raises:
        AuthorityError: this actor may not start runs.
        RunExistsError: the id is taken.
    """
    require_actor(permit.actor, Operation.CREATE_RUN)
    if runs.find(tx, new.run_id) is not None:
        raise RunExistsError
    resource = run_resource_id(new.run_id)
    resources.create(tx, ResourceType.RUN, new.run_id)
    with revise(tx, permit, resource, Operation.CREATE_RUN) as recorder:
        _insert(tx, new, recovers)
        if new.settings is not None:
            settings_scopes.create(tx, new.run_id, "", 1, blobs.put(tx, new.settings))
        run_queue.insert(tx, new.run_id, origin_session_id=new.origin_session_id)
        recorder.record(run_event("run_created", {"inputStored": True}))
    return runs.require(tx, new.run_id)


def _insert(tx: Transaction, new: NewRun, recovers: RecoveryLink | None) -> None:
    project_id = derived_id("project", new.project_path)
    tx.execute(
        INSERT_PROJECT,
        {"project_id": project_id, "canonical_path": new.project_path, "now": tx.now},
    )
    tx.execute(
        INSERT_RUN,
        {
            "run_id": new.run_id,
            "resource_id": run_resource_id(new.run_id),
            "recovery_root": None if recovers is None else recovers.root_run_id,
            "recovery_message": None if recovers is None else recovers.message_id,
            "project_id": project_id,
            "definition_digest": definitions.ensure(tx, new.workflow_name, new.snapshot),
            "workflow_ref": new.workflow_ref,
            "launch_options_hash": blobs.put(tx, new.launch_options),
            "title": new.title,
            "input_hash": blobs.put(tx, new.run_input),
            "now": tx.now,
        },
    )
    for mount in (MountSource("", new.source), *new.mounts):
        tx.execute(
            INSERT_SOURCE,
            {
                "run_id": new.run_id,
                "mount_path": mount.mount_path,
                "source_type": mount.source.kind,
                "source_ref": mount.source.ref,
                "source_revision": mount.source.revision,
            },
        )
    tx.execute(
        INSERT_BINDING,
        {
            "run_id": new.run_id,
            "origin_session_id": new.origin_session_id,
            "execution_mode": new.mode,
            "now": tx.now,
        },
    )
