"""What a runner may take of the machine, set before any user code runs."""

import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

MEMORY_VARIABLE: Final = "PI_WORKFLOWS_RUNNER_MEMORY_MIB"
FILES_VARIABLE: Final = "PI_WORKFLOWS_RUNNER_FILES"

MEMORY_MIB_MIN: Final = 128
"""Less address space does not hold the interpreter with what every runner imports."""

FILES_MIN: Final = 32
FILES_DEFAULT: Final = 4_096
"""Soft limit when nobody says anything; user code may raise it."""

_MEMORY_MIB_MAX: Final = 1 << 24


class LimitInvalid(ValueError):
    """A variable holds no number, or one out of bounds; the text names both."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a runner and, each for itself, of every process that it starts.

    Attributes:
        memory_mib: address space; None sets no limit, which is the default: much software
            reserves far more than it uses.
        files: open files; None sets the soft limit to `FILES_DEFAULT`.
    """

    memory_mib: int | None = None
    files: int | None = None

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Read the two variables.

        Raises:
            LimitInvalid: one of them is set to something else than a number in its bounds.
        """
        return cls(
            _number(environment, MEMORY_VARIABLE, MEMORY_MIB_MIN, _MEMORY_MIB_MAX),
            _number(environment, FILES_VARIABLE, FILES_MIN, 1 << 30),
        )

    def apply(self) -> None:
        """Limit this process, as far as the system lets it; never beyond what it has."""
        if self.memory_mib is not None and sys.platform != "darwin":  # macOS refuses RLIMIT_AS.
            _limit(resource.RLIMIT_AS, self.memory_mib * 1024 * 1024)
        if self.files is not None:
            _limit(resource.RLIMIT_NOFILE, self.files)
        else:
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            soft = _least(FILES_DEFAULT, hard)
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _limit(what: int, value: int) -> None:
    """Set both limits: what is set on purpose cannot be raised again."""
    _, hard = resource.getrlimit(what)
    least = _least(value, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(what, (least, least))


def _least(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _number(environment: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = environment.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise LimitInvalid(f"{name} must be a number from {least} to {most}, not {text!r}")
    return int(text)
