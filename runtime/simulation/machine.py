"""One simulated machine: what a `World` carries, for each of its processes, from one seed."""

import contextvars
import signal
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final, TypeVar, final

import trio

from runtime.backoff import Randomness
from runtime.clock import WallMs
from runtime.identity import ProcessIdentity
from runtime.process import ExitStatus, Spawner
from runtime.simulation.chance import Chance, SeededIds
from runtime.simulation.clock import SimulatedClock
from runtime.simulation.fates import Fates
from runtime.simulation.files import Disk, SimulatedFiles
from runtime.simulation.network import SimulatedNetwork, Wires
from runtime.simulation.processes import (
    ACTING,
    Processes,
    Program,
    SimulatedProcess,
    SimulatedProcessTable,
)
from runtime.simulation.scheduling import GROUP, choose_tasks
from runtime.simulation.standstill import give_up, waits
from runtime.simulation.sync_points import SimulatedSyncPoints
from runtime.simulation.trace import Trace
from runtime.world import IdSource, InlineCommitExecutor, World

ResultT = TypeVar("ResultT")

UNWIND_S: Final = 3_600.0
"""Virtual time in which the tasks of dead processes have to end, once they may."""


class SimulationBroken(AssertionError):
    """The simulation itself went wrong, or a process did what none may do."""


