"""Keeps the outside out of a scenario: real time, chance, threads, processes and sockets.

Code that reads the clock of the machine or draws a number of its own behaves differently when its
exploration is repeated. So while an actor runs these functions raise, whoever calls them; and as
long as a scenario is explored they raise for the author's own code, wherever it runs: in a
command, in an invariant, while the scenario is declared.

What a file has taken out of a module by name (`from time import sleep`) is replaced in that file
for as long as the exploration takes. Not seen is what lies deeper: in a container, in a class, or
in a library outside the author's folder that has been imported before.
"""

import builtins
import datetime as dt
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self, final

from runtime.chaos.calendar import calendar_stand_ins
from runtime.chaos.forbidden import FORBIDDEN, REMEDY, Forbidden
from runtime.chaos.outcome import ScenarioRefused
from runtime.chaos.own_code import OwnCode, place_of_call

_HARMLESS: Final = frozenset({"coverage", "hypothesis", "logging", "trio", "warnings"})
"""Packages that look at the clock or draw for themselves: it changes nothing an actor does."""

_NOWHERE: Final = "/nowhere/scenario.py"

Function = Callable[..., Any]


@final
class Guard:
    """Refuses the outside while an actor runs; a context manager, entered for every step.

    The functions are replaced by `installed` and look at a flag, so that entering costs next to
    nothing. What an engine does for an actor runs while the flag is down. Other threads are left
    alone: they are the harness's own.

    Attributes:
        own: the author's code.
        refusal: the first refusal, also when the actor has caught it; None while there is none.
    """

    def __init__(self, own: OwnCode | None = None) -> None:
        """Refuse nothing yet.

        Args:
            own: the author's code, which is refused the outside also when no actor runs; None
                knows of none.
        """
        self.own: Final = own or OwnCode(_NOWHERE)
        self._is_up = False
        self._thread = threading.get_ident()
        self._replaced: Final[list[tuple[dict[str, Any], str, object]]] = []
        self._taken_in: Final[dict[int, dict[str, Any]]] = {}
        self.refusal: ScenarioRefused | None = None

    def __enter__(self) -> Self:
        self._is_up = True
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._is_up = False

    @contextmanager
    def installed(self) -> Generator[None]:
        """Replace the functions for the time of an exploration."""
        self._thread = threading.get_ident()
        _plant()
        _INSTALLED.append(self)
        try:
            for module in self.own.modules():
                self._take_in(vars(module))
            yield
        finally:
            for namespace, name, value in reversed(self._replaced):
                namespace[name] = value
            self._replaced.clear()
            self._taken_in.clear()
            _INSTALLED.remove(self)
            if not _INSTALLED:
                _take_out()

    def take_in_file_of(self, function: object) -> None:
        """Take in the file that a function of the author's stands in, loaded in the meantime.

        A function of ours that does nothing but call the author's will do.
        """
        if not inspect.isfunction(function):
            return
        inner = [cell.cell_contents for cell in function.__closure__ or ()]
        for each in filter(inspect.isfunction, [function, *inner]):
            namespace = each.__globals__
            if id(namespace) not in self._taken_in and self.own.holds(each.__code__.co_filename):
                self._take_in(namespace)

    def _take_in(self, namespace: dict[str, Any]) -> None:
        """Replace what a file of the author's has taken out of modules by name.

        It is put back when the exploration is over.
        """
        self._taken_in[id(namespace)] = namespace
        stand_ins = _stand_ins()
        for name, value in list(namespace.items()):
            stand_in = stand_ins.get(id(value))
            if stand_in is not None:
                self._replaced.append((namespace, name, value))
                namespace[name] = stand_in

    def require_allowed(self, caller: FrameType, what: str, kind: str) -> None:
        """Refuse what is called, unless it is called by somebody who may.

        Raises:
            ScenarioRefused: says which line has called.
        """
        if caller.f_globals.get("__name__", "").partition(".")[0] in _HARMLESS:
            return
        if threading.get_ident() != self._thread:
            return
        if self._is_up or self.own.is_behind(caller):
            whom = "an actor" if self._is_up else "a scenario"
            refusal = ScenarioRefused(
                f"{place_of_call(caller)}: {what} is not available to {whom}; {REMEDY[kind]}."
            )
            self.refusal = self.refusal or refusal
            raise refusal


