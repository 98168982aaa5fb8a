"""Errors of checks and actors in one line each."""

import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LOOPLESS: Final = frozenset({"must be called from async context", "no running event loop"})
"""What trio and asyncio say when they are used without their loop."""

_NAMED: Final = re.compile(r"\w+: (P\d+): ")

_LIBRARIES: Final = ("site-packages", "asyncio")


def one_line(error: BaseException) -> str:
    """Return an error in one line; an assertion without words is its own line of code."""
    text = str(error).split("\n", 1)[0].strip()
    if isinstance(error, AssertionError):
        return text or _source(error) or "does not hold"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def promise_of(complaint: str, promises: Sequence[str], check: str) -> str:
    """Return which promise is broken: the one the complaint begins with, else all, else the check.

    Args:
        complaint: "CHECK: P3: what does not hold", or without a promise.
        promises: that the scenario names.
    """
    named = _NAMED.match(complaint)
    return named[1] if named else ", ".join(promises) or check


def is_about_a_loop(error: BaseException) -> bool:
    """Say whether code has failed because it waited for something of an event loop."""
    return isinstance(error, RuntimeError) and str(error) in _LOOPLESS


def place_of(error: BaseException) -> str:
    """Return `FILE:LINE` of the code that has failed, libraries aside."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not set(_LIBRARIES) & set(Path(each.filename).parts)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else "?"


def _source(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return (frames[-1].line or "").strip() if frames else ""
