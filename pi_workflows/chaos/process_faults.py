"""Deaths, standstills, sleeps, clock steps and power cuts, decided every quarter of a second."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, final

import trio

from pi_workflows.chaos.fault_book import FaultBook
from runtime.simulation.chance import Draws
from runtime.simulation.processes import SimulatedProcess
from runtime.sync_points import SyncPoint

if TYPE_CHECKING:
    from pi_workflows.chaos.simulated_world import SimulatedWorld

RUNNER: Final = "runner"
SERVER: Final = "server"
VICTIMS: Final = frozenset({RUNNER, SERVER})

TICK_S: Final = 0.25
TICKS: Final = 160
"""How often faults are decided: for 40 s of virtual time, asleep not counted."""

_PLACES_MAX: Final = 24
"""A fault strikes up to so many steps of the loop after its instant."""

_AGES: Final = ("oldest", "second", "third", "newest")
_STILL: Final = {"0.5 s": 0.5, "8 s": 8.0, "45 s": 45.0, "100 s": 100.0}
"""How long a process stands still; a claim lasts 30 s."""

_NEVER_DEADLY: Final = frozenset({SyncPoint.SOCKET_MID_FRAME})
"""A frame is cut there by the streams of a simulation anyway."""


@dataclass(frozen=True, slots=True)
class _Strike:
    """Whom a fault is meant for.

    Attributes:
        age: which of those that live then.
        instant: draws when exactly.
    """

    who: str
    age: str
    instant: Draws


@final
class ProcessFaults:
    """Strikes the processes of a simulated world."""

    def __init__(self, book: FaultBook, victims: frozenset[str]) -> None:
        """`victims` names who may be killed or stopped."""
        self._book: Final = book
        self._victims: Final = victims
        self._world: SimulatedWorld | None = None
        self._standing: Final[list[SimulatedProcess]] = []
        self._awake = trio.Event()
        self._awake.set()

    @property
    def world(self) -> "SimulatedWorld":
        """What is struck."""
        assert self._world is not None, "faults are joined to a world before they blow"
        return self._world

    def join(self, world: "SimulatedWorld") -> None:
        """Strike this world from now on."""
        self._world = world

    async def blow(self) -> None:
        """Decide again and again, for a bounded time; cancel it to end it before."""
        strikes: tuple[Callable[[], Awaitable[None]], ...] = (
            self._kill,
            self._pause,
            self._step_clock,
            self._sleep,
            self._cut_power,
            self._rot,
        )
        async with trio.open_nursery() as self._later:
            for _ in range(TICKS):
                await trio.sleep(TICK_S)
                for strike in strikes:
                    await strike()
            self._later.cancel_scope.cancel()

    def calm(self) -> None:
        """Let everything go on that stands still, and nothing fail from now on."""
        self._book.is_calm = True
        standing, self._standing[:] = list(self._standing), []
        for process in standing:
            if process.status is None:
                self.world.machine.resume(process)

    def passing(self, process: SimulatedProcess, point: SyncPoint) -> None:
        """Decide whether a server dies where it comes by now."""
        if SERVER in self._victims and point not in _NEVER_DEADLY:
            self.at_place(process, SERVER, point)

    def at_place(self, process: SimulatedProcess, who: str, place: str) -> None:
        """Decide whether a process dies at a named place."""
        if who in self._victims and self._book.ask("kill", f"kill {who} at {place}", ("killed",)):
            self._book.enter("kill", f"{process.name} dies at {place}")
            self.world.machine.kill(process)

    async def _kill(self) -> None:
        for who in sorted(self._victims):
            if (age := self._book.ask("kill", f"kill {who}", _AGES)) is not None:
                strike = _Strike(who, age, self._book.instant())
                self._later.start_soon(self._after, strike, self._killed)

    async def _pause(self) -> None:
        for who in sorted(self._victims):
            options = tuple(f"{age}, {still}" for age in _AGES for still in _STILL)
            if (picked := self._book.ask("pause", f"pause {who}", options)) is not None:
                age, _, still = picked.partition(", ")
                strike = _Strike(who, age, self._book.instant())
                self._later.start_soon(
                    self._after, strike, partial(self._stopped, for_s=_STILL[still])
                )

    async def _after(
        self, strike: "_Strike", blow: Callable[[SimulatedProcess], Awaitable[None]]
    ) -> None:
        """Wait for the instant of a strike, then let it hit whoever lives then."""
        await trio.sleep(strike.instant.random() * TICK_S)
        for _ in range(strike.instant.randrange(_PLACES_MAX)):
            await trio.lowlevel.checkpoint()
        living = self.world.runners() if strike.who == RUNNER else self.world.server_processes()
        if living and not self._book.is_calm:
            index = len(living) - 1 if strike.age == _AGES[-1] else _AGES.index(strike.age)
            await blow(living[index % len(living)])

    async def _killed(self, process: SimulatedProcess) -> None:
        if self._book.may("kill"):
            self._book.enter("kill", f"{process.name} is killed")
            self.world.machine.kill(process)

    async def _stopped(self, process: SimulatedProcess, for_s: float) -> None:
        if not self._book.may("pause") or process in self._standing:
            return
        self._book.enter("pause", f"{process.name} stands still for {for_s:g} s")
        self.world.machine.pause(process)
        self._standing.append(process)
        await trio.sleep(for_s)
        await self._awake.wait()
        if process in self._standing:
            self._standing.remove(process)
            if process.status is None:
                self.world.machine.resume(process)

    async def _step_clock(self) -> None:
        steps = {f"{step:+g} s": step for step in self._book.budgets.clock_jump}
        if (step := self._book.ask_once("clock_jump", "clock", tuple(steps))) is not None:
            self._book.enter("clock_jump", f"the wall clock is set by {step}", step)
            self.world.machine.step_clock(round(steps[step] * 1000))

    async def _sleep(self) -> None:
        """Let the machine sleep; on some its timers count that, on others they stand still."""
        sleeps = {
            f"{for_s:g} s, timers {kind}": (for_s, kind == "count it")
            for for_s in self._book.budgets.sleep
            for kind in ("count it", "stand")
        }
        picked = self._book.ask_once("sleep", "sleep", tuple(sleeps))
        if picked is None:
            return
        for_s, counts = sleeps[picked]
        self._book.enter("sleep", f"the machine sleeps for {picked}", picked)
        if not counts:
            self.world.machine.step_clock(round(for_s * 1000))
            return
        self._awake = trio.Event()
        try:
            await self.world.machine.sleep(for_s)
        finally:
            self._awake.set()

    async def _cut_power(self) -> None:
        models = self.world.persistence
        if (model := self._book.ask("power_cut", "power cut", models)) is not None:
            self._book.enter("power_cut", f"the power goes; the disk: {model}")
            self.world.cut_power(model, self._book.instant())

    async def _rot(self) -> None:
        if (kind := self._book.ask("rot", "rot", self.world.rot.kinds)) is not None:
            done = self.world.rot.strike(kind, self._book.instant())
            if done is not None:
                self._book.enter("rot", done)
