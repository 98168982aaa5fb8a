"""Begins the command: until it has loaded what it needs, Ctrl-C ends it without a word."""

import os
import signal
from types import FrameType
from typing import Final, NoReturn

INTERRUPTED: Final = 130
"""128 + SIGINT, what a shell expects of an interrupted command."""


def main() -> NoReturn:
    """Entry point of the console script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from pi_workflows.cli.main import main as run  # noqa: PLC0415 - what takes time

    run()


def take_interrupts() -> None:
    """Let an interrupt be a `KeyboardInterrupt` again: from here on somebody catches it."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """End the process at once: nothing was asked, printed or opened yet."""
    del number, frame
    os._exit(INTERRUPTED)
