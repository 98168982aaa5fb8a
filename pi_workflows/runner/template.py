"""Runner template: `python -P -m pi_workflows.runner.template --fd N`.

A warm process that does nothing but fork. It has imported what every runner and resolver child
imports, so a child is there in milliseconds. What makes a fork of it safe:

- it has one thread, runs no trio loop and has no database open, and never comes to have them;
- a child starts from the main frame of the process, closes every descriptor but its own, and
  never comes back into this code.

It belongs to one server: it ends when that closes its end of the socket. A child that it has
forked lives on by its own socket. Children are reaped when the server asks for it, so until then
their numbers name nobody else.
"""

import argparse
import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Final, NoReturn

from pi_workflows.protocol.frames import FrameDecoder
from pi_workflows.protocol.template import (
    FORK_DESCRIPTORS,
    MARKER_VARIABLE,
    Answer,
    Fork,
    Forked,
    Ready,
    Reap,
    Reaped,
    Refused,
    Request,
    encode_answer,
    parse_request,
)
from pi_workflows.runner.entry import EXIT_CRASHED, EXIT_DONE
from pi_workflows.runner.exec_strings import ExecString, StringTooLong

MODULE: Final = "pi_workflows.runner.template"

_RECEIVE_BYTES: Final = 65_536
_DESCRIPTORS_MAX: Final = 64
_STANDARD: Final = 3
"""Descriptors below are standard input, output and error."""


@dataclass(frozen=True, slots=True)
class Warmth:
    """What a template has in memory.

    Attributes:
        entries: what a child may run, and the module whose `main` does it.
        later: imported when nobody waits.
    """

    entries: Mapping[str, str]
    later: tuple[str, ...] = ()


WARMTH: Final = Warmth(
    {
        "pi_workflows.runner": "pi_workflows.runner.__main__",
        "pi_workflows.runner.resolver": "pi_workflows.runner.resolver",
    },
    later=("trio",),  # Only children with async callbacks need it.
)


@dataclass(frozen=True, slots=True)
class _Entry:
    main: Callable[[Sequence[str]], NoReturn]
    spec: ModuleSpec


@dataclass(frozen=True, slots=True)
class _Child:
    """What a forked child is to become.

    Attributes:
        null, connection, output: its standard input, its end of the socket pair, and where it
            prints.
    """

    request: Fork
    entry: _Entry
    null: int
    connection: int
    output: int

    def live(self) -> NoReturn:
        """Run the entry module; the process ends here, on every way."""
        try:
            os.setsid()
            os.dup2(self.null, 0)
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
        except BaseException:  # noqa: BLE001 - nothing may get back into the template
            sys.stderr.write(traceback.format_exc())
            sys.stderr.flush()
        finally:
            os._exit(EXIT_CRASHED)


