"""Errors of checks and actors in one line each."""

import re
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LOOPLESS: Final = frozenset({"must be called from async context", "no running event loop"})
"""What trio and asyncio say when they are used without their loop."""

PROMISE: Final = re.compile(r"P\d+")
"""A promise of the product: `P3`. What else a finding names is an invariant."""

_NAMED: Final = re.compile(r"(?:[\w-]+(?: failed)?: )?(P\d+): ")

_LIBRARIES: Final = tuple(
    {f"{sysconfig.get_path(kind)}/" for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
)

_PACKAGES: Final = Path(__file__).parents[2]

_GUARD: Final = str(Path(__file__).with_name("guard.py"))

OURS: Final = tuple(
    f"{_PACKAGES / name}/" for name in ("pi_workflows", "runtime", "store", "actors")
)
"""Folders of the product, which may lie among the libraries."""


def one_line(error: BaseException) -> str:
    """Return an error in one line; an assertion without words is its own line of code."""
    text = str(error).split("\n", 1)[0].strip()
    if isinstance(error, AssertionError):
        return text or _source(error) or "does not hold"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def one_line_with_place(error: BaseException) -> str:
    """Return an error in one line, and where it was raised unless it says so on purpose.

    Of the place only the file's name: the same text must come of the same break elsewhere.
    """
    said = one_line(error)
    if isinstance(error, AssertionError) or not (frames := frames_of(error)):
        return said
    return f"{said} ({Path(frames[-1][0]).name}:{frames[-1][1]})"


def promise_of(complaint: str, promises: Sequence[str], check: str) -> str:
    """Return which promise is broken: the one the complaint begins with, else all, else the check.

    Args:
        complaint: "P3: what does not hold", behind "CHECK: " or "ACTOR failed: ", or without a
            promise.
        promises: that the scenario names.
    """
    named = _NAMED.match(complaint)
    return named[1] if named else ", ".join(promises) or check


def is_about_a_loop(error: BaseException) -> bool:
    """Say whether code has failed because it waited for something of an event loop."""
    return isinstance(error, RuntimeError) and str(error) in _LOOPLESS


def place_of(error: BaseException) -> str:
    """Return `FILE:LINE` of the code that has failed, libraries aside."""
    frames = frames_of(error)
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else "?"


def frames_of(error: BaseException) -> list[tuple[str, int]]:
    """Return file and line of each call that has led to an error, libraries aside."""
    return [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_library(frame.f_code.co_filename)
    ]


def is_library(file: str) -> bool:
    """Say whether a file, as code objects name it, is neither the author's nor the product's.

    What the guard puts before functions of libraries belongs to them.
    """
    if file.startswith("<") or file == _GUARD:
        return True
    return file.startswith(_LIBRARIES) and not file.startswith(OURS)


def _source(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return (frames[-1].line or "").strip() if frames else ""
