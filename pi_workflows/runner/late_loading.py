"""Says where a workflow file is that does not come back while it is loaded."""

import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.sources import loading_too_long
from pi_workflows.runner.messages import bounded_text

_OURS: Final = (str(Path(__file__).parents[1]), sys.base_prefix, sys.prefix, "<")


def watch(bound_s: float, answer: Callable[[JsonObject], None]) -> None:
    """Answer for the calling thread when it is still at it after so long.

    Args:
        bound_s: in seconds.
        answer: is called in another thread, with the outcome `unknown` as `inspection` has it.
    """
    watched = threading.get_ident()

    def tell() -> None:
        frames = sys._current_frames()  # noqa: SLF001 - the one way
        answer(late_answer(bound_s, frames.get(watched)))

    timer = threading.Timer(bound_s, tell)
    timer.daemon = True
    timer.start()


def late_answer(bound_s: float, innermost: FrameType | None) -> JsonObject:
    """Return the answer, with the author's line and all frames from the author's first one on."""
    problem: JsonObject = {
        "code": str(ErrorCode.RESOLVER_FAILED),
        "message": loading_too_long(bound_s),
    }
    found: JsonObject = {"outcome": "unknown", "problems": [problem]}
    frames = list(traceback.walk_stack(innermost)) if innermost is not None else []
    theirs = [index for index, (frame, _) in enumerate(frames) if _is_theirs(frame)]
    if theirs:
        frame, line = frames[theirs[0]]
        problem |= {"file": frame.f_code.co_filename, "line": line}
        shown = reversed(frames[: theirs[-1] + 1])
        lines = traceback.StackSummary.extract(shown).format()
        found["detail"] = bounded_text("".join(["It is here:\n", *lines]))
    return found


def _is_theirs(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith(_OURS)
