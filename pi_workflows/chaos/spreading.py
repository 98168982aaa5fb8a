"""Spreads tasks over processes: each is started anew, by exec, and explores with one engine only.

Nobody outlives this process: a process of ours ends when its standard input does. One that ends
by itself ends everything, since its share of the work would be missing without a word.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType, TracebackType
from typing import Final, Protocol, Self, cast, final

from pi_workflows.chaos.abandonment import GRACE_S
from pi_workflows.chaos.tasks import Task
from pi_workflows.protocol.canonical import JsonObject

PROGRAM: Final = (sys.executable, "-P", "-m", "pi_workflows.chaos.exploring")
"""With `-P`: what lies in the working directory hides no installed module from it."""

SAID_MAX: Final = 4_000
"""How much of what a process printed is kept for the day that it dies, in bytes."""

_READ_BYTES: Final = 65_536
_TICK_S: Final = 0.25


Handler = Callable[[int, FrameType | None], object] | signal.Handlers

_USUAL: Final[dict[signal.Signals, Handler]] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}
"""Signals that end an exploration, if nobody else has taken them."""

MakeTask = Callable[[], Task | None]


class ExploringFailed(Exception):
    """A process that explored has ended, or the scenario or the harness has a bug.

    Attributes:
        detail: the traceback or the end of what it printed; "" if nothing.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class TaskRefused(Exception):
    """A scenario cannot be explored as it is written, or cannot be found."""


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: everything ends as by an interrupt."""


class Work(Protocol):
    """Where tasks come from and answers go to."""

    def next_task(self, number: int) -> Task | None:
        """Return what the free process `number` is to do; None when there is nothing for it."""
        ...

    def answered(self, number: int, task: Task, answer: JsonObject) -> None:
        """Take the answer of a task."""
        ...

    def told(self, task: Task, unit: str, count: int) -> None:
        """Take how many more were explored by a task that is under way."""
        ...

    def tick(self) -> None:
        """Be called a few times a second."""
        ...


@final
class _Process:
    """One process of ours, with the task it is at."""

    def __init__(self, number: int, program: Sequence[str]) -> None:
        self.number: Final = number
        self._program: Final = program
        self.task: Task | None = None
        self.engine = ""
        self.child: subprocess.Popen[bytes] | None = None
        self.buffer = b""
        self.said = b""

    def start(self, engine: str) -> subprocess.Popen[bytes]:
        """Start it; its own session keeps the terminal's Ctrl-C from it."""
        self.engine, self.buffer, self.said = engine, b"", b""
        self.child = subprocess.Popen(
            self._program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return self.child

    def give(self, task: Task) -> None:
        """Let it do a task."""
        assert self.child is not None
        assert self.child.stdin is not None
        self.task = task
        with contextlib.suppress(BrokenPipeError):  # Its end is noticed where it is read.
            self.child.stdin.write(json.dumps(task.to_json()).encode() + b"\n")
            self.child.stdin.flush()

    def let_end(self) -> None:
        """Tell it to end; `end` waits for that."""
        if self.child is not None and self.child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.child.stdin.close()

    def end(self) -> None:
        """Wait until it has ended, with what it started; kill what stays."""
        child, self.child = self.child, None
        if child is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S + 1)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()