@final
class Machine:
    """Processes, clocks, disk and wires of one simulation; lives inside one trio run.

    Attributes:
        failures: errors by which processes ended that were neither killed nor told to end.
        has_failed: set with the first of them.
        secrets: what processes have drawn to prove themselves with; nobody else may learn it.

    When nothing can go on any more, or time stands still, the trio run ends at once with
    `TrioInternalError`; its cause is a `SimulationBroken` that says who waits where.
    """

    def __init__(self, seed: int, nursery: trio.Nursery, fates: Fates | None = None) -> None:
        """Take over the order of the tasks of the current trio run.

        Args:
            fates: what becomes of what is sent; None lets all of it arrive.
        """
        self.chance: Final = Chance(seed)
        self.clock: Final = SimulatedClock()
        self.trace: Final = Trace()
        self.disk: Final = Disk()
        self.wires: Final = Wires(self.chance.stream("wires"), self.trace, fates)
        self._boots: Final = SeededIds(self.chance.stream("boot"))
        self.processes: Final = Processes(
            self.chance.stream("pids"), self._boots.new_uuid(), self.trace
        )
        self.failures: Final[list[tuple[str, BaseException]]] = []
        self.has_failed: Final = trio.Event()
        self.secrets: Final[list[bytes]] = []
        self._nursery: Final = nursery
        self._all: Final[list[SimulatedProcess]] = []
        self._order: Final = self.chance.stream("order")
        self._broken: SimulationBroken | None = None
        self._queue: Final = choose_tasks(self._order.randrange, self._give_up)

    def start(
        self,
        name: str,
        program: Program,
        *,
        leader: ProcessIdentity | None = None,
        is_elsewhere: bool = False,
    ) -> SimulatedProcess:
        """Start a process at once.

        Args:
            name: for the trace.
            program: what it runs; an error it raises is one of `failures`.
            leader: whose session it is in; None makes it the leader of its own.
            is_elsewhere: True: it stands for somebody who outlives a power cut.
        """
        process = self.processes.new(name, leader)
        process.is_elsewhere = is_elsewhere
        self._all.append(process)
        context = contextvars.copy_context()
        context.run(GROUP.set, process.group)
        context.run(ACTING.set, process)
        context.run(self._nursery.start_soon, self._live, process, program)
        return process

    def kill(self, process: SimulatedProcess) -> None:
        """End a process with SIGKILL: its code takes no further step."""
        self.processes.signal(process, signal.SIGKILL)

    def kill_now(self, process: SimulatedProcess) -> None:
        """End a process from inside a call of its own: it gets to no other."""
        self._doom(process, partial(self.kill, process))

    def cut_power_now(self, lose: Callable[[], None]) -> None:
        """Cut the power from inside a call of a process: nobody gets to another one."""
        for process in list(self.processes.living.values()):
            if not process.is_elsewhere:
                self._doom(process)
        self._outside(partial(self.cut_power, lose))

    def terminate(self, process: SimulatedProcess) -> None:
        """Tell a process to end, with SIGTERM."""
        self.processes.signal(process, signal.SIGTERM)

    def pause(self, process: SimulatedProcess) -> None:
        """Stop a process with SIGSTOP: its code takes no step until `resume`."""
        self.processes.signal(process, signal.SIGSTOP)

    def resume(self, process: SimulatedProcess) -> None:
        """Let a stopped process go on."""
        self.processes.signal(process, signal.SIGCONT)

    def last_words(self) -> str:
        """Return what the processes have printed at their ends, one after the other."""
        return "\n".join(process.output for process in self._all)

    def kill_all(self) -> None:
        """Kill whatever lives."""
        for process in list(self.processes.living.values()):
            self.kill(process)

    def cut_power(self, lose: Callable[[], None]) -> None:
        """Let every process die at once, and the machine come up again.

        Args:
            lose: brings the disk into the state it has when the power is back; called when no
                process is left.
        """
        self.trace.note("machine", "power cut")
        for process in list(self.processes.living.values()):
            if not process.is_elsewhere:
                self.kill(process)
        lose()
        self.processes.boot(self._boots.new_uuid())
        self.clock.boot()

    def step_clock(self, by_ms: int) -> None:
        """Set the wall clock forward, or back if negative."""
        self.trace.note("clock", "stepped", str(by_ms))
        self.clock.step(by_ms)

    async def sleep(self, for_s: float) -> None:
        """Let the whole machine sleep: no process runs, the wall clock goes on.

        The monotonic clock goes on too, as on systems where it counts a sleep: every timer that
        was due meanwhile has fired when the machine wakes. Cancelled: it wakes at once.
        """
        asleep = [p for p in self.processes.living.values() if not p.is_stopped]
        for process in asleep:
            self.processes.signal(process, signal.SIGSTOP)
        try:
            await trio.sleep(for_s)
        finally:
            for process in asleep:
                self.processes.signal(process, signal.SIGCONT)

    async def shut_down(self) -> None:
        """Kill what lives, close the trace, and let the tasks of all dead processes end.

        Call it shielded from cancellation. If some of them do not end, there is no way back: see
        the text of the class.
        """
        self.kill_all()
        self.trace.close()
        for process in self._all:
            process.scope.cancel()
            process.group.let_go()
        with trio.move_on_after(UNWIND_S):
            for process in self._all:
                await process.unwound.wait()
            return
        self._broken = SimulationBroken(f"dead processes go on for {UNWIND_S:g} s: {waits()}")
        self._queue.end(str(self._broken))
        await trio.sleep_forever()

    def waits(self) -> str:
        """Return who waits where at the moment, in one line: names and places, no contents."""
        return waits()

    def bound(self, told_at_s: float, tell: Callable[[], None]) -> None:
        """Call `tell` when virtual time comes to an instant, and end a trio run that goes on.

        It has two more `UNWIND_S`: one to be cancelled in, one to be unwound in.
        """
        self._queue.at(told_at_s, tell)
        ends_at_s = told_at_s + 2 * UNWIND_S
        why = f"it still goes on after {ends_at_s:g} s"
        self._queue.at(ends_at_s, partial(self._queue.end, why))

    def world_of(
        self, process: SimulatedProcess, spawner: Spawner, sync_points: SimulatedSyncPoints
    ) -> World:
        """Return the machine as this process meets it; every port refuses a dead process."""
        return World(
            clock=_Clock(self.clock, process),
            ids=_Ids(
                SeededIds(self.chance.stream(f"ids of {process.identity}")), process, self.secrets
            ),
            randomness=self._jitter(process),
            commits=SimulatedCommits(process),
            spawner=spawner,
            processes=SimulatedProcessTable(self.processes, process),
            sync_points=sync_points,
            network=SimulatedNetwork(self.wires, process),
            signals=_Signals(process),
            files=SimulatedFiles(self.disk, process, self.trace),
        )

    def _give_up(self, why: str) -> BaseException:
        """Leave everything as it is; returns what is to be said of it."""
        broken = self._broken or SimulationBroken(f"{why}: {waits()}")
        self.kill_all()
        self.trace.close()
        give_up()
        return broken

    def _doom(self, process: SimulatedProcess, end: Callable[[], None] | None = None) -> None:
        process.is_doomed = True
        process.group.hold()
        if end is not None:
            self._outside(end)

    def _outside(self, act: Callable[[], None]) -> None:
        """Do something as soon as the task that runs now waits."""

        async def later() -> None:
            act()

        context = contextvars.copy_context()
        context.run(GROUP.set, None)
        context.run(ACTING.set, None)
        context.run(self._nursery.start_soon, later)

    def _jitter(self, process: SimulatedProcess) -> Randomness:
        return self.chance.stream(f"jitter of {process.identity}")

    async def _live(self, process: SimulatedProcess, program: Program) -> None:
        code = 1
        try:
            with process.scope:
                await trio.lowlevel.checkpoint()
                code = await program(process)
        except trio.Cancelled:
            if process.status is None:
                raise
        except BaseException as error:  # noqa: BLE001 - judged by whether the process was alive
            if process.status is None and not process.is_doomed:
                self.failures.append((process.name, error))
                self.has_failed.set()
        finally:
            killed = ExitStatus(None, int(signal.SIGKILL))
            self.processes.end(process, killed if process.is_doomed else ExitStatus(code, None))
            process.unwound.set()