class Template:
    """Answers one request after the other until the server is gone."""

    def __init__(self, connection: socket.socket, entries: Mapping[str, str]) -> None:
        """Serve on `connection`; see `Warmth` for `entries`.

        Raises:
            LookupError: this process was not started as the template that it is.
        """
        self._connection: Final = connection
        self._entries: Final = {name: _entry(module) for name, module in entries.items()}
        self._marker: Final = ExecString.of_setting(MARKER_VARIABLE)
        self._module: Final = ExecString.of_argument(MODULE)
        self._null: Final = os.open(os.devnull, os.O_RDWR)
        self._descriptors: list[int] = []

    def serve(self, ahead: Generator[None]) -> _Child | None:
        """Answer until the end of the stream; return None then.

        It returns in each forked child, too, with what that is to become.

        Args:
            ahead: is moved on by a piece whenever nobody waits.

        Raises:
            FrameError: what came is no request.
            OSError: the server is gone in the middle of an answer.
        """
        decoder = FrameDecoder()
        self._answer(Ready(frozenset(self._entries)))
        while True:
            self._work_ahead(ahead)
            data, descriptors, _, _ = socket.recv_fds(
                self._connection, _RECEIVE_BYTES, _DESCRIPTORS_MAX
            )
            if not data:
                return None
            self._descriptors.extend(descriptors)
            for line in decoder.feed(data):
                child = self._meet(parse_request(line))
                if child is not None:
                    return child

    def _work_ahead(self, ahead: Generator[None]) -> None:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        while not poll.poll(0):
            try:
                next(ahead)
            except StopIteration:
                return

    def _meet(self, request: Request) -> _Child | None:
        match request:
            case Reap(pid):
                self._answer(_reap(pid))
                return None
            case Fork():
                return self._fork(request)

    def _fork(self, request: Fork) -> _Child | None:
        """Fork and answer; what is returned is returned in the child only."""
        connection, output = self._descriptors[:FORK_DESCRIPTORS]
        del self._descriptors[:FORK_DESCRIPTORS]
        child = _Child(request, self._entries[request.module], self._null, connection, output)
        try:
            pid = self._fork_as(request)
        except (OSError, StringTooLong) as error:
            answer: Answer = Refused(str(error))
            watch = None
        else:
            if pid == 0:
                # Its number is closed with all others. An object that did so later on would close
                # whatever has the number then.
                self._connection.detach()
                return child
            answer, watch = _watched(pid)
        self._marker.restore()
        self._module.restore()
        os.chdir("/")
        os.close(connection)
        os.close(output)
        self._answer(answer, watch)
        return None

    def _fork_as(self, request: Fork) -> int:
        """Fork; return 0 in the child.

        All that can fail is done before, in this process, and undone by the caller. So a child is
        known by its own marker from its first moment on.
        """
        os.chdir(request.cwd)
        self._marker.show(request.marker)
        self._module.show(request.module)
        return os.fork()

    def _answer(self, answer: Answer, descriptor: int | None = None) -> None:
        """Send an answer, and with it a descriptor, which is closed here."""
        frame = encode_answer(answer)
        if descriptor is None:
            self._connection.sendall(frame)
            return
        try:
            # A stream socket takes a few bytes whole; descriptors go with the first of them.
            socket.send_fds(self._connection, [frame], [descriptor])
        finally:
            os.close(descriptor)


def _watched(pid: int) -> tuple[Answer, int | None]:
    """Return the answer for a new child with a pidfd of it, which cannot name anybody else."""
    try:
        return Forked(pid), os.pidfd_open(pid)
    except OSError as error:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return Refused(str(error)), None


def _reap(pid: int) -> Answer:
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError as error:
        return Refused(str(error))
    code = os.waitstatus_to_exitcode(status)
    return Reaped(None, -code) if code < 0 else Reaped(code, None)


def _close_all_but(kept: int) -> None:
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - `Path` would cost as much again
        descriptor = int(entry)
        if descriptor >= _STANDARD and descriptor != kept:
            # The one that read the folder is among them, and is closed already.
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _entry(module: str) -> _Entry:
    spec = find_spec(module)
    assert spec is not None
    return _Entry(importlib.import_module(module).main, spec)


def _be_started_as(spec: ModuleSpec) -> None:
    """Make `__main__` say what it would say after `python -m`: multiprocessing reads it."""
    main = sys.modules["__main__"]
    main.__spec__ = spec
    main.__file__ = spec.origin


def _ahead(modules: Sequence[str]) -> Generator[None]:
    for module in modules:
        importlib.import_module(module)
        yield
    _freeze()


def _freeze() -> None:
    """Keep what is there out of every later collection: it would copy the pages in each child."""
    gc.collect()
    gc.freeze()


def main(arguments: Sequence[str], warmth: Warmth = WARMTH) -> NoReturn:
    """Serve until the server is gone; in a child, live its life.

    Args:
        arguments: `--fd N`, the inherited end of the socket pair.
        warmth: what it is to be a template of.
    """
    parser = argparse.ArgumentParser(prog=MODULE)
    parser.add_argument("--fd", type=int, required=True)
    connection = socket.socket(fileno=parser.parse_args(arguments).fd)
    connection.set_inheritable(False)
    template = Template(connection, warmth.entries)
    _freeze()
    child = None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child = template.serve(_ahead(warmth.later))
    if child is not None:
        child.live()
    os._exit(EXIT_DONE)


if __name__ == "__main__":
    main(sys.argv[1:])
