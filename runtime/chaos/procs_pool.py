"""A pool of real processes that are used again and again, and replaced only after a kill.

- The controller forks one *zygote*, before it opens any database itself. The zygote closes every
  descriptor it has inherited but its own, has one thread, opens nothing, and forks the processes
  of the pool: 3 ms each, with everything imported and with every planted fault in place.
- The zygote is their parent, so a signal means exactly the process it was sent for, and its end
  or its stop is awaited, not guessed.
- Nobody outlives the controller: when its end of the socket closes, the zygote ends the whole
  pool, stopped processes included, and then itself. A process of the pool whose zygote was killed
  finds its own line closed.
- The zygote is in a process group of its own, so that a Ctrl-C is the controller's alone.

Measured against other ways to start a child: a new interpreter with the store in it takes 200 to
400 ms, a fork for every order halves the orders per second.
"""

import gc
import os
import resource
import signal
import socket
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum
from types import TracebackType
from typing import Final, NoReturn, Self, final

from pi_workflows.protocol.canonical import JsonObject
from runtime.chaos.procs_wire import PATIENCE_S, Line, PeerGone

ProcessBody = Callable[[Line], None]
"""What a process of the pool does until its line closes."""

_DESCRIPTORS_MAX: Final = 65_536
_STANDARD: Final = 3  # Input, output and errors are kept.


class PoolBroken(Exception):
    """A process of the pool did what none does: it ended by itself, or hangs. No verdict."""


class _Wish(Enum):
    """What the zygote is asked for."""

    FORK = "fork"
    KILL = "kill"
    STOP = "stop"
    RESUME = "resume"


@final
class PooledProcess:
    """One process of the pool.

    Attributes:
        pid: of a child of the zygote; it stays this process's until `Pool.kill` has returned.
        line: to talk with it.
        is_stopped: True between `Pool.stop` and `Pool.resume`.
        is_gone: True after `Pool.kill`.
    """

    def __init__(self, pid: int, line: Line) -> None:
        self.pid: Final = pid
        self.line: Final = line
        self.is_stopped = False
        self.is_gone = False


@final
class Pool:
    """The controller's end; a context manager, at whose end no process is left."""

    def __init__(self, body: ProcessBody, at_end: Callable[[], None] | None = None) -> None:
        """Fork the zygote. No process is made before it is asked for.

        Args:
            at_end: called by the zygote after it has ended the others, also when the controller
                was killed: what it does must not mind that the controller has done it before.

        Other threads of this process are no obstacle as long as none of them is inside SQLite or
        a lock that `body` needs; the zygote has none of them.
        """
        ours, its = socket.socketpair()
        self._line: Final = Line(ours, patience_s=PATIENCE_S)
        self._members: Final[list[PooledProcess]] = []
        self.forked = 0
        with warnings.catch_warnings():
            # Newer Pythons warn of any thread at all, idle ones included.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._zygote: Final = os.fork()
        if not self._zygote:
            _be_zygote(its, body, at_end)
        its.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """Every process there is now: the zygote's, then those of the pool."""
        return [self._zygote, *(member.pid for member in self._members)]

    def fork(self) -> PooledProcess:
        """Return a new process.

        Raises:
            PoolBroken: the zygote does not answer.
        """
        ours, its = socket.socketpair()
        line = Line(ours, patience_s=PATIENCE_S)
        try:
            with its:
                answer = self._ask_with(its.fileno())
        except PoolBroken:
            line.close()
            raise
        pid = answer["pid"]
        assert isinstance(pid, int), "the zygote answers with a pid"
        member = PooledProcess(pid, line)
        self._members.append(member)
        self.forked += 1
        return member

    def kill(self, member: PooledProcess) -> None:
        """End a process with SIGKILL, where it stands; return when it has ended."""
        self._ask(_Wish.KILL, member)
        self._members.remove(member)
        member.is_gone, member.is_stopped = True, False
        member.line.close()

    def stop(self, member: PooledProcess) -> None:
        """Stop a process with SIGSTOP; return when it stands still."""
        self._ask(_Wish.STOP, member)
        member.is_stopped = True

    def resume(self, member: PooledProcess) -> None:
        """Let a stopped process go on with SIGCONT."""
        self._ask(_Wish.RESUME, member)
        member.is_stopped = False

    def close(self) -> None:
        """End every process; return when none is left."""
        self._line.close()
        os.waitpid(self._zygote, 0)
        for member in self._members:
            member.line.close()
        self._members.clear()

    def _ask(self, wish: _Wish, member: PooledProcess) -> None:
        with _answering():
            self._line.send({"wish": wish.value, "pid": member.pid})
            self._line.receive()

    def _ask_with(self, descriptor: int) -> JsonObject:
        with _answering():
            self._line.send_with({"wish": _Wish.FORK.value}, descriptor)
            return self._line.receive()


@contextmanager
def _answering() -> Generator[None]:
    try:
        yield
    except (PeerGone, TimeoutError) as error:
        raise PoolBroken("the process that starts the others does not answer") from error


def _be_zygote(
    its: socket.socket, body: ProcessBody, at_end: Callable[[], None] | None
) -> NoReturn:
    """Be the zygote until the controller leaves; never returns into what was forked."""
    status = 1
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        # It comes when the controller dies while somebody of this group is stopped.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        _close_all_but(its.fileno())
        # What was inherited is never collected here: its finalizers belong to the controller.
        gc.freeze()
        _Zygote(its, body).serve()
        if at_end is not None:
            at_end()
        status = 0
    finally:
        os._exit(status)


def _close_all_but(kept: int) -> None:
    limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _DESCRIPTORS_MAX)
    os.closerange(_STANDARD, kept)
    os.closerange(kept + 1, limit)


@final
class _Zygote:
    """Forks, signals and awaits, and does nothing else."""

    def __init__(self, its: socket.socket, body: ProcessBody) -> None:
        self._socket: Final = its
        self._line: Final = Line(its)
        self._body: Final = body
        self._pids: Final[set[int]] = set()

    def serve(self) -> None:
        try:
            while True:
                wish, descriptors = self._line.receive_with()
                self._line.send(self._fulfil(wish, descriptors))
        except PeerGone:
            pass
        finally:
            for pid in self._pids:
                os.kill(pid, signal.SIGKILL)
            for pid in self._pids:
                os.waitpid(pid, 0)

    def _fulfil(self, wish: JsonObject, descriptors: list[int]) -> JsonObject:
        if wish["wish"] == _Wish.FORK.value:
            return {"pid": self._fork(descriptors[0])}
        pid = wish["pid"]
        assert isinstance(pid, int), "the controller names a process"
        match _Wish(wish["wish"]):
            case _Wish.KILL:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self._pids.discard(pid)
            case _Wish.STOP:
                os.kill(pid, signal.SIGSTOP)
                os.waitpid(pid, os.WUNTRACED)
            case _:
                os.kill(pid, signal.SIGCONT)
                os.waitpid(pid, os.WCONTINUED)
        return {}

    def _fork(self, descriptor: int) -> int:
        pid = os.fork()
        if pid:
            os.close(descriptor)
            self._pids.add(pid)
            return pid
        status = 1
        try:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            self._socket.close()
            self._body(Line(socket.socket(fileno=descriptor)))
            status = 0
        finally:
            os._exit(status)
