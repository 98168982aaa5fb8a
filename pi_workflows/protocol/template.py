"""What the server and a runner template say to each other, without I/O.

One request, one answer, in turns, as frames (`pi_workflows.protocol.frames`). Descriptors travel
beside the bytes: with `Fork` the child's end of its socket pair and the write end of its output,
in this order; with `Forked` a pidfd of the child. Before anything is asked the template says
`Ready`.

Paths and environments are bytes to the system and need not be UTF-8: each byte travels as the
character with its number.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import FrameError, encode_frame, parse_canonical

MARKER_VARIABLE: Final = "PI_WORKFLOWS_CHILD"
"""Environment variable by which a child and all it starts are recognised."""

FORK_DESCRIPTORS: Final = 2
"""How many descriptors come with `Fork`."""

_BYTEWISE: Final = "latin-1"


@dataclass(frozen=True, slots=True)
class Fork:
    """Run an entry module in a new child.

    Attributes:
        module: one of those that `Ready` names.
        cwd: its working directory.
        env: its whole environment, the marker included.
        marker: by which its descendants are found; also the value of the marker's variable.
    """

    module: str
    cwd: str
    env: Mapping[str, str]
    marker: str


@dataclass(frozen=True, slots=True)
class Reap:
    """Reap a child that has exited, and say how it did."""

    pid: int


Request: TypeAlias = Fork | Reap


@dataclass(frozen=True, slots=True)
class Ready:
    """The template is warm.

    Attributes:
        modules: entry modules that it can run.
    """

    modules: frozenset[str]


@dataclass(frozen=True, slots=True)
class Forked:
    """The child exists; it is not reaped before `Reap` asks for it."""

    pid: int


@dataclass(frozen=True, slots=True)
class Reaped:
    """How the child ended; exactly one of the two is set, neither if it was no child."""

    code: int | None
    signal: int | None


@dataclass(frozen=True, slots=True)
class Refused:
    """The request cannot be met; nothing was started."""

    reason: str


Answer: TypeAlias = Ready | Forked | Reaped | Refused


def encode_request(request: Request) -> bytes:
    """Return a request as one frame.

    Raises:
        FrameTooLarge: the environment exceeds 1 MiB.
    """
    match request:
        case Fork():
            return encode_frame(
                {
                    "operation": "fork",
                    "module": request.module,
                    "cwd": _text(request.cwd),
                    "env": {_text(name): _text(value) for name, value in request.env.items()},
                    "marker": request.marker,
                }
            )
        case Reap():
            return encode_frame({"operation": "reap", "pid": request.pid})


def parse_request(line: bytes) -> Request:
    """Read a request.

    Raises:
        FrameError: it is none.
    """
    match parse_canonical(line):
        case {
            "operation": "fork",
            "module": str(module),
            "cwd": str(cwd),
            "env": dict(env),
            "marker": str(marker),
        }:
            settings = {_native(name): _native(str(value)) for name, value in env.items()}
            return Fork(module, _native(cwd), settings, marker)
        case {"operation": "reap", "pid": int(pid)} if pid > 1:
            return Reap(pid)
        case _:
            raise FrameError("the template was asked for something it does not know")


def encode_answer(answer: Answer) -> bytes:
    """Return an answer as one frame."""
    return encode_frame(_answer_frame(answer))


def _answer_frame(answer: Answer) -> JsonObject:
    match answer:
        case Ready():
            return {"outcome": "ready", "modules": [*sorted(answer.modules)]}
        case Forked():
            return {"outcome": "forked", "pid": answer.pid}
        case Reaped():
            return {"outcome": "reaped", "code": answer.code, "signal": answer.signal}
        case Refused():
            return {"outcome": "refused", "reason": _text(answer.reason)}


def parse_answer(line: bytes) -> Answer:
    """Read an answer.

    Raises:
        FrameError: it is none.
    """
    match parse_canonical(line):
        case {"outcome": "ready", "modules": list(modules)}:
            return Ready(frozenset(str(module) for module in modules))
        case {"outcome": "forked", "pid": int(pid)} if pid > 1:
            return Forked(pid)
        case {"outcome": "reaped", "code": int() | None as code, "signal": int() | None as number}:
            return Reaped(code, number)
        case {"outcome": "refused", "reason": str(reason)}:
            return Refused(_native(reason))
        case _:
            raise FrameError("the template answered with something unknown")


def _text(native: str) -> str:
    """Return a text of the system as one that every frame can carry."""
    return os.fsencode(native).decode(_BYTEWISE)


def _native(text: str) -> str:
    return os.fsdecode(text.encode(_BYTEWISE))
