"""Simulated processes: identities that are never mistaken, signals, sessions, a death that is one.

A process is a group of tasks. When it dies its tasks take no further step, its streams, locks and
files are closed by the machine, and whatever it still tries to ask of the machine raises
`ProcessDied`: the unwinding at the end of the simulation leaves no mark.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals
from typing import Final, TypeAlias, final

import trio

from runtime.identity import Liveness, ProcessIdentity
from runtime.process import ExitStatus
from runtime.process_table import SCHEME
from runtime.simulation.chance import Draws
from runtime.simulation.scheduling import Group
from runtime.simulation.trace import Trace

FIRST_PID: Final = 1_000
_REUSED: Final = 0.5
"""How often a new process gets the number of one that is gone."""

_TICKS_PER_S: Final = 100

Program: TypeAlias = Callable[["SimulatedProcess"], Awaitable[int]]
"""What a process runs; its result is the exit code."""


class ProcessDied(BaseException):
    """The process that asks is dead: its code must have no effect any more."""


@final
class SimulatedProcess:
    """One process.

    Attributes:
        name: for the trace.
        identity: who it is, across reuse of its number.
        leader: the leader of its session; itself for a leader.
        status: how it ended; None while it lives.
        ended: set with its end.
        unwound: set when none of its tasks is left.
        output: the last words it printed.
        started_at: virtual seconds.
        is_elsewhere: True: it outlives a power cut.
        is_doomed: True: it dies before it takes another step; nothing it asks for is done.
    """

    def __init__(
        self, name: str, identity: ProcessIdentity, leader: ProcessIdentity | None
    ) -> None:
        self.name: Final = name
        self.identity: Final = identity
        self.leader: Final = leader or identity
        self.status: ExitStatus | None = None
        self.ended: Final = trio.Event()
        self.unwound: Final = trio.Event()
        self.output = ""
        self.started_at: Final = trio.current_time()
        self.group: Final = Group()
        self.scope: Final = trio.CancelScope()
        self.handlers: Final[dict[int, Callable[[], None]]] = {}
        self.is_stopped = False
        self.is_elsewhere = False
        self.is_doomed = False
        self._pending: list[Signals] = []
        self._holdings: dict[int, Callable[[], None]] = {}
        self._next_holding = 0

    @property
    def pid(self) -> int:
        """Its number."""
        return self.identity.pid

    def check(self) -> None:
        """Do nothing in a living process.

        Raises:
            ProcessDied: it is dead, or about to be.
        """
        if self.status is not None or self.is_doomed:
            raise ProcessDied

    def hold(self, close: Callable[[], None]) -> Callable[[], None]:
        """Have the machine call `close` when the process ends; returns how to give that up."""
        self._next_holding += 1
        number = self._next_holding
        self._holdings[number] = close

        def give_up() -> None:
            self._holdings.pop(number, None)

        return give_up

    def close_holdings(self) -> None:
        """Close what the process holds, newest first."""
        while self._holdings:
            _, close = self._holdings.popitem()
            close()

    def pend(self, number: Signals) -> None:
        """Keep a signal until the process goes on."""
        self._pending.append(number)

    def take_pending(self) -> list[Signals]:
        """Return the signals that waited, in order."""
        pending, self._pending = self._pending, []
        return pending


ACTING: Final[ContextVar[SimulatedProcess | None]] = ContextVar("acting process", default=None)
"""Whose code runs; None for a harness."""


@final
class Processes:
    """All processes of one machine, in the order of their start.

    Attributes:
        reuse: how often a new process gets the number of one that is gone, 0 to 1.
        are_provable: False: nobody can tell whether a process that lives is the one it is named.
    """

    def __init__(self, chance: Draws, ids: str, trace: Trace) -> None:
        """`ids` is the machine's boot id."""
        self._chance: Final = chance
        self._boot = ids
        self.reuse = _REUSED
        self.are_provable = True
        self._trace: Final = trace
        self._next_pid = FIRST_PID
        self._last_ticks = 0
        self._free: list[int] = []
        self.living: Final[dict[int, SimulatedProcess]] = {}

    def new(self, name: str, leader: ProcessIdentity | None = None) -> SimulatedProcess:
        """Enter a process that lives from now on.

        Args:
            name: for the trace; its number is added.
            leader: whose session it is in; None makes it the leader of its own.
        """
        pid = self._new_pid()
        self._last_ticks = max(self._last_ticks + 1, int(trio.current_time() * _TICKS_PER_S))
        identity = ProcessIdentity(pid, f"{SCHEME}:{self._boot}:{self._last_ticks}")
        process = SimulatedProcess(f"{name}-{pid}", identity, leader)
        self.living[pid] = process
        self._trace.note(process.name, "started", identity.start_identity)
        return process

    def boot(self, boot_id: str) -> None:
        """Begin again with the first number: the machine has come up anew."""
        self._boot = boot_id
        self._next_pid = FIRST_PID
        self._last_ticks = 0
        self._free.clear()
        self._trace.note("machine", "booted", boot_id)

    def end(self, process: SimulatedProcess, status: ExitStatus) -> None:
        """End a process here and now; a dead one stays as it died."""
        if process.status is not None:
            return
        process.status = status
        process.group.hold()
        del self.living[process.pid]
        self._free.append(process.pid)
        process.close_holdings()
        self._trace.note(process.name, "ended", f"code {status.code} signal {status.signal}")
        process.ended.set()

    def signal(self, process: SimulatedProcess, number: Signals) -> None:
        """Send a signal; nothing happens to a dead process."""
        if process.status is not None:
            return
        self._trace.note(process.name, "signal", number.name)
        if number is SIGKILL:
            self.end(process, ExitStatus(None, int(number)))
        elif number is SIGSTOP:
            process.is_stopped = True
            process.group.hold()
        elif number is SIGCONT:
            self._go_on(process)
        elif process.is_stopped:
            process.pend(number)
        else:
            self._deliver(process, number)

    def found(self, identity: ProcessIdentity) -> SimulatedProcess | None:
        """Return exactly this process if it lives."""
        process = self.living.get(identity.pid)
        return process if process is not None and process.identity == identity else None

    def in_session_of(self, leader: ProcessIdentity) -> list[SimulatedProcess]:
        """Return who lives in a session, without its leader, oldest first."""
        return [
            process
            for process in self.living.values()
            if process.leader == leader and process.identity != leader
        ]

    def _go_on(self, process: SimulatedProcess) -> None:
        process.is_stopped = False
        process.group.let_go()
        for number in process.take_pending():
            self._deliver(process, number)

    def _deliver(self, process: SimulatedProcess, number: Signals) -> None:
        handler = process.handlers.get(number)
        if process.status is None and handler is not None:
            handler()
        else:
            self.end(process, ExitStatus(None, int(number)))

    def _new_pid(self) -> int:
        if self._free and self._chance.random() < self.reuse:
            return self._free.pop(self._chance.randrange(len(self._free)))
        self._next_pid += 1
        while self._next_pid in self.living:
            self._next_pid += 1
        return self._next_pid


