"""Child processes: what to start, and what a started one offers."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, Self

import trio

from runtime.identity import ProcessIdentity
from runtime.program import DESCRIPTOR_PLACEHOLDER

OUTPUT_BYTES_MAX: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What to start.

    Attributes:
        argv: Program and arguments; an argument equal to `{fd}` becomes the descriptor's number.
        cwd: Working directory.
        env: The whole environment; `PI_WORKFLOWS_CHILD=<marker>` is added.
        marker: Unguessable text, unique to this child, by which its descendants are found.
        module: The entry module that `argv` runs with nothing but the descriptor; a template may
            run it by a fork. None: only `argv` says what to do.
        output_bytes_max: How much of the end of stdout and stderr together is kept.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    marker: str
    module: str | None = None
    output_bytes_max: int = OUTPUT_BYTES_MAX

    @classmethod
    def of_module(cls, module: str, *, cwd: str, env: Mapping[str, str], marker: str) -> Self:
        """Describe a child that runs one of our entry modules, and nothing of the caller's.

        Args:
            module: takes `--fd N`. The path of `sys.path` that Python adds by itself is left out:
                a file of the project must not win over a module of ours.
        """
        argv = (sys.executable, "-P", "-m", module, "--fd", DESCRIPTOR_PLACEHOLDER)
        return cls(argv=argv, cwd=cwd, env=env, marker=marker, module=module)


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended: one of the two is set, or none when nobody could learn it.

    Only its parent may learn it; a parent that ends before its child takes that along.

    Attributes:
        code: Its exit code; None if a signal ended it.
        signal: The number of the signal that ended it; None if it exited.
    """

    code: int | None
    signal: int | None

    @classmethod
    def from_returncode(cls, returncode: int) -> Self:
        """Translate `subprocess`'s convention, where a negative number is a signal."""
        return cls(None, -returncode) if returncode < 0 else cls(returncode, None)


UNKNOWN_EXIT: Final = ExitStatus(None, None)
"""The process has ended; how, its parent has taken along."""


class Child(Protocol):
    """A started child. Whoever spawned it calls `stop` in the end, also after it has exited."""

    @property
    def pid(self) -> int:
        """Its process id, which is its process group's and session's id too."""
        ...

    @property
    def identity(self) -> ProcessIdentity:
        """Who it is, across reuse of its process id."""
        ...

    @property
    def stream(self) -> trio.abc.Stream:
        """Our end of the socket pair; end of file when the child has closed its end."""
        ...

    def output_tail(self) -> str:
        """Return the last part of what it printed to stdout and stderr."""
        ...

    async def wait(self) -> ExitStatus:
        """Wait for its end and that of its session; every call returns the same status.

        What it has left in its session is killed as soon as it ends, before it is reaped.
        """
        ...

    async def stop(self, grace_s: float = 2.0) -> ExitStatus:
        """End it and everything left of its session; shielded and bounded.

        SIGTERM to its group, at most `grace_s` seconds, SIGKILL to the group; at its end SIGKILL
        to what is left of its session. Closes the stream and stops reading its output.

        Raises:
            ProcessesSurvived: Something killed did not end in time, or could not be killed; also
                when `wait` has already returned.
        """
        ...


class Spawner(Protocol):
    """Starts children: by exec, or by a fork of a warm template."""

    async def spawn(self, spec: ChildSpec) -> Child:
        """Start a child. Cancelled: nothing was started, or it has been ended again.

        Raises:
            SpawnFailed: It could not be started; nothing is left behind.
        """
        ...
