"""How an exception of author code is told: `TypeName: text (file.py:LINE)`, never a traceback."""

import traceback
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from pi_workflows.authoring.broken_models import told_without_values
from pi_workflows.authoring.retry import RetryLater
from pi_workflows.runner.messages import ERROR_CHARS_MAX, bounded_text

_OUR_PACKAGE: Final = str(Path(__file__).resolve().parent.parent)
_PLACE_CHARS: Final = 300

_ASYNCIO_SAYS: Final = "no running event loop"
_TRIO_HINT: Final = (
    " (async nodes run under trio, not asyncio: use trio.sleep, trio.run_process, …)"
)


def describe(error: BaseException, source_directory: Path | None) -> str:
    """Return one bounded text for an exception that author code raised.

    Args:
        error: a group with a single member is told as that member.
        source_directory: where the workflow's files are; the innermost frame there is named,
            else the innermost that is not the engine's, else none.
    """
    error = _single(error)
    place = _place(error, source_directory)
    told = bounded_text(_told(error), ERROR_CHARS_MAX - len(place))
    return told + place


def wanted_wait_ms(error: BaseException) -> int | None:
    """Return how long author code wants to wait before its next try; None when it says nothing."""
    error = _single(error)
    return error.after_ms if isinstance(error, RetryLater) else None


def _single(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _told(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, ValidationError):
        return f"{name}: {told_without_values(error)}"
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an author's __str__ may fail too
        text = "(its text cannot be shown)"
    if not text or text.startswith(f"{name} [") or isinstance(error, RetryLater):
        return text or name
    hint = _TRIO_HINT if type(error) is RuntimeError and text == _ASYNCIO_SAYS else ""
    return f"{name}: {text}{hint}"


def _place(error: BaseException, source_directory: Path | None) -> str:
    root = None if source_directory is None else f"{source_directory}/"
    theirs = in_source = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith(_OUR_PACKAGE):
            continue
        theirs = (file, line)
        if root is not None and file.startswith(root) and "site-packages" not in file:
            in_source = theirs
    found = in_source or theirs
    if found is None:
        return ""
    return f" ({Path(found[0]).name}:{found[1]})"[:_PLACE_CHARS]
