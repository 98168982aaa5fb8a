"""Errors of checks and actors in one line each."""

import linecache
import traceback


def one_line(error: BaseException) -> str:
    """Return an error in one line; an assertion without words is its own line of code."""
    text = str(error).split("\n", 1)[0].strip()
    if isinstance(error, AssertionError):
        return text or _source(error) or "does not hold"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _source(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return (frames[-1].line or "").strip() if frames else ""


def place_of(error: BaseException) -> str:
    """Return `FILE:LINE` where an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "?"
    linecache.checkcache(frames[-1].filename)
    return f"{frames[-1].filename}:{frames[-1].lineno}"
