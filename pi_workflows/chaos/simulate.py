"""Runs a scenario in a simulated world to its end in virtual time, from one seed.

The same seed and choices give the same trace, whatever the interpreter's hash seed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio
import trio.testing

from pi_workflows.chaos.disk_faults import DiskFaults
from pi_workflows.chaos.fault_book import FaultBook
from pi_workflows.chaos.installation import Exposure, Installation
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.loaded_modules import modules_forgotten
from pi_workflows.chaos.scene_stage import memory_folder
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.simulated_disk import simulated_disk
from pi_workflows.chaos.simulated_state import Storage
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.wire_faults import WireFaults
from pi_workflows.protocol.paths import StatePaths
from runtime.chaos.choices import Benign, Choices, Source
from runtime.chaos.guard import Guard
from runtime.chaos.outcome import PromiseBroken
from runtime.chaos.own_code import OwnCode
from runtime.chaos.scenario import Budgets
from runtime.exception_groups import sole_error
from runtime.simulation.chance import Chance
from runtime.simulation.machine import Machine, SimulationBroken
from runtime.simulation.trace import Trace

LIMIT_S: Final = 36_000.0
"""Virtual time in which every scenario has to end, whatever sleeps meanwhile."""

STORY_LINES: Final = 80
"""How much of the trace the error of a broken simulation tells."""

Story = Callable[[SimulatedWorld], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulation was.

    Attributes:
        trace: everything that happened, in order.
        virtual_s: how long it took in its own time.
    """

    seed: int
    trace: Trace
    virtual_s: float


@dataclass(slots=True, kw_only=True)
class Circumstances:
    """What a simulation is exposed to, and what is left to look at when it has failed.

    Attributes:
        budgets: which faults may happen.
        source: who decides whether one does; None lets nothing unusual happen.
        look: shown the state in the end, after every other check.
        watch: shown the state after each commit; None wants nothing.
        own: the author's code; None knows of none.
        world: the world, as soon as there is one.
        virtual_s: how long it has taken.
    """

    budgets: Budgets = field(default_factory=Budgets)
    source: Source | None = None
    look: Callable[[Seen], None] = lambda _: None
    watch: Callable[[Seen], None] | None = None
    own: OwnCode | None = None
    world: SimulatedWorld | None = None
    virtual_s: float = 0.0
    complaint: PromiseBroken | None = None


def simulate(
    story: Story,
    seed: int,
    installation: Installation,
    circumstances: Circumstances | None = None,
    *,
    folder: Path | None = None,
) -> Simulated:
    """Run a story to its end, check the invariants, and return what happened.

    Whatever still runs when the story returns is killed.

    Args:
        story: acts on the world; an error it raises leaves as itself, with the end of the trace
            as a note.
        seed: decides the order of everything.
        installation: what there is at the beginning.
        circumstances: None lets nothing fail but what the story does itself.
        folder: an empty real folder for the database; None makes one and removes it.

    Raises:
        PromiseBroken: a promise of the product, or of the scenario, was broken.
        ScenarioRefused: code of the scenario or of a workflow has reached for the outside.
        SimulationBroken: a process failed, or the simulation did.
    """
    around = circumstances or Circumstances()
    clock = trio.testing.MockClock(autojump_threshold=0)
    guard = Guard(around.own)
    with (
        TemporaryDirectory(dir=memory_folder()) as made,
        guard.installed(),
        modules_forgotten(),
    ):
        stage = _Simulation(seed, installation, around, folder or Path(made), guard)
        try:
            return trio.run(stage.run, story, clock=clock)
        except BaseException as raised:
            if guard.refusal is not None and isinstance(raised, Exception):
                raise guard.refusal from None  # Whatever has come of it.
            error = _told_first(sole_error(raised), around.world)
            if around.world is not None:
                error.add_note(_told(seed, around.world.machine.trace))
            if error is raised:
                raise
            raise error from error.__cause__


@dataclass(slots=True)
class _Simulation:
    seed: int
    installation: Installation
    around: Circumstances
    folder: Path
    guard: Guard

    async def run(self, story: Story) -> Simulated:
        """Run the story; the world is in the circumstances even when it fails."""
        around = self.around
        choices = Choices(around.source or Benign())
        book = FaultBook(around.budgets, choices, Chance(self.seed))
        exposure = Exposure(book, WireFaults(book), self.guard)
        paths = StatePaths(self.folder)
        draws = Chance(self.seed).stream("sqlite").randbytes
        faults = DiskFaults(book, self.installation.victims)
        with simulated_disk(faults, paths.state_dir, draws) as (disk, recording):
            storage = Storage(paths, disk, recording)
            return await self._run_on(storage, exposure, story)

    async def _run_on(self, storage: Storage, exposure: Exposure, story: Story) -> Simulated:
        around = self.around
        async with trio.open_nursery() as nursery:
            machine = Machine(self.seed, nursery, exposure.wires)
            world = SimulatedWorld(machine, self.installation, storage, exposure)
            around.world = world
            if around.watch is not None:
                world.watch(around.watch)
            try:
                await _bounded(story, world)
                around.virtual_s = trio.current_time()
            finally:
                machine.kill_all()
                with trio.CancelScope(shield=True):
                    try:
                        world.note_events()
                    finally:
                        await machine.shut_down()
        if self.guard.refusal is not None:
            raise self.guard.refusal
        if world.complaint is not None:
            raise world.complaint
        if machine.failures:
            name, error = machine.failures[0]
            raise SimulationBroken(f"{name} failed: {error!r}") from error
        world.check_at_rest(around.look)
        return Simulated(self.seed, machine.trace, around.virtual_s)


def _told_first(error: BaseException, world: SimulatedWorld | None) -> BaseException:
    """Return what an exploration broke first, of what it ended with and what was noted before."""
    if isinstance(error, Exception) and world is not None and world.complaint is not None:
        return world.complaint
    if isinstance(error, trio.TrioInternalError) and isinstance(error.__cause__, SimulationBroken):
        return error.__cause__
    return error


def _told(seed: int, trace: Trace) -> str:
    """Return how it came to this, for people."""
    lines = trace.lines()
    shown = lines[-STORY_LINES:]
    return "\n".join([f"seed {seed}; the last {len(shown)} of {len(lines)} entries:", *shown])


async def _bounded(story: Story, world: SimulatedWorld) -> None:
    """Run the story until it ends, takes too long, or a process fails.

    Raises:
        InvariantBroken: it took too long.
    """
    waiting: list[str] = []
    late_at_s = trio.current_time() + LIMIT_S
    world.machine.bound(late_at_s, lambda: waiting.append(world.machine.waits()))
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await world.machine.has_failed.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        with trio.move_on_after(LIMIT_S) as limit:
            await story(world)
        nursery.cancel_scope.cancel()
    if limit.cancelled_caught:
        text = f"the scenario has not ended after {LIMIT_S:g} s: {waiting[0]}"
        raise InvariantBroken(text, "P8")