@final
class SimulatedCommits:
    """Commits on the loop, in no time; see `runtime.world.CommitExecutor`."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process: Final = process
        self._inline: Final = InlineCommitExecutor()

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work` at once, then let others run: a death in between loses the answer only."""
        self._process.check()
        try:
            return await self._inline.run(work)
        finally:
            self._process.check()

    def close(self) -> None:
        """Refuse further work; none is ever left."""
        self._inline.close()


@final
class _Clock:
    def __init__(self, clock: SimulatedClock, process: SimulatedProcess) -> None:
        self._clock: Final = clock
        self._process: Final = process

    def wall_ms(self) -> WallMs:
        self._process.check()
        return self._clock.wall_ms()

    def monotonic(self) -> float:
        self._process.check()
        return self._clock.monotonic()


@final
class _Ids:
    def __init__(self, ids: IdSource, process: SimulatedProcess, secrets: list[bytes]) -> None:
        self._ids: Final = ids
        self._process: Final = process
        self._secrets: Final = secrets

    def new_uuid(self) -> str:
        self._process.check()
        return self._ids.new_uuid()

    def token_bytes(self, count: int = 32) -> bytes:
        self._process.check()
        secret = self._ids.token_bytes(count)
        self._secrets.append(secret)
        return secret


@final
class _Signals:
    """Signals of a simulated process; see `runtime.signals.Signals`."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process: Final = process

    def receive(self, *numbers: signal.Signals) -> AbstractContextManager[AsyncIterator[int]]:
        self._process.check()
        return self._receiving(numbers)

    @contextmanager
    def _receiving(self, numbers: tuple[signal.Signals, ...]) -> Generator[AsyncIterator[int]]:
        sender, receiver = trio.open_memory_channel[int](100)
        handlers = self._process.handlers
        for number in numbers:
            handlers[number] = partial(sender.send_nowait, int(number))
        try:
            yield receiver
        finally:
            for number in numbers:
                del handlers[number]
