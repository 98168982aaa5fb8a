"""Which code is the author's own: the file of a scenario, and what lies beside it.

Neither a library nor the product is, wherever the scenario's file may lie.
"""

import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Final, Self, final

from runtime.chaos.complaints import OURS, frames_of, is_library, one_line, place_of
from runtime.chaos.outcome import Misused, ScenarioRefused

_MACHINERY: Final = tuple(f"{folder}chaos" for folder in OURS)
"""Folders of the harness, without what lies in folders of theirs: shipped scenarios do."""

_IMPORTING: Final = "<frozen importlib"
_METHOD: Final = re.compile(r"\b[A-Z]\w*\.(\w+\(\))")
"""`Plan.actor()`, as Python names it in errors about arguments."""

_NEAR: Final = 0.6
"""How much alike two names are at least, so that one may be meant by the other."""


@final
class OwnCode:
    """The author's own files.

    Attributes:
        file: of the scenario, as an absolute path.
    """

    def __init__(self, file: str | Path, *more: str | Path) -> None:
        """Nothing is looked at.

        Args:
            file: of the scenario; a relative one is one of the working directory.
            more: folders whose files are the author's too.
        """
        path = Path(file).absolute()
        self.file: Final = str(path)
        self._folder: Final = f"{path.parent}/"
        self._below: Final = (self._folder, *(f"{Path(each).absolute()}/" for each in more))
        self._known: Final[dict[str, bool]] = {}

    @classmethod
    def at(cls, place: str, *more: str | Path) -> Self:
        """Return what is the author's own around a place, `FILE:LINE`."""
        return cls(place.rpartition(":")[0] or place, *more)

    def holds(self, file: str) -> bool:
        """Say whether a file, as code objects name it, is the author's own."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = self._holds(file)
        return known

    def _holds(self, file: str) -> bool:
        if file.startswith("<"):
            return False
        # Asked of every module at the beginning of every simulation: quick where it is not so.
        path = file if file.startswith("/") else str(Path(file).absolute())
        if not path.startswith(self._below):
            return False
        if path.rpartition("/")[0] + "/" == self._folder:
            return True
        return not is_library(path) and not path.startswith(OURS)

    def modules(self) -> list[ModuleType]:
        """Return the modules that were loaded from the author's files."""
        return [
            module
            for module in list(sys.modules.values())
            if self.holds(getattr(module, "__file__", None) or "<none>")
        ]

    def is_behind(self, caller: FrameType) -> bool:
        """Say whether the author's code has made a call, through libraries if need be.

        A library that the author's code imports does what it likes while it is imported.
        """
        frame: FrameType | None = caller
        while frame is not None:
            file = frame.f_code.co_filename
            if self.holds(file):
                return True
            if file.startswith(_IMPORTING) or not is_library(file):
                return False
            frame = frame.f_back
        return False

    def require_sound(self, error: BaseException, whose: str) -> None:
        """Refuse the scenario if an error is a mistake in its own file; return if it is not.

        An error that leaves the product is none, nor is an `AssertionError`: it says that a
        promise is broken.

        Args:
            whose: code it is, for the refusal: "the actor worker-0".

        Raises:
            ScenarioRefused: it is a mistake; the text names the line.
        """
        if isinstance(error, ScenarioRefused):
            raise error
        place = self._mistake_at(error)
        if place is not None:
            raise ScenarioRefused(
                f"{place}: {whose} fails by itself: {_said(error)}; mend it there, or let it raise"
                " AssertionError where a promise is broken."
            ) from error

    def require_plain(self, name: str, check: object, answer: object) -> None:
        """Refuse an invariant that returns something: whoever wrote that meant it to fail.

        Raises:
            ScenarioRefused: names the line of the invariant.
        """
        if answer is not None:
            code = getattr(check, "__code__", None)
            place = "" if code is None else f"{code.co_filename}:{code.co_firstlineno}: "
            raise ScenarioRefused(
                f"{place}the invariant {name} returns {answer!r}, which nobody looks at; let it"
                " raise AssertionError where the promise is broken."
            )

    def refusal_of_check(self, name: str, error: Exception) -> ScenarioRefused:
        """Return the refusal of an invariant that has raised something else than it may."""
        if isinstance(error, ScenarioRefused):
            return error
        return ScenarioRefused(
            f"{self._place_of(error)}: the invariant {name} fails by itself:"
            f" {_said(error)}; let it raise AssertionError where the promise is broken, nothing"
            " else."
        )

    def refusal_of_declaring(self, name: str, error: Exception) -> ScenarioRefused:
        """Return the refusal of a scenario whose own function fails."""
        if isinstance(error, ScenarioRefused):
            return error
        return ScenarioRefused(f"{self._place_of(error)}: declaring {name} fails: {_said(error)}.")

    def refusal_of_preparing(self, error: Exception) -> ScenarioRefused:
        """Return the refusal of a scenario one of whose first commands fails."""
        if isinstance(error, ScenarioRefused):
            return error
        return ScenarioRefused(
            f"{self._place_of(error)}: what the scenario prepares fails: {_said(error)}."
        )

    def _place_of(self, error: Exception) -> str:
        """Return the author's innermost line; the innermost of anybody's if the error met none."""
        own = [f"{file}:{line}" for file, line in frames_of(error) if self.holds(file)]
        return own[-1] if own else place_of(error)

    def _mistake_at(self, error: BaseException) -> str | None:
        if isinstance(error, AssertionError):
            return None
        frames = frames_of(error)
        if isinstance(error, Misused):
            frames = [frame for frame in frames if self.holds(frame[0])]
        if not frames or str(Path(frames[-1][0]).absolute()) != self.file:
            return None
        return f"{frames[-1][0]}:{frames[-1][1]}"


def place_of_call(caller: FrameType) -> str:
    """Return `FILE:LINE` of whoever has called a library, or the library that nobody called."""
    found = next(
        (frame for frame in _outward(caller) if not is_library(frame.f_code.co_filename)), caller
    )
    return f"{found.f_code.co_filename}:{found.f_lineno}"


def place_of_declaration() -> str:
    """Return `FILE:LINE` of the code that declares something, seen from what it calls."""
    caller = sys._getframe(1)  # noqa: SLF001 - the line is the point of the refusal
    for frame in _outward(caller):
        file = frame.f_code.co_filename
        if file.rpartition("/")[0] not in _MACHINERY and not is_library(file):
            return f"{file}:{frame.f_lineno}"
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"


def nearest(name: object, known: list[str]) -> str:
    """Return `; did you mean clock_jump?`, or which there are where none is alike."""
    close = difflib.get_close_matches(str(name), known, n=2, cutoff=_NEAR)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are: {', '.join(known)}."


def meant_by(error: BaseException) -> str:
    """Return `; did you mean claim?` if a misspelt name is what an error is about; else ""."""
    if not isinstance(error, AttributeError) or not error.name:
        return ""
    known = [name for name in dir(error.obj) if not name.startswith("_")]
    close = difflib.get_close_matches(error.name, known, n=1, cutoff=_NEAR)
    return f"; did you mean {close[0]}?" if close else ""


def _said(error: BaseException) -> str:
    """Return an error in one line, without the classes of ours that somebody has not named."""
    said = str(error) if isinstance(error, Misused) else one_line(error)
    return _METHOD.sub(r"\1", said) + meant_by(error)


def _outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
