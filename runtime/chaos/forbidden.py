"""What an actor must not call: it would not come to the same when it is repeated."""

import _thread
import os
import random
import secrets
import select
import signal
import socket
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass
from types import ModuleType
from typing import Final

import trio

REMEDY: Final = {
    "time": "use the handle's now_ms",
    "sleep": "await the handle's sleep",
    "random": "use the handle's choose",
    "thread": "declare another actor",
    "process": "declare another actor",
    "socket": "use the scene's outside",
    "loop": "await only what the handle offers",
}
"""What to do instead, by kind."""


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A function of a module, or a method of a class.

    Attributes:
        kind: of `REMEDY`.
        allowed_from: with so many arguments it asks nobody; None: it always does.
    """

    owner: ModuleType | type
    name: str
    kind: str
    allowed_from: int | None = None


def _all(owner: ModuleType | type, kind: str, *names: str) -> list[Forbidden]:
    """Return those of these names that this system has."""
    return [Forbidden(owner, name, kind) for name in names if hasattr(owner, name)]


_CLOCKS: Final = ("time", "monotonic", "perf_counter", "process_time", "thread_time")

_EVERYBODYS: Final = random._inst  # noqa: SLF001 - whose methods the module's functions are
_DRAWING: Final = tuple(
    name
    for name in random.__all__
    if getattr(getattr(random, name), "__self__", None) is _EVERYBODYS
)

FORBIDDEN: Final[tuple[Forbidden, ...]] = (
    *_all(time, "time", *_CLOCKS, *(f"{name}_ns" for name in _CLOCKS)),
    *_all(time, "time", "clock_gettime", "clock_gettime_ns"),
    *(Forbidden(time, name, "time", 1) for name in ("localtime", "gmtime", "ctime", "asctime")),
    Forbidden(time, "strftime", "time", 2),
    *_all(time, "sleep", "sleep"),
    *_all(threading.Condition, "sleep", "wait"),
    *_all(select, "sleep", "select"),
    *_all(signal, "sleep", "pause", "sigwait", "sigtimedwait"),
    *_all(random, "random", *_DRAWING),
    Forbidden(random.Random, "__init__", "random", 2),  # noqa: S311 - named, not made
    *_all(random.SystemRandom, "random", "random", "getrandbits"),
    *_all(os, "random", "urandom", "getrandom"),
    *_all(secrets, "random", "token_bytes", "token_hex", "token_urlsafe"),
    *_all(secrets, "random", "randbelow", "randbits", "choice"),
    *_all(uuid, "random", "uuid1", "uuid4"),
    *_all(threading.Thread, "thread", "start"),
    *_all(_thread, "thread", "start_new_thread"),
    *_all(os, "process", "fork", "forkpty", "posix_spawn", "posix_spawnp"),
    *_all(os, "process", "system", "execv", "execve"),
    *_all(subprocess.Popen, "process", "__init__"),
    *_all(socket, "socket", "create_connection", "create_server", "socketpair"),
    *_all(socket, "socket", "getaddrinfo", "gethostbyname"),
    *_all(socket.socket, "socket", "__init__", "connect", "bind"),
    *_all(trio, "loop", "run"),
)
