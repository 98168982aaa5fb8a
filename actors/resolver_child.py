"""The child that loads a workflow file: what it is asked, and what an end without answer means.

User code runs in it, so it is bounded in time and ended whole, whatever the code does.
"""

from dataclasses import dataclass
from typing import Final

import trio

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import FrameError, parse_canonical
from pi_workflows.protocol.sources import loading_too_long
from pi_workflows.protocol.version import RESOLVE_LOADING
from runtime.line_stream import LineStream
from runtime.process import Child, ExitStatus

RESOLVE_S: Final = 60.0
"""Bound of loading, validating and titling; a title callback has its own 30 s inside."""

RESOLVER_MODULE: Final = "pi_workflows.runner.resolver"
_TAIL_CHARS: Final = 2_000


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


async def ask_child(
    child: Child, request: bytes, bound_s: float = RESOLVE_S
) -> JsonObject | RefusedWorkflow | NotResolved:
    """Send one request and return the answer to it, or what became of the child instead.

    Args:
        bound_s: longest time, in seconds.
    """
    lines = LineStream(child.stream)
    is_loading = False
    with trio.move_on_after(bound_s):
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
            return unusable(error)
        return _ended(child, await child.wait(), is_loading=is_loading)
    return NotResolved(loading_too_long(bound_s))


def unusable(error: Exception) -> NotResolved:
    """Say that what the child answered is no answer."""
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
