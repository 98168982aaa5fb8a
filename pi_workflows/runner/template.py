"""Runner template: `python -P -m pi_workflows.runner.template --fd N`.

A warm process that does nothing but fork. It has imported what every runner and resolver child
imports, so a child is there in milliseconds. What makes a fork of it safe:

- it has one thread, runs no trio loop and has no database open, and never comes to have them;
- a child starts from the main frame of the process, closes every descriptor but its own, and
  never comes back into this code.

When nobody waits it forks spares, which become the next children.

It belongs to one server: it ends when that closes its end of the socket, and its spares with it. A
child that it has forked lives on by its own socket. Children are reaped when the server asks for
it, so until then their numbers name nobody else.
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
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from pi_workflows.runner.entry import EXIT_DONE
from pi_workflows.runner.exec_strings import ExecString, StringTooLong
from pi_workflows.runner.forked import Child, Entry, Role, Shown, Spare, hand_over
from pi_workflows.runner.warming import exercise

MODULE: Final = "pi_workflows.runner.template"

_RECEIVE_BYTES: Final = 65_536
_DESCRIPTORS_MAX: Final = 64

SPARES: Final = 2
"""A run that is started takes a resolver and, right after it, a runner."""

QUIET_MS: Final = 50
"""How long nobody must have asked before a spare is forked: its exercise would take the processor
from the child that was asked for last."""


@dataclass(frozen=True, slots=True)
class Warmth:
    """What a template has in memory.

    Attributes:
        entries: what a child may run, and the module whose `main` does it.
        later: imported when nobody waits.
        exercise: what a spare does ahead; None has no spares.
    """

    entries: Mapping[str, str]
    later: tuple[str, ...] = ()
    exercise: Callable[[], None] | None = None


WARMTH: Final = Warmth(
    {
        "pi_workflows.runner": "pi_workflows.runner.__main__",
        "pi_workflows.runner.resolver": "pi_workflows.runner.resolver",
    },
    later=("trio",),  # Only children with async callbacks need it.
    exercise=exercise,
)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A spare, seen from the template."""

    pid: int
    control: socket.socket

    def end(self) -> None:
        """End it at once; it has run nobody's code."""
        self.control.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Template:
    """Answers one request after the other until the server is gone."""

    def __init__(self, connection: socket.socket, warmth: Warmth) -> None:
        """Serve on `connection`.

        Raises:
            LookupError: this process was not started as the template that it is.
        """
        self._connection: Final = connection
        self._entries: Final = {name: _entry(at) for name, at in warmth.entries.items()}
        self._later: Final = list(warmth.later)
        self._exercise: Final = warmth.exercise
        self._shown: Final = Shown(
            ExecString.of_setting(MARKER_VARIABLE), ExecString.of_argument(MODULE)
        )
        self._null: Final = os.open(os.devnull, os.O_RDWR)
        self._descriptors: list[int] = []
        self._spares: Final[deque[_Waiting]] = deque()

    def serve(self) -> Role | None:
        """Answer until the end of the stream; return None then.

        It returns in each forked process, too, with what that is for.

        Raises:
            FrameError: what came is no request.
            OSError: the server is gone in the middle of an answer.
        """
        decoder = FrameDecoder()
        self._answer(Ready(frozenset(self._entries)))
        while True:
            role = self._work_ahead()
            if role is not None:
                return role
            data, descriptors, _, _ = socket.recv_fds(
                self._connection, _RECEIVE_BYTES, _DESCRIPTORS_MAX
            )
            if not data:
                return None
            self._descriptors.extend(descriptors)
            for line in decoder.feed(data):
                role = self._meet(parse_request(line))
                if role is not None:
                    return role

    def end(self) -> None:
        """End what waits here."""
        for spare in self._spares:
            spare.end()

    def _work_ahead(self) -> Role | None:
        """Do what is not needed yet, piece by piece, until a request has come."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        while self._later and not poll.poll(0):
            importlib.import_module(self._later.pop(0))
            freeze()
        exercise = self._exercise
        if exercise is None or len(self._spares) == SPARES or poll.poll(QUIET_MS):
            return None
        while len(self._spares) < SPARES and not poll.poll(0):
            role = self._fork_spare(exercise)
            if role is not None:
                return role
        return None

    def _fork_spare(self, exercise: Callable[[], None]) -> Role | None:
        """Fork a spare; what is returned is returned in the spare only."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            self._forget(ours)
            return Spare(self._entries, self._shown, self._null, theirs.detach(), exercise)
        theirs.close()
        self._spares.append(_Waiting(pid, ours))
        return None

    def _forget(self, *sockets: socket.socket) -> None:
        """In a forked process: have no object close what is closed by its number.

        All numbers but its own are closed there; an object that did so later on would close
        whatever has the number then.
        """
        for one in (*sockets, self._connection, *(spare.control for spare in self._spares)):
            one.detach()

    def _meet(self, request: Request) -> Role | None:
        match request:
            case Reap(pid):
                self._answer(_reap(pid))
                return None
            case Fork():
                return self._fork(request)

    def _fork(self, request: Fork) -> Role | None:
        """Have a child and answer; what is returned is returned in the child only."""
        given = self._descriptors[:FORK_DESCRIPTORS]
        del self._descriptors[:FORK_DESCRIPTORS]
        try:
            # All that can fail is done before the fork, here, and undone below. So a child has
            # its own directory and is known by its own marker from its first moment on.
            os.chdir(request.cwd)
            self._shown.show(request)
            pid = self._give_to_spare(request, given) or os.fork()
        except (OSError, StringTooLong) as error:
            answer: Answer = Refused(str(error))
            watch = None
        else:
            if pid == 0:
                self._forget()
                connection, output = given
                entry = self._entries[request.module]
                return Child(request, entry, self._null, connection, output)
            answer, watch = _watched(pid)
        self._shown.restore()
        os.chdir("/")
        for descriptor in given:
            os.close(descriptor)
        self._answer(answer, watch)
        return None

    def _give_to_spare(self, request: Fork, given: Sequence[int]) -> int | None:
        """Let the spare become the child, in the folder that is the current one.

        Returns:
            Its process id; None when there is no spare, or none any more.
        """
        if not self._spares:
            return None
        spare = self._spares.popleft()
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY)
        try:
            hand_over(spare.control, request, [*given, folder])
        except OSError:
            spare.end()
            return None
        finally:
            os.close(folder)
        spare.control.close()
        return spare.pid

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


def _entry(module: str) -> Entry:
    spec = find_spec(module)
    assert spec is not None
    return Entry(importlib.import_module(module).main, spec)


def freeze() -> None:
    """Keep what is there out of every later collection: it would copy the pages in each child."""
    gc.collect()
    gc.freeze()


def main(arguments: Sequence[str], warmth: Warmth = WARMTH) -> NoReturn:
    """Serve until the server is gone; in a forked process, live for what that is for.

    Args:
        arguments: `--fd N`, the inherited end of the socket pair.
        warmth: what it is to be a template of.
    """
    parser = argparse.ArgumentParser(prog=MODULE)
    parser.add_argument("--fd", type=int, required=True)
    connection = socket.socket(fileno=parser.parse_args(arguments).fd)
    connection.set_inheritable(False)
    template = Template(connection, warmth)
    freeze()
    role = None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        role = template.serve()
    if role is not None:
        role.live()
    template.end()
    os._exit(EXIT_DONE)


if __name__ == "__main__":
    main(sys.argv[1:])
