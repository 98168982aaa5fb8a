"""Many commands at once in one action: what they are, and what came of them (B §2)."""

import enum
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from pi_workflows.authoring.budgets import budget_ms
from pi_workflows.authoring.errors import BatchRefused
from pi_workflows.protocol.version import COMMAND_BATCH_RESULT

ITEMS_MAX: Final = 64
CONCURRENCY_MAX: Final = 8
TIMEOUT_MS_MAX: Final = 3_600_000
OUTPUT_CHARS_MAX: Final = 1_000_000
OUTPUT_CHARS_DEFAULT: Final = 20_000
ERROR_CHARS_MAX: Final = 2_000
"""Longest error text of one item, in characters."""

_ITEM_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


class BatchKind(enum.StrEnum):
    """What the commands of a batch are for, as its updates say."""

    REVIEW = "review"
    CI_WATCH = "ciWatch"
    VERIFICATION = "verification"


class BatchOutcome(enum.StrEnum):
    """How one command of a batch ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timedOut"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommand:
    """One command of a batch; it leads a process group of its own.

    Attributes:
        id: unique in its batch: 1 to 64 of `A-Z a-z 0-9 . _ : -`, beginning with a letter or
            digit.
        command: the program, looked up on PATH.
        args: each passed as it is.
        cwd: absolute path of the working directory.
        timeout: seconds or a timedelta, from 1 ms to one hour; then the group is ended.
        max_output_chars: kept of each stream, 1 to 1,000,000; the rest is cut and flagged.
    """

    id: str
    command: str
    args: Sequence[str] = ()
    cwd: str | os.PathLike[str]
    timeout: float | timedelta
    max_output_chars: int = OUTPUT_CHARS_DEFAULT

    @property
    def timeout_ms(self) -> int:
        """The timeout in milliseconds, at least 1."""
        timeout_ms = budget_ms(self.timeout)
        assert timeout_ms is not None, "checked before the batch begins"
        return timeout_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItemResult:
    """What came of one command; stored with camelCase names.

    Attributes:
        exit_code: None when a signal ended it, or it never ran.
        signal: `SIGKILL`, …; None when it exited, or never ran.
        duration_ms: from start to end, monotonic; 0 when it never ran.
        stdout: decoded output, cut at the command's `max_output_chars`.
        stderr: the same for standard error.
        error: at most 2,000 characters; None exactly when it succeeded.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True
    )

    id: str
    outcome: BatchOutcome
    exit_code: int | None = None
    signal: str | None = None
    duration_ms: int = 0
    stdout: str = ""
    stderr: str = ""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandBatchResult:
    """What came of a batch, `pi-workflows.command-batch-result.v1`.

    Attributes:
        items: one per command, in the order in which they were given.
    """

    items: tuple[BatchItemResult, ...]
    schema: Literal["pi-workflows.command-batch-result.v1"] = COMMAND_BATCH_RESULT

    @property
    def succeeded(self) -> bool:
        """True when every command succeeded; of none, too."""
        return all(item.outcome is BatchOutcome.SUCCEEDED for item in self.items)


def check_batch(commands: object, kind: object, concurrency: object) -> None:
    """Check a whole batch, so that nothing starts of a wrong one.

    Raises:
        BatchRefused: names the first broken rule and the item.
    """
    if kind not in list(BatchKind):
        names = ", ".join(f'"{known}"' for known in BatchKind)
        raise BatchRefused(f"kind is one of {names}")
    if not _whole(concurrency, CONCURRENCY_MAX):
        raise BatchRefused(f"concurrency is a whole number from 1 to {CONCURRENCY_MAX}")
    if not isinstance(commands, Sequence) or isinstance(commands, str | bytes):
        raise BatchRefused("a batch is a list of BatchCommand")
    if len(commands) > ITEMS_MAX:
        raise BatchRefused(f"it has {len(commands)} commands; at most {ITEMS_MAX} are allowed")
    known: set[str] = set()
    for place, command in enumerate(commands, start=1):
        problem = _item_problem(command, known)
        if problem is not None:
            raise BatchRefused(f"command {place}: {problem}")
        known.add(command.id)


def _item_problem(command: object, known: set[str]) -> str | None:
    if not isinstance(command, BatchCommand):
        return f"it is a BatchCommand, not a {type(command).__name__}"
    identity: object = command.id
    if not isinstance(identity, str) or _ITEM_ID.fullmatch(identity) is None:
        return "its id is 1 to 64 of A-Z a-z 0-9 . _ : - and starts with a letter or digit"
    if identity in known:
        return f'its id "{identity}" is taken by an earlier one'
    if not _whole(command.max_output_chars, OUTPUT_CHARS_MAX):
        return f"max_output_chars is a whole number from 1 to {OUTPUT_CHARS_MAX:,}"
    return _line_problem(command.command, command.args, command.cwd) or _timeout_problem(
        command.timeout
    )


def _line_problem(program: object, args: object, cwd: object) -> str | None:
    if not isinstance(program, str) or not program:
        return "command is the name of a program"
    listed = args if isinstance(args, Sequence) and not isinstance(args, str) else [None]
    if not all(isinstance(arg, str) for arg in listed):
        return "args is a list of texts"
    if not isinstance(cwd, str | os.PathLike) or not Path(cwd).is_absolute():
        return "cwd is an absolute path"
    return None


def _timeout_problem(timeout: object) -> str | None:
    try:
        timeout_ms = budget_ms(timeout)
    except (TypeError, ValueError) as error:
        return str(error).removesuffix(".")
    if timeout_ms is None or timeout_ms > TIMEOUT_MS_MAX:
        return "a timeout here is at most one hour"
    return None


def _whole(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
