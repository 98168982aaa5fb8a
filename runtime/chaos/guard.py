"""Keeps the outside out of an actor: real time, chance, threads and sockets are refused there.

An actor that reads the clock of the machine or draws a number of its own behaves differently when
its exploration is repeated. So while an actor runs, and only then, these functions raise.
"""

import os
import random
import secrets
import socket
import sys
import sysconfig
import threading
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, ModuleType, TracebackType
from typing import Final, Self, final

from runtime.chaos.outcome import ScenarioRefused

_REMEDY: Final = {
    "time": "use the handle's now_ms",
    "sleep": "await the handle's sleep",
    "random": "use the handle's choose",
    "thread": "declare another actor",
    "socket": "use the scene's outside",
}

_HARMLESS: Final = frozenset({"coverage", "hypothesis", "logging", "trio", "warnings"})
"""Packages that look at the clock or draw for themselves: it changes nothing an actor does."""

_LIBRARIES: Final = tuple(
    {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
)

_FORBIDDEN: Final[tuple[tuple[ModuleType | type, str, str], ...]] = (
    *((time, name, "time") for name in ("time", "time_ns", "monotonic", "monotonic_ns")),
    *((time, name, "time") for name in ("perf_counter", "perf_counter_ns")),
    (time, "sleep", "sleep"),
    *((random, name, "random") for name in ("random", "randint", "randrange", "choice")),
    *((random, name, "random") for name in ("shuffle", "uniform", "sample", "getrandbits")),
    (os, "urandom", "random"),
    *((secrets, name, "random") for name in ("token_bytes", "token_hex", "randbelow")),
    *((uuid, name, "random") for name in ("uuid4", "uuid1")),
    (threading.Thread, "start", "thread"),
    *((socket, name, "socket") for name in ("create_connection", "create_server", "socketpair")),
    (socket.socket, "connect", "socket"),
    (socket.socket, "bind", "socket"),
)


@final
class Guard:
    """Refuses the outside while an actor runs; a context manager, entered for every step.

    The functions are replaced once by `installed` and look at a flag, so that entering costs
    next to nothing. What an engine does for an actor runs while the flag is down.

    Attributes:
        refusal: the first refusal, also when the actor has caught it; None while there is none.
    """

    def __init__(self) -> None:
        self._is_up = False
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
        real = [(owner, name, getattr(owner, name)) for owner, name, _ in _FORBIDDEN]
        try:
            for owner, name, kind in _FORBIDDEN:
                setattr(owner, name, self._watched(owner, name, kind))
            yield
        finally:
            for owner, name, function in real:
                setattr(owner, name, function)

    def _watched(self, owner: ModuleType | type, name: str, kind: str) -> Callable[..., object]:
        function: Callable[..., object] = getattr(owner, name)

        def watched(*args: object, **kwargs: object) -> object:
            if self._is_up:
                caller = sys._getframe(1)  # noqa: SLF001 - the line is the point of the refusal
                if caller.f_globals.get("__name__", "").partition(".")[0] not in _HARMLESS:
                    raise self._refused(caller, f"{owner.__name__}.{name}", kind)
            return function(*args, **kwargs)

        return watched

    def _refused(self, caller: FrameType, what: str, kind: str) -> ScenarioRefused:
        refusal = ScenarioRefused(
            f"{_place(caller)}: {what} is not available to an actor; {_REMEDY[kind]}."
        )
        self.refusal = self.refusal or refusal
        return refusal


def _place(caller: FrameType) -> str:
    """Return file and line of whoever has called a library, or the library that nobody called."""
    frame: FrameType | None = caller
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    found = frame or caller
    return f"{found.f_code.co_filename}:{found.f_lineno}"
