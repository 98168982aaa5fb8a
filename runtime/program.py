"""Start a program in a session of its own, with a socket pair and a pipe for what it prints.

Standard library only, and no loop: a template can be started before anything else is imported.
"""

import contextlib
import os
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from pi_workflows.protocol.template import MARKER_VARIABLE

DESCRIPTOR_PLACEHOLDER: Final = "{fd}"
"""An argument that is exactly this becomes the number of the child's end of the socket pair."""


@final
@dataclass(slots=True)
class Program:
    """A program that runs, and our ends of what it was given; somebody ends and reaps it.

    Attributes:
        marker: what it and all it starts carry in their environment.
        socket: our end of the socket pair.
        output: a descriptor; what it prints is read from there.
        is_supervised: somebody else ends and reaps it, and owns our ends.
    """

    process: "subprocess.Popen[bytes]"
    marker: str
    socket: socket.socket
    output: int
    is_supervised: bool = False

    def abandon(self) -> None:
        """End it at once and close our ends, unless it is supervised; idempotent."""
        if self.is_supervised:
            return
        self.is_supervised = True
        self.process.kill()
        self.process.wait()  # it is killed: this ends at once
        self.socket.close()
        os.close(self.output)


def start_program(
    argv: tuple[str, ...], *, cwd: str, env: Mapping[str, str], marker: str
) -> Program:
    """Start a program. It happens at once: no cancellation can lose a started process.

    Raises:
        OSError: there are no descriptors, or it cannot be run; nothing is left behind.
        ValueError: an argument holds a NUL.
    """
    with contextlib.ExitStack() as undo:
        ours, theirs = socket.socketpair()
        undo.callback(ours.close)
        with theirs:
            output_read, output_write = os.pipe()
            undo.callback(os.close, output_read)
            try:
                process = subprocess.Popen(
                    [
                        str(theirs.fileno()) if part == DESCRIPTOR_PLACEHOLDER else part
                        for part in argv
                    ],
                    cwd=cwd,
                    env={**env, MARKER_VARIABLE: marker},
                    stdin=subprocess.DEVNULL,
                    stdout=output_write,
                    stderr=output_write,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            finally:
                os.close(output_write)
        undo.pop_all()
    return Program(process, marker, ours, output_read)
