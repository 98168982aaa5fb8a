"""Everything the server takes from outside itself, as one object that a simulator can replace."""

import os
import queue
import random
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast, final

import outcome
import trio

from runtime.backoff import Randomness
from runtime.clock import Clock, SystemClock
from runtime.errors import CommitExecutorClosed
from runtime.exec_spawner import ExecSpawner
from runtime.machine_files import SYSTEM_FILES, MachineFiles
from runtime.network import Network, UnixNetwork
from runtime.process import Spawner
from runtime.processes import ProcessTable, SystemProcessTable
from runtime.program import Program
from runtime.service_manager import NoServiceManager, ServiceManager, service_manager_of
from runtime.signals import ProcessSignals, Signals
from runtime.sync_points import InertSyncPoints, SyncPoints

Result = TypeVar("Result")


class IdSource(Protocol):
    """Where new ids and secrets come from."""

    def new_uuid(self) -> str:
        """Return a new random UUID in its canonical text form, 36 characters."""
        ...

    def token_bytes(self, count: int = 32) -> bytes:
        """Return `count` bytes that nobody can guess."""
        ...


class CommitExecutor(Protocol):
    """Runs what may block in the disk, one piece of work after the other."""

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run `work` and return its result or raise its error.

        Work handed over is never withdrawn: a cancelled caller waits for the outcome and gets it.

        Raises:
            CommitExecutorClosed: `close` was called before; `work` did not run.
        """
        ...

    def close(self) -> None:
        """Finish what was handed over, then stop; blocks until then. Idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The outside world of one server.

    Attributes:
        clock: Wall and monotonic time.
        ids: New ids and secrets.
        randomness: Jitter only.
        commits: Where COMMIT runs.
        spawner: Starts children.
        processes: The operating system's process table.
        sync_points: Where a harness can stop the process.
        network: Local streams between clients and the server.
        signals: Requests to stop.
        files: The server's own small files.
        service_manager: Who is told that the server serves, lives and stops.
        template: A runner template that was started ahead and is to fork children; None: all
            children are started by `spawner`.
    """

    clock: Clock
    ids: IdSource
    randomness: Randomness
    commits: CommitExecutor
    spawner: Spawner
    processes: ProcessTable
    sync_points: SyncPoints
    network: Network = field(default_factory=UnixNetwork)
    signals: Signals = field(default_factory=ProcessSignals)
    files: MachineFiles = SYSTEM_FILES
    service_manager: ServiceManager = field(default_factory=NoServiceManager)
    template: Program | None = None

    def close(self) -> None:
        """Finish what was handed over to be committed, and end a template nobody took over."""
        self.commits.close()
        if self.template is not None:
            self.template.abandon()


@final
class SystemIdSource:
    """Ids and secrets from the operating system's generator."""

    def new_uuid(self) -> str:
        """Return a new random UUID; twice as fast as `uuid.uuid4`, three are made per step."""
        digits = os.urandom(16).hex()
        variant = "89ab"[int(digits[16], 16) & 3]
        return (
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
        )

    def token_bytes(self, count: int = 32) -> bytes:
        """Return `count` unguessable bytes."""
        return secrets.token_bytes(count)


@dataclass(frozen=True, slots=True)
class _Handover:
    work: Callable[[], object]
    caller: trio.lowlevel.Task
    token: trio.lowlevel.TrioToken


@final
class ThreadCommitExecutor:
    """One dedicated thread, started with the first work.

    Guarantees:

    - Work runs in the order of the calls; an error of one piece goes to its caller and nowhere
      else.
    - It sleeps until work comes, and is a daemon: an owner that dies without `close` ends like a
      killed process, which a COMMIT survives whole or not at all.
    """

    def __init__(self) -> None:
        self._handovers: queue.SimpleQueue[_Handover | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the thread; see `CommitExecutor.run`."""
        if self._is_closed:
            raise CommitExecutorClosed("the commit thread has been closed")
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="commit", daemon=True)
            thread.start()  # Fails where the system has no thread left; then nobody waits for one.
            self._thread = thread
        caller = trio.lowlevel.current_task()
        self._handovers.put(_Handover(work, caller, trio.lowlevel.current_trio_token()))
        result = await trio.lowlevel.wait_task_rescheduled(
            lambda _: trio.lowlevel.Abort.FAILED,
        )
        return cast("Result", result)

    def close(self) -> None:
        """Finish what was handed over and join the thread."""
        self._is_closed = True
        if self._thread is not None:
            self._handovers.put(None)
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        while (handover := self._handovers.get()) is not None:
            result = outcome.capture(handover.work)
            try:
                handover.token.run_sync_soon(trio.lowlevel.reschedule, handover.caller, result)
            except trio.RunFinishedError:
                continue


@final
class InlineCommitExecutor:
    """Runs work on the loop, so that no thread escapes a simulation.

    Under a mock clock a real thread call takes no virtual time, and timers would fire during it.
    """

    def __init__(self) -> None:
        self._is_closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run `work` at once, then let others run; see `CommitExecutor.run`."""
        if self._is_closed:
            raise CommitExecutorClosed("the commit executor has been closed")
        result = outcome.capture(work)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return result.unwrap()

    def close(self) -> None:
        """Refuse further work."""
        self._is_closed = True


def production_world(
    sync_points: SyncPoints | None = None,
    *,
    template: Program | None = None,
    clock: Clock | None = None,
    processes: ProcessTable | None = None,
) -> World:
    """Return the real world, which is to be closed in the end.

    Args:
        sync_points: Armed ones for a harness; None means inert.
        template: See `World`; owned from now on.
        clock: One that a harness moves; None means the machine's.
        processes: What a harness sees of the process table; None means all as it is.
    """
    return World(
        clock=clock or SystemClock(),
        ids=SystemIdSource(),
        randomness=random.SystemRandom(),
        commits=ThreadCommitExecutor(),
        spawner=ExecSpawner(),
        processes=processes or SystemProcessTable(),
        sync_points=sync_points or InertSyncPoints(),
        service_manager=service_manager_of(os.environ, os.getpid()),
        template=template,
    )
