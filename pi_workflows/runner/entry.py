"""What every child of this package does first, and the codes it ends with."""

import argparse
import io
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

EXIT_DONE: Final = 0
"""The server has been told why, or has asked for the end."""

EXIT_CRASHED: Final = 1
EXIT_CLAIM_LOST: Final = 3
EXIT_CHANNEL_LOST: Final = 4


def complain(text: str) -> None:
    """Write to standard error, if there still is one: foreign code may have closed it."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text)


def take_connection(program: str, arguments: Sequence[str]) -> socket.socket:
    """Read `--fd N` and return that end of the socket pair, closed to children of this process.

    Programs do not inherit it, and a child that user code forks (`os.fork`, `multiprocessing`)
    closes it at once: nobody else can write to it, and it ends when this process does. What user
    code prints must not be lost when the process ends at once, so it leaves line by line.
    """
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("--fd", type=int, required=True)
    descriptor: int = parser.parse_args(arguments).fd
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    os.register_at_fork(after_in_child=connection.close)
    return connection
