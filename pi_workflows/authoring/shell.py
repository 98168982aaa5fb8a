"""What a shell node runs, and what came of it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Final

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from pi_workflows.authoring.budgets import budget_ms

OUTPUT_CHARS_DEFAULT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Command:
    """One command line.

    Attributes:
        command: the program, looked up on PATH; with `shell`, a shell command line.
        args: arguments, each passed as it is; with `shell`, the shell's `$0`, `$1`, ….
        cwd: working directory, relative to the project; None is the project folder.
        env: merged over the runner's environment.
        stdin: text for standard input; None is an empty input.
        shell: run `command` by `/bin/sh -c`.
        timeout: seconds or a timedelta after which the command is ended and the node fails,
            whatever it prints; None leaves it to the node's own deadline, which ends the node
            `timed_out`.

    Raises:
        TypeError: `command` or an argument is not text, `args` is one text, or `timeout` is no
            duration.
        ValueError: `timeout` is not above 0 or not finite.
    """

    command: str
    args: Sequence[str] = ()
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    shell: bool = False
    timeout: float | timedelta | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.command, str):
            raise TypeError("Command(command=...) is text")
        if isinstance(self.args, str) or not all(isinstance(arg, str) for arg in self.args):
            raise TypeError("Command(args=[...]) is a list of texts")
        budget_ms(self.timeout)

    @property
    def timeout_ms(self) -> int | None:
        """The timeout in milliseconds; None is unlimited."""
        return budget_ms(self.timeout)


@dataclass(frozen=True, slots=True)
class ShellResult:
    """How a command ended; stored with camelCase names.

    Attributes:
        stdout: decoded output, cut at the node's `max_output_chars`.
        stderr: the same for standard error.
        exit_code: None when a signal ended the command.
        signal: `SIGKILL`, …; None when the command exited.
        duration_ms: from start to end, monotonic.
        stdout_truncated: whether `stdout` was cut.
        stderr_truncated: whether `stderr` was cut.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True
    )

    stdout: str
    stderr: str
    exit_code: int | None
    signal: str | None
    duration_ms: int
    stdout_truncated: bool = False
    stderr_truncated: bool = False