@final
class SimulatedProcessTable:
    """The processes as one of them sees them; see `runtime.processes.ProcessTable`."""

    def __init__(self, processes: Processes, own: SimulatedProcess) -> None:
        self._processes: Final = processes
        self._own: Final = own

    def own_pid(self) -> int:
        """Return the number of the process that asks."""
        self._own.check()
        return self._own.pid

    def identity_of(self, pid: int) -> ProcessIdentity | None:
        """Return who has the number now."""
        self._own.check()
        process = self._processes.living.get(pid)
        return None if process is None else process.identity

    def is_alive(self, identity: ProcessIdentity) -> Liveness:
        """Tell whether exactly this process lives."""
        self._own.check()
        if identity.pid in self._processes.living and not self._processes.are_provable:
            return Liveness.UNPROVABLE
        return Liveness.GONE if self._processes.found(identity) is None else Liveness.ALIVE

    def age_s(self, identity: ProcessIdentity) -> float | None:
        """Return for how many seconds this process has been there; None if it is not."""
        self._own.check()
        process = self._processes.found(identity)
        return None if process is None else trio.current_time() - process.started_at

    def leader_started_by(self, parent: ProcessIdentity, pid: int) -> ProcessIdentity | None:
        """Return None: what a simulated runner starts stays in its session."""
        del parent, pid
        self._own.check()
        return None

    def signal_exactly(self, identity: ProcessIdentity, sig: Signals) -> bool:
        """Send a signal to exactly this process; False when it is gone."""
        self._own.check()
        process = self._processes.found(identity)
        if process is None:
            return False
        self._processes.signal(process, sig)
        return True

    async def wait_gone(self, identity: ProcessIdentity) -> None:
        """Wait until exactly this process has ended."""
        self._own.check()
        process = self._processes.found(identity)
        await trio.lowlevel.checkpoint()
        if process is not None:
            await process.ended.wait()
        self._own.check()

    async def end_session(
        self, leader: ProcessIdentity, marker: str, *, within_s: float = 5.0
    ) -> None:
        """Kill what is left of a session without its leader; it needs no time here."""
        del marker, within_s
        self._own.check()
        for process in self._processes.in_session_of(leader):
            self._processes.signal(process, SIGKILL)
