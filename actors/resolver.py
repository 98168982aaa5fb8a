"""Ask a resolver child what a workflow file is: user code is loaded there, never in the server."""

import sys
from dataclasses import dataclass
from typing import Final, cast

import trio

from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import FrameError, encode_frame, parse_canonical
from pi_workflows.protocol.version import RESOLVE_REQUEST
from runtime.errors import RuntimeFault
from runtime.line_stream import LineStream
from runtime.process import DESCRIPTOR_PLACEHOLDER, Child, ChildSpec, child_environment
from store.blobs import Blob

RESOLVE_S: Final = 60.0
"""Bound of loading, validating and titling; a title callback has its own 30 s inside."""

RESOLVER_MODULE: Final = "pi_workflows.runner.resolver"
_TAIL_CHARS: Final = 2_000


@dataclass(frozen=True, slots=True)
class ResolvedWorkflow:
    """A workflow that may be started, its values hashed and serialised."""

    workflow_name: str
    workflow_ref: str
    source_path: str
    source_hash: str
    snapshot: Blob
    run_input: Blob
    title: str | None


@dataclass(frozen=True, slots=True)
class RefusedWorkflow:
    """A workflow that may not be started.

    Attributes:
        detail: traceback for `--debug`; None when there is none.
    """

    code: str
    message: str
    detail: str | None = None


async def resolve(
    services: Services, project_path: str, workflow: str, run_input: JsonValue
) -> ResolvedWorkflow | RefusedWorkflow:
    """Load and check a workflow in a child of its own, and normalise the input.

    Cancelled: the child is ended; nothing was stored.
    """
    marker = f"resolver-{services.world.ids.new_uuid()}"
    spec = ChildSpec(
        argv=(sys.executable, "-P", "-m", RESOLVER_MODULE, "--fd", DESCRIPTOR_PLACEHOLDER),
        cwd=project_path,
        env=child_environment(),
        marker=marker,
    )
    try:
        child = await services.world.spawner.spawn(spec)
    except RuntimeFault as fault:
        return RefusedWorkflow(ErrorCode.RESOLVER_FAILED, str(fault))
    try:
        services.processes.add(child.identity, marker)
        request: JsonObject = {
            "schema": RESOLVE_REQUEST,
            "projectPath": project_path,
            "workflow": workflow,
            "input": run_input,
            "home": str(services.home),
        }
        return await _ask(child, request)
    finally:
        await child.stop()
        services.processes.remove(child.identity)


async def _ask(child: Child, request: JsonObject) -> ResolvedWorkflow | RefusedWorkflow:
    lines = LineStream(child.stream)
    with trio.move_on_after(RESOLVE_S):
        try:
            await lines.send(encode_frame(request))
            line = await lines.receive()
            if line is None:
                await child.wait()
                return _died(child)
            return _parse(parse_canonical(line))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return _died(child)
        except (FrameError, KeyError, TypeError) as error:
            return RefusedWorkflow(
                ErrorCode.RESOLVER_FAILED, f"the resolver's answer is unusable: {error}"
            )
    return RefusedWorkflow(
        ErrorCode.RESOLVER_FAILED,
        f"loading the workflow took longer than {RESOLVE_S:g} s; import less at module level.",
    )


def _died(child: Child) -> RefusedWorkflow:
    tail = child.output_tail()[-_TAIL_CHARS:]
    return RefusedWorkflow(
        ErrorCode.RESOLVER_FAILED,
        "the process that loads the workflow ended without an answer; does the file end the "
        "interpreter when it is imported?",
        tail or None,
    )


def _parse(answer: JsonObject) -> ResolvedWorkflow | RefusedWorkflow:
    if answer["outcome"] == "refused":
        return RefusedWorkflow(
            cast("str", answer["code"]),
            cast("str", answer["message"]),
            cast("str | None", answer.get("detail")),
        )
    source = cast("JsonObject", answer["source"])
    return ResolvedWorkflow(
        cast("str", answer["workflowName"]),
        cast("str", answer["workflowRef"]),
        cast("str", source["path"]),
        cast("str", source["hash"]),
        Blob.of_json(answer["definitionSnapshot"]),
        Blob.of_json(answer["input"]),
        cast("str | None", answer.get("title")),
    )
