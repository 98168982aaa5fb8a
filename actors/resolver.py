"""Ask a resolver child what a workflow file is: user code is loaded there, never in the server."""

from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import trio

from actors.services import Services
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import (
    FrameError,
    FrameTooLarge,
    encode_frame,
    parse_canonical,
)
from pi_workflows.protocol.sources import SourceIdentity
from pi_workflows.protocol.version import RESOLVE_LOADING, RESOLVE_REQUEST
from runtime.child_environment import child_environment
from runtime.errors import RuntimeFault
from runtime.line_stream import LineStream
from runtime.process import Child, ChildSpec, ExitStatus
from store.blobs import Blob
from store.run_creation import MountSource

RESOLVE_S: Final = 60.0
"""Bound of loading, validating and titling; a title callback has its own 30 s inside."""

RESOLVER_MODULE: Final = "pi_workflows.runner.resolver"
_TAIL_CHARS: Final = 2_000


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


@dataclass(frozen=True, slots=True)
class RefusedWorkflow:
    """A workflow that may not be started.

    Attributes:
        detail: traceback for `--debug`; None when there is none.
    """

    code: str
    message: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class NotResolved:
    """Nothing was found out about the workflow; asked again, the same request may do better.

    Attributes:
        detail: the last words of the child; None when there are none.
        was_started: False when there never was a child.
    """

    message: str
    detail: str | None = None
    was_started: bool = True


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
        return RefusedWorkflow(ErrorCode.INPUT_REJECTED, "the input is too large: 1 MiB at most.")
    answer = await ask_resolver(services, project_path, frame)
    if not isinstance(answer, dict):
        return answer
    try:
        return _parse(answer)
    except (KeyError, TypeError, ValueError) as error:
        return _unusable(error)


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
        return await _ask(child, frame)
    finally:
        await child.stop()
        services.processes.remove(child.identity)


async def _ask(child: Child, request: bytes) -> JsonObject | RefusedWorkflow | NotResolved:
    lines = LineStream(child.stream)
    is_loading = False
    with trio.move_on_after(RESOLVE_S):
        try:
            await lines.send(request)
            answer = await _next(lines)
            if answer == {"outcome": RESOLVE_LOADING}:
                is_loading = True
                answer = await _next(lines)
            if answer is not None:
                return answer
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # As at the end of the stream: how the child ended says more.
        except FrameError as error:
            return _unusable(error)
        return _ended(child, await child.wait(), is_loading=is_loading)
    return NotResolved(
        f"loading the workflow took longer than {RESOLVE_S:g} s; import less at module level."
    )


def _unusable(error: Exception) -> NotResolved:
    return NotResolved(f"the resolver's answer is unusable: {error}")


async def _next(lines: LineStream) -> JsonObject | None:
    line = await lines.receive()
    return None if line is None else parse_canonical(line)


def _ended(child: Child, status: ExitStatus, *, is_loading: bool) -> RefusedWorkflow | NotResolved:
    """Say what an end without an answer means: whose code ran when it came?"""
    tail = child.output_tail()[-_TAIL_CHARS:] or None
    how = f"exit code {status.code}" if status.signal is None else f"signal {status.signal}"
    if not is_loading:
        return NotResolved(
            f"the process that loads the workflow ended without an answer ({how})", tail
        )
    return RefusedWorkflow(
        ErrorCode.SOURCE_FAILED,
        f"the workflow file ends the interpreter when it is loaded ({how}).",
        tail,
    )


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
