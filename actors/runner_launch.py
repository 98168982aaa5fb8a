"""Start one runner child: recorded first, then spawned, then attached to its row."""

import contextlib
from dataclasses import dataclass
from typing import Final

import trio

from actors.runner_channel import Credentials, RunnerChannel
from actors.services import ServerIdentity, Services
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.ids import WorkerEpoch
from pi_workflows.protocol.version import RUNNER_LAUNCH, RUNNER_PROTOCOL_VERSION
from runtime.child_environment import child_environment
from runtime.errors import RuntimeFault
from runtime.line_stream import LineStream
from runtime.process import Child, ChildSpec
from runtime.sync_points import SyncPoint
from store import workers
from store.authority import Permit
from store.blobs import Blob
from store.projects import path_of
from store.run_claiming import ClaimedRun, launch
from store.runs import SourceRow
from store.transaction import Transaction
from store.workers import Launch


class NotRegistered(RuntimeFault):
    """A child cannot be entered in the registry, so it has been ended again."""


RUNNER_MODULE: Final = "pi_workflows.runner"


@dataclass(frozen=True, slots=True)
class PlannedRunner:
    """A child that is recorded and not spawned yet.

    Attributes:
        envelope: the first frame it will be sent.
    """

    worker_epoch: WorkerEpoch
    credentials: Credentials
    project_path: str
    envelope: JsonObject


@dataclass(frozen=True, slots=True)
class LaunchedRunner:
    """A child with the channel to it."""

    worker_epoch: WorkerEpoch
    child: Child
    channel: RunnerChannel


def plan_runner(
    tx: Transaction, server: ServerIdentity, claimed: ClaimedRun, worker_epoch: WorkerEpoch
) -> PlannedRunner:
    """Record the child that is about to be spawned, in the transaction that claims its run."""
    project_path = path_of(tx, claimed.run.project_id)
    envelope = _envelope(claimed, worker_epoch, project_path)
    run_id, generation = claimed.run.run_id, claimed.claim.generation
    launched = Launch(worker_epoch, run_id, generation, server.epoch, Blob.of_json(envelope))
    launch(tx, Permit(server.host, claimed.claim), launched)
    credentials = Credentials(run_id, generation, worker_epoch)
    return PlannedRunner(worker_epoch, credentials, project_path, envelope)


async def launch_runner(services: Services, planned: PlannedRunner) -> LaunchedRunner:
    """Spawn and register a recorded child, and send it the launch envelope.

    It loads the workflow while its process is entered in its row; it is heard only after that.
    Cancelled: the child is ended again; its row is the caller's to close, as after an error.

    Raises:
        SpawnFailed: the child could not be started.
        NotRegistered: the registry cannot be written; the disk is full, for instance.
    """
    worker_epoch = planned.worker_epoch
    child = await services.spawner.spawn(runner_spec(planned.project_path, worker_epoch))
    channel = RunnerChannel(LineStream(child.stream), planned.credentials)
    try:
        _register(services, child, worker_epoch)
        services.world.sync_points.reached(SyncPoint.RUNNER_AFTER_SPAWN_BEFORE_ATTACH)
        # One that is gone already is found out, and recorded, by whoever listens to it.
        with contextlib.suppress(trio.BrokenResourceError):
            await channel.launch(planned.envelope)
        identity = child.identity.start_identity
        await services.store.insist(
            lambda tx: workers.attach(tx, worker_epoch, child.pid, identity)
        )
    except BaseException:
        await child.stop()
        services.processes.remove(child.identity)
        raise
    return LaunchedRunner(worker_epoch, child, channel)


def _register(services: Services, child: Child, worker_epoch: WorkerEpoch) -> None:
    """Let a successor find it, or have none: nobody could end it after this server's death."""
    try:
        services.processes.add(child.identity, worker_epoch)
    except OSError as error:
        raise NotRegistered(f"the registry of processes cannot be written: {error}") from error


def runner_spec(project_path: str, marker: str) -> ChildSpec:
    """Return what to start for a run of this project."""
    return ChildSpec.of_module(
        RUNNER_MODULE, cwd=project_path, env=child_environment(), marker=marker
    )


def _envelope(claimed: ClaimedRun, worker_epoch: WorkerEpoch, project_path: str) -> JsonObject:
    return {
        "schema": RUNNER_LAUNCH,
        "runId": claimed.run.run_id,
        "generation": claimed.claim.generation,
        "runnerEpoch": worker_epoch,
        "projectPath": project_path,
        "workflowSource": workflow_source(claimed.sources),
        "definitionDigest": claimed.run.definition_digest.hex(),
        "inputHash": claimed.run.input_hash.hex(),
        "protocolVersion": RUNNER_PROTOCOL_VERSION,
    }


def workflow_source(sources: list[SourceRow]) -> JsonObject:
    """Return the pinned sources of a run as children are told them; the root's is the first."""
    root, *mounts = sources
    return {
        "root": root.identity.stored(),
        "mounts": [{"mountPath": mount.mount_path, **mount.identity.stored()} for mount in mounts],
    }
