"""What a process does that a template has forked: it becomes a child, at once or when asked to."""

import contextlib
import gc
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from typing import Final, NoReturn, Protocol

from pi_workflows.protocol.frames import FrameDecoder, FrameError
from pi_workflows.protocol.template import Fork, encode_request, parse_request
from pi_workflows.runner.entry import EXIT_CRASHED, EXIT_DONE
from pi_workflows.runner.exec_strings import ExecString

_RECEIVE_BYTES: Final = 65_536
_STANDARD: Final = 3
"""Descriptors below are standard input, output and error."""


class Role(Protocol):
    """What a forked process is for."""

    def live(self) -> NoReturn:
        """Live for it; the process ends here, on every way."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry module: its `main`, and how Python names it."""

    main: Callable[[Sequence[str]], NoReturn]
    spec: ModuleSpec


@dataclass(frozen=True, slots=True)
class Shown:
    """What /proc shows of this process and of each that it forks."""

    marker: ExecString
    module: ExecString

    def show(self, request: Fork) -> None:
        """Show what a child is.

        Raises:
            StringTooLong: it does not fit.
        """
        self.marker.show(request.marker)
        self.module.show(request.module)

    def restore(self) -> None:
        """Show the template again."""
        self.marker.restore()
        self.module.restore()


@dataclass(frozen=True, slots=True)
class Child:
    """A child that knows all it needs; its working directory and what it shows are set already.

    Attributes:
        null, connection, output: its standard input, its end of the socket pair, and where it
            prints.
    """

    request: Fork
    entry: Entry
    null: int
    connection: int
    output: int

    def live(self) -> NoReturn:
        """Run the entry module."""
        try:
            _lead_session(self.null)
            self.become()
        except BaseException:  # noqa: BLE001 - nothing may get back into the template
            _report()
        finally:
            os._exit(EXIT_CRASHED)

    def become(self) -> NoReturn:
        """Run the entry module; this process leads its session already."""
        os.dup2(self.output, 1)
        os.dup2(self.output, 2)
        _close_all_but(self.connection)
        os.environ.clear()
        os.environ.update(self.request.env)
        time.tzset()
        _be_started_as(self.entry.spec)
        arguments = ["--fd", str(self.connection)]
        sys.argv = [self.entry.spec.origin or "", *arguments]
        self.entry.main(arguments)


@dataclass(frozen=True, slots=True)
class Spare:
    """A process that is forked ahead and learns later which child it is.

    Most of what a young fork spends its time on is copying the pages that it writes to. A spare
    has done so when it is needed: it has gone through the motions once.

    Attributes:
        control: where its request comes from, with the descriptors of a child and then its
            working directory; at the end of that stream it ends.
        exercise: the motions; leaves nothing behind that a workflow could see.
    """

    entries: Mapping[str, Entry]
    shown: Shown
    null: int
    control: int
    exercise: Callable[[], None]

    def live(self) -> NoReturn:
        """Exercise, wait for the request, and become the child."""
        try:
            _lead_session(self.null)
            _close_all_but(self.control)
            self.exercise()
            gc.collect()
            control = socket.socket(fileno=self.control)
            request, descriptors = _receive(control)
            if request is None:
                os._exit(EXIT_DONE)
            connection, output, folder = descriptors
            os.fchdir(folder)
            self.shown.show(request)
            control.close()
            entry = self.entries[request.module]
            Child(request, entry, 0, connection, output).become()
        except BaseException:  # noqa: BLE001 - nothing may get back into the template
            _report()
        finally:
            os._exit(EXIT_CRASHED)


def hand_over(control: socket.socket, request: Fork, descriptors: Sequence[int]) -> None:
    """Send a spare its request.

    Raises:
        OSError: it is gone.
    """
    frame = encode_request(request)
    rest = frame[socket.send_fds(control, [frame], descriptors) :]
    # A spare that has the whole request closes its end. To send it nothing more would fail then,
    # and the one who asked would take it for gone and start another child for the same request.
    if rest:
        control.sendall(rest)


def _receive(control: socket.socket) -> tuple[Fork | None, list[int]]:
    decoder = FrameDecoder()
    descriptors: list[int] = []
    while True:
        data, come, _, _ = socket.recv_fds(control, _RECEIVE_BYTES, 3)
        if not data:
            return None, descriptors
        descriptors.extend(come)
        for line in decoder.feed(data):
            request = parse_request(line)
            if not isinstance(request, Fork):
                raise FrameError("a spare was asked for something else")
            return request, descriptors


def _lead_session(null: int) -> None:
    os.setsid()
    os.dup2(null, 0)


def _close_all_but(kept: int) -> None:
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - `Path` would cost as much again
        descriptor = int(entry)
        if descriptor >= _STANDARD and descriptor != kept:
            # The one that read the folder is among them, and is closed already.
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _be_started_as(spec: ModuleSpec) -> None:
    """Make `__main__` say what it would say after `python -m`: multiprocessing reads it."""
    main = sys.modules["__main__"]
    main.__spec__ = spec
    main.__file__ = spec.origin


def _report() -> None:
    sys.stderr.write(traceback.format_exc())
    sys.stderr.flush()