_INSTALLED: Final[list[Guard]] = []
"""The guards of the explorations under way, one within the other; the last one decides."""


def _require_allowed(caller: FrameType, what: str, kind: str) -> None:
    if _INSTALLED:
        _INSTALLED[-1].require_allowed(caller, what, kind)


@final
class _Watched:
    """A function of a module that looks at the guard first.

    No plain function: as an attribute of a class it must stay what it stands for, which a class
    binds to no instance.
    """

    def __init__(self, forbidden: Forbidden, function: Function) -> None:
        functools.update_wrapper(self, function)
        self._forbidden: Final = forbidden
        self._function: Final = function

    def __call__(self, *args: object, **kwargs: object) -> object:
        if _INSTALLED and _asks(self._forbidden, len(args) + len(kwargs)):
            forbidden = self._forbidden
            what = f"{forbidden.owner.__name__}.{forbidden.name}"
            _require_allowed(sys._getframe(1), what, forbidden.kind)  # noqa: SLF001 - for the line
        return self._function(*args, **kwargs)


def _watched_method(forbidden: Forbidden, function: Function) -> Function:
    what = f"{forbidden.owner.__module__}.{forbidden.owner.__name__}"
    what = what if forbidden.name == "__init__" else f"{what}.{forbidden.name}"

    @functools.wraps(function)
    def watched(*args: object, **kwargs: object) -> object:
        if _INSTALLED and _asks(forbidden, len(args) + len(kwargs)):
            _require_allowed(sys._getframe(1), what, forbidden.kind)  # noqa: SLF001 - for the line
        return function(*args, **kwargs)

    return watched


def _asks(forbidden: Forbidden, given: int) -> bool:
    return forbidden.allowed_from is None or given < forbidden.allowed_from


def _stand_in(forbidden: Forbidden, real: Function) -> Function:
    if isinstance(forbidden.owner, type):
        return _watched_method(forbidden, real)
    return _Watched(forbidden, real)


_REAL: Final[list[Function]] = [getattr(it.owner, it.name) for it in FORBIDDEN]
_PLANTED: Final[list[Function]] = [
    _stand_in(forbidden, real) for forbidden, real in zip(FORBIDDEN, _REAL, strict=True)
]


@functools.cache
def _stand_ins() -> dict[int, object]:
    """Return what stands for a function or a class, by the identity of what it stands for."""
    planted = {id(real): it for real, it in zip(_REAL, _PLANTED, strict=True)}
    return planted | {id(real): it for real, it in calendar_stand_ins(_require_allowed)}


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,  # noqa: A002 - its names
    locals: Mapping[str, object] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> object:
    """Import as ever; a function of the author's gets the calendar that knows of no today.

    Not so a file: what it makes of the classes, a model for one, is there longer than a guard.
    """
    module = _REAL_IMPORT(name, globals, locals, fromlist, level)
    if name == dt.__name__ and _INSTALLED:
        code = sys._getframe(1).f_code  # noqa: SLF001 - who imports decides
        if code.co_name != "<module>" and _INSTALLED[-1].own.holds(code.co_filename):
            return _stand_ins()[id(dt)]
    return module


_REAL_IMPORT: Final[Function] = builtins.__import__


def _plant() -> None:
    builtins.__import__ = _import  # type: ignore[assignment]
    for forbidden, stand_in in zip(FORBIDDEN, _PLANTED, strict=True):
        setattr(forbidden.owner, forbidden.name, stand_in)


def _take_out() -> None:
    builtins.__import__ = _REAL_IMPORT
    for forbidden, real in zip(FORBIDDEN, _REAL, strict=True):
        setattr(forbidden.owner, forbidden.name, real)
