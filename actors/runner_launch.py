"""Start one runner child: recorded first, then spawned, then attached to its row."""

from dataclasses import dataclass
from typing import Final

import trio

from actors.runner_channel import Credentials, RunnerChannel
from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.ids import WorkerEpoch
from pi_workflows.protocol.states import WorkerStatus
from pi_workflows.protocol.version import RUNNER_LAUNCH, RUNNER_PROTOCOL_VERSION
from runtime.child_environment import child_environment
from runtime.line_stream import LineStream
from runtime.process import Child, ChildSpec
from runtime.sync_points import SyncPoint
from store import workers
from store.authority import Permit
from store.blobs import Blob
from store.projects import path_of
from store.run_claiming import ClaimedRun, launch
from store.workers import Launch, WorkerEnd

RUNNER_MODULE: Final = "pi_workflows.runner"


@dataclass(frozen=True, slots=True)
class LaunchedRunner:
    """A child with the channel to it."""

    worker_epoch: WorkerEpoch
    child: Child
    channel: RunnerChannel


async def launch_runner(services: Services, claimed: ClaimedRun, permit: Permit) -> LaunchedRunner:
    """Record, spawn and register a child, and send it the launch envelope.

    Cancelled: the child is ended again; its row says so when the server records its end.

    Raises:
        ClaimLostError: the run is not ours any more; nothing was spawned.
        SpawnFailed: the child could not be started.
    """
    worker_epoch = WorkerEpoch(f"runner-{services.world.ids.new_uuid()}")
    with services.readers.reading() as reading:
        project_path = path_of(reading, claimed.run.project_id)
    envelope = _envelope(claimed, worker_epoch, project_path)
    launched = Launch(
        worker_epoch,
        claimed.run.run_id,
        claimed.claim.generation,
        services.identity.epoch,
        Blob.of_json(envelope),
    )
    await services.store.insist(lambda tx: launch(tx, permit, launched))
    try:
        child = await services.spawner.spawn(runner_spec(project_path, worker_epoch))
    except BaseException:
        await _record_failed_launch(services, worker_epoch)
        raise
    credentials = Credentials(claimed.run.run_id, claimed.claim.generation, worker_epoch)
    channel = RunnerChannel(LineStream(child.stream), credentials)
    try:
        services.processes.add(child.identity, worker_epoch)
        services.world.sync_points.reached(SyncPoint.RUNNER_AFTER_SPAWN_BEFORE_ATTACH)
        identity = child.identity.start_identity
        await services.store.insist(
            lambda tx: workers.attach(tx, worker_epoch, child.pid, identity)
        )
        await channel.launch(envelope)
    except trio.BrokenResourceError:
        # The child is gone already: its owner finds that out, and records it, when it listens.
        return LaunchedRunner(worker_epoch, child, channel)
    except BaseException:
        await child.stop()
        services.processes.remove(child.identity)
        await _record_failed_launch(services, worker_epoch)
        raise
    return LaunchedRunner(worker_epoch, child, channel)


async def _record_failed_launch(services: Services, worker_epoch: WorkerEpoch) -> None:
    """Close the row of a child that never came to serve: one open row would block the next."""
    with trio.CancelScope(shield=True):
        await services.store.do(workers.end, worker_epoch, WorkerEnd(WorkerStatus.CRASHED))


def runner_spec(project_path: str, marker: str) -> ChildSpec:
    """Return what to start for a run of this project."""
    return ChildSpec.of_module(
        RUNNER_MODULE, cwd=project_path, env=child_environment(), marker=marker
    )


def _envelope(claimed: ClaimedRun, worker_epoch: WorkerEpoch, project_path: str) -> JsonObject:
    root = claimed.sources[0]
    return {
        "schema": RUNNER_LAUNCH,
        "runId": claimed.run.run_id,
        "generation": claimed.claim.generation,
        "runnerEpoch": worker_epoch,
        "projectPath": project_path,
        "workflowSource": {
            "root": {
                "kind": root.source_type,
                "path": root.source_ref,
                "hash": root.source_revision,
            },
            "mounts": [],
        },
        "definitionDigest": claimed.run.definition_digest.hex(),
        "inputHash": claimed.run.input_hash.hex(),
        "protocolVersion": RUNNER_PROTOCOL_VERSION,
    }
