"""Ask a resolver child what a workflow file is: user code is loaded there, never in the server."""

from dataclasses import dataclass
from typing import TypeAlias, cast

from actors.resolver_child import (
    RESOLVER_MODULE,
    NotResolved,
    RefusedWorkflow,
    ask_child,
    unusable,
)
from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import FrameTooLarge, encode_frame
from pi_workflows.protocol.sources import SourceIdentity
from pi_workflows.protocol.version import RESOLVE_REQUEST
from runtime.child_environment import child_environment
from runtime.errors import RuntimeFault
from runtime.process import ChildSpec
from store.blobs import Blob
from store.run_creation import MountSource


@dataclass(frozen=True, slots=True)
class ResolvedWorkflow:
    """A workflow that may be started, its values hashed and serialised.

    Attributes:
        settings: what they are at first; None when it declares none.
    """

    workflow_name: str
    workflow_ref: str
    source: SourceIdentity
    mounts: tuple[MountSource, ...]
    snapshot: Blob
    run_input: Blob
    title: str | None
    settings: Blob | None = None


Found: TypeAlias = ResolvedWorkflow | RefusedWorkflow | NotResolved


async def resolve(
    services: Services, project_path: str, workflow: str, run_input: JsonValue
) -> Found:
    """Load and check a workflow in a child of its own, and normalise the input.

    Cancelled: the child is ended; nothing was stored.
    """
    request: JsonObject = {
        "schema": RESOLVE_REQUEST,
        "projectPath": project_path,
        "workflow": workflow,
        "input": run_input,
        "home": str(services.home),
        "originSessionId": None,  # What local clients start belongs to no conversation.
    }
    try:
        frame = encode_frame(request)
    except FrameTooLarge:
        text = "the input is too large: 1 MiB at most; put it into a file and give its path."
        return RefusedWorkflow(ErrorCode.INPUT_REJECTED, text)
    answer = await ask_resolver(services, project_path, frame)
    if not isinstance(answer, dict):
        return answer
    try:
        return _parse(answer)
    except (KeyError, TypeError, ValueError) as error:
        return unusable(error)


async def ask_resolver(
    services: Services, project_path: str, frame: bytes
) -> JsonObject | RefusedWorkflow | NotResolved:
    """Ask a child of its own one question about a workflow; return its answer, or why none came.

    Cancelled: the child is ended; nothing was stored.
    """
    marker = f"resolver-{services.world.ids.new_uuid()}"
    spec = ChildSpec.of_module(
        RESOLVER_MODULE, cwd=project_path, env=child_environment(), marker=marker
    )
    try:
        child = await services.spawner.spawn(spec)
    except RuntimeFault as fault:
        return NotResolved(str(fault), was_started=False)
    try:
        services.processes.add(child.identity, marker)
        return await ask_child(child, frame)
    finally:
        await child.stop()
        services.processes.remove(child.identity)


def _mount(mount: JsonObject) -> MountSource:
    return MountSource(cast("str", mount["mountPath"]), SourceIdentity.parse(mount))


def _parse(answer: JsonObject) -> Found:
    if answer["outcome"] == "refused":
        return RefusedWorkflow(
            cast("str", answer["code"]),
            cast("str", answer["message"]),
            cast("str | None", answer.get("detail")),
        )
    return ResolvedWorkflow(
        cast("str", answer["workflowName"]),
        cast("str", answer["workflowRef"]),
        SourceIdentity.parse(cast("JsonObject", answer["source"])),
        tuple(_mount(mount) for mount in cast("list[JsonObject]", answer["mounts"])),
        Blob.of_json(answer["definitionSnapshot"]),
        Blob.of_json(answer["input"]),
        cast("str | None", answer.get("title")),
        Blob.of_json(answer["settings"]) if "settings" in answer else None,
    )