@final
class Spreading:
    """Some processes; a context manager, at whose end none is left."""

    def __init__(self, processes: int, work: Work, program: Sequence[str] = PROGRAM) -> None:
        """Nothing is started before `run`.

        Args:
            program: what each process runs; it does what `exploring` does.
        """
        self._work: Final = work
        self._processes: Final = [_Process(number, program) for number in range(processes)]
        self._selector: Final = selectors.DefaultSelector()
        self._replaced: Final[dict[int, Handler]] = {}
        self._stopped_by: int | None = None

    def __enter__(self) -> Self:
        # A signal is noted and acted on between two steps: none can lose a process that is just
        # being started, and a second one cannot keep the others from being ended.
        for number, usual in _USUAL.items():
            if signal.getsignal(number) is usual:
                with contextlib.suppress(ValueError):  # Not the main thread: nobody stops it.
                    signal.signal(number, self._stop)
                    self._replaced[number] = usual
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.let_end()
        for process in self._processes:
            process.end()
        self._selector.close()
        for number, usual in self._replaced.items():
            signal.signal(number, usual)

    def run(self) -> None:
        """Return when nothing is under way and there is nothing for anybody.

        Raises:
            ExploringFailed: a process has ended, or a task has failed by a bug.
            TaskRefused: a scenario was refused.
            KeyboardInterrupt: somebody has had enough; `Terminated` if SIGTERM says so.
        """
        while True:
            if self._stopped_by is not None:
                raise Terminated if self._stopped_by == signal.SIGTERM else KeyboardInterrupt
            for process in self._processes:
                if process.task is None and (task := self._work.next_task(process.number)):
                    self._ready(process, task.engine)
                    process.give(task)
            if all(process.task is None for process in self._processes):
                return
            for key, _ in self._selector.select(_TICK_S):
                self._read(*cast("tuple[_Process, bool]", key.data), key.fd)
            self._work.tick()

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._stopped_by = self._stopped_by or number

    def _ready(self, process: _Process, engine: str) -> None:
        """Have a process that has explored with no other engine: some leave things behind."""
        if process.child is not None and process.engine == engine:
            return
        if process.child is not None:
            self._forget(process)
            process.let_end()
            process.end()
        child = process.start(engine)
        assert child.stdout is not None
        assert child.stderr is not None
        self._selector.register(child.stdout, selectors.EVENT_READ, (process, True))
        self._selector.register(child.stderr, selectors.EVENT_READ, (process, False))

    def _forget(self, process: _Process) -> None:
        assert process.child is not None
        for stream in (process.child.stdout, process.child.stderr):
            if stream is not None and stream.fileno() in self._selector.get_map():
                self._selector.unregister(stream)

    def _read(self, process: _Process, is_answer: bool, descriptor: int) -> None:  # noqa: FBT001
        data = os.read(descriptor, _READ_BYTES)
        if not is_answer:
            process.said = (process.said + data)[-SAID_MAX:]
            if not data:
                self._selector.unregister(descriptor)
            return
        if not data:
            raise self._ended(process)
        *lines, process.buffer = (process.buffer + data).split(b"\n")
        for line in lines:
            self._take(process, cast("JsonObject", json.loads(line)))

    def _take(self, process: _Process, answer: JsonObject) -> None:
        task = process.task
        assert task is not None, "an answer belongs to a task"
        if "told" in answer:
            self._work.told(task, cast("str", answer["told"]), cast("int", answer["count"]))
            return
        if "refused" in answer:
            raise TaskRefused(f"{task.ref} ({task.engine}): {answer['refused']}")
        if "failed" in answer:
            raise ExploringFailed(
                f"{task.ref} ({task.engine}) could not be explored: {answer['failed']}",
                cast("str", answer["detail"]),
            )
        process.task = None
        self._work.answered(process.number, task, answer)

    def _ended(self, process: _Process) -> ExploringFailed:
        """Return the error of a process that ended although it was not told to."""
        assert process.child is not None
        assert process.child.stderr is not None
        process.let_end()
        code = process.child.wait()
        said = process.said
        if process.child.stderr.fileno() in self._selector.get_map():
            os.set_blocking(process.child.stderr.fileno(), False)
            said = (said + (process.child.stderr.read() or b""))[-SAID_MAX:]
        at = "" if process.task is None else f" explored {process.task.ref} ({process.engine}) and"
        return ExploringFailed(
            f"a process{at} ended: {_how(code)}", said.decode(errors="replace").strip()
        )


@final
class Shares:
    """Hands tasks out, in the order in which they were added.

    A task is made when it is handed out: only then is known how much time is left. What makes one
    returns None when there is none left for it.
    """

    def __init__(self, processes: int) -> None:
        self._waiting: Final[list[deque[MakeTask]]] = [deque() for _ in range(processes)]
        self._later: Final[deque[MakeTask]] = deque()

    def add_whole(self, make: MakeTask) -> None:
        """Let one process do it, whoever is free first."""
        left = deque((make,))
        for waiting in self._waiting:
            waiting.append(lambda: left.popleft()() if left else None)

    def add_for_each(self, make: Callable[[int], Task | None]) -> None:
        """Let every process do its part; `make` gets the process's number."""
        for number, waiting in enumerate(self._waiting):
            waiting.append(partial(make, number))

    def add_later(self, make: MakeTask) -> None:
        """Let one process do it that has nothing else to do any more."""
        self._later.append(make)

    def next_task(self, number: int) -> Task | None:
        """Return the next one for a process; None when there is none for it now."""
        for tasks in (self._waiting[number], self._later):
            while tasks:
                if (task := tasks.popleft()()) is not None:
                    return task
        return None


def cores() -> int:
    """Return how many processes may run at once here."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def monotonic_s() -> float:
    """Return seconds of a clock that never goes back."""
    return time.monotonic()


def _how(code: int) -> str:
    if code < 0:
        try:
            return f"by {signal.Signals(-code).name}"
        except ValueError:
            return f"by signal {-code}"
    return f"with exit code {code}"
