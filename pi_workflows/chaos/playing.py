"""One exploration of a declared scenario: first anything may fail, then nothing does.

While faults may happen the runs are started, the actors act and a server is kept alive. Then all
that stands still goes on, the disk is repaired, and everything that was acknowledged has to come
to its end within a bounded virtual time.
"""

import linecache
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, final

import trio

from actors.store_actor import StoreActor
from pi_workflows.chaos.guarded import guarded
from pi_workflows.chaos.installation import Installation, some_work
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.keeping import Keeper, require_quiet, require_service, status_of
from pi_workflows.chaos.process_faults import VICTIMS
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.sim_timeline import Timeline
from pi_workflows.chaos.simulate import Circumstances, simulate
from pi_workflows.chaos.simulated_runner import as_itself
from pi_workflows.chaos.simulated_sources import PROJECT
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.chaos.stage import ENDS, Stage
from runtime.chaos.choices import Choices, Source
from runtime.chaos.outcome import PromiseBroken, ScenarioRefused
from runtime.chaos.own_code import OwnCode, nearest
from runtime.chaos.scenario import ActorBody, Scenario
from runtime.simulation.trace import Trace
from runtime.world import World
from store.database import Writer

SETTLED: Final = frozenset(ENDS)
"""What a run of an actor may come to."""


_ASKED_FOR: Final = (
    "; an effect that only a person can decide about ends so: allow it with"
    ' `ends=frozenset({"completed", "ambiguous"})`'
)


@dataclass(frozen=True, slots=True)
class Played:
    """What an exploration was.

    Attributes:
        choices: every decision.
        error: what it broke; None if it held.
        fired: how often each kind of fault really happened.
        checks: how often each invariant ran.
        virtual_s: how long it took in its own time.
    """

    trace: Trace
    timeline: Timeline
    choices: Choices
    error: Exception | None
    fired: Counter[str]
    checks: Counter[str]
    virtual_s: float


@final
class Play:
    """A declared scenario as a story of a simulated world."""

    def __init__(self, stage: Stage, own: OwnCode) -> None:
        self._stage: Final = stage
        self._own: Final = own
        self._runs: Final[dict[str, frozenset[str]]] = {}
        names = [*stage.always_checks, *stage.final_checks]
        self.checks: Final[Counter[str]] = Counter(dict.fromkeys(names, 0))

    async def story(self, world: SimulatedWorld) -> None:
        """Play it.

        Raises:
            InvariantBroken: something acknowledged does not end, or something is left behind.
        """
        async with trio.open_nursery() as upkeep:
            if self._stage.keeps_server:
                upkeep.start_soon(Keeper(world).keep)
            async with trio.open_nursery() as weather:
                weather.start_soon(self._weather, world)
                async with trio.open_nursery() as acts:
                    self._begin(acts, world)
                weather.cancel_scope.cancel()
            world.calm()
            await self._settle(world)
            upkeep.cancel_scope.cancel()
        for server in world.servers():
            await server.stop()
        require_quiet(world)

    def watched(self, seen: Seen) -> None:
        """Check what must always hold."""
        self._check(self._stage.always_checks, seen)

    def looked(self, seen: Seen) -> None:
        """Check what must hold in the end, and once more what must always."""
        self._check(self._stage.always_checks, seen)
        self._check(self._stage.final_checks, seen)

    def _begin(self, acts: trio.Nursery, world: SimulatedWorld) -> None:
        for plan in self._stage.actors:
            for name in plan.names:
                acts.start_soon(self._act, plan.body, world, name=f"actor {name}")
        acts.start_soon(self._start_runs, world)

    async def _weather(self, world: SimulatedWorld) -> None:
        await world.faults.blow()
        world.calm()
        if self._stage.keeps_server:
            await require_service(world)

    async def _act(self, body: ActorBody[SimulatedWorld], world: SimulatedWorld) -> None:
        await guarded(world.guard, body(world))

    async def _start_runs(self, world: SimulatedWorld) -> None:
        client = world.client()
        for wanted in self._stage.wanted:
            run_id = await world.start_run(client, wanted.workflow, wanted.run_input)
            self._runs[run_id] = wanted.ends
        await self._ended(world, list(self._runs))

    async def _settle(self, world: SimulatedWorld) -> None:
        """Require the end of every run that was acknowledged, whoever has started it."""
        if self._stage.keeps_server:
            await require_service(world)
            await self._ended(world, world.acknowledged_runs())

    async def _ended(self, world: SimulatedWorld, runs: list[str]) -> None:
        client = world.client()
        for run_id in runs:
            status = status_of(await world.await_end(client, run_id))
            ends = self._runs.get(run_id, SETTLED)
            if status not in ends:
                hint = _ASKED_FOR if status == "ambiguous" else ""
                raise InvariantBroken(
                    f"{run_id} is {status}, and not {' or '.join(sorted(ends))}{hint}", "P8"
                )

    def _check(self, checks: dict[str, Callable[[Seen], None]], seen: Seen) -> None:
        for name, check in checks.items():
            self.checks[name] += 1
            try:
                answer: object = check(seen)
                self._own.require_plain(name, check, answer)
            except AssertionError as broken:
                raise InvariantBroken(f"{name}: {_words_of(broken)}", name) from broken
            except Exception as error:
                raise self._own.refusal_of_check(name, error) from error


def play(
    scenario: Scenario[Stage], seed: int, source: Source, *, folder: Path | None = None
) -> Played:
    """Explore a scenario once; what it breaks is in the answer.

    Args:
        seed: decides the order of everything.
        source: decides which faults happen.
        folder: an empty real folder for the database; None makes one and removes it.

    Raises:
        ScenarioRefused: it cannot be explored as it is written.
    """
    stage = staged(scenario)
    own = OwnCode.at(scenario.place, PROJECT)
    acting = Play(stage, own)
    around = Circumstances(budgets=stage.budgets, source=source, look=acting.looked, own=own)
    if stage.always_checks:
        around.watch = acting.watched
    error: Exception | None = None
    try:
        simulate(acting.story, seed, installation_of(stage), around, folder=folder)
    except ScenarioRefused:
        raise
    except Exception as broken:  # noqa: BLE001 - whatever ends an exploration is its finding
        own.require_sound(broken, "an actor")
        error = broken
    world = around.world
    assert world is not None, "a world is made before anything can fail in it"
    book = world.book
    return Played(
        world.machine.trace,
        world.timeline,
        book.choices,
        error,
        book.fired,
        acting.checks,
        around.virtual_s,
    )


def staged(scenario: Scenario[Stage]) -> Stage:
    """Return what a scenario declares.

    Raises:
        ScenarioRefused: it declares nothing that could happen.
    """
    stage = Stage(folder=Path(scenario.place.rpartition(":")[0]).parent)
    try:
        scenario.body(stage)
    except ScenarioRefused:
        raise
    except Exception as error:
        raise OwnCode.at(scenario.place).refusal_of_declaring(scenario.name, error) from error
    _require_known(stage, scenario.place)
    if not stage.wanted and not stage.actors:
        raise ScenarioRefused(
            f"{scenario.place}: {scenario.name} starts no run and declares no actor."
        )
    if stage.budgets.rot and stage.budgets.power_cut:
        raise ScenarioRefused(
            f"{scenario.place}: {scenario.name} asks for rot and for power cuts. Nobody could say"
            " what a sound disk would have kept; make two scenarios of it."
        )
    return stage


def _require_known(stage: Stage, place: str) -> None:
    """Refuse what names nothing that the scenario has declared.

    Raises:
        ScenarioRefused: an unknown victim, or an unknown workflow.
    """
    known = sorted(stage.workflows)
    for name in stage.victims:
        if name not in VICTIMS:
            raise ScenarioRefused(f"{place}: nobody is a {name!r}{nearest(name, sorted(VICTIMS))}")
    for name in [*(run.workflow for run in stage.wanted), *(key[0] for key in stage.stand_ins)]:
        if name not in known:
            hint = nearest(name, known) if known else "; declare one with `workflow` or `source`."
            raise ScenarioRefused(f"{place}: there is no workflow {name!r}{hint}")


def installation_of(stage: Stage) -> Installation:
    """Return what there is before the scenario begins."""
    return Installation(
        workflows=stage.workflows,
        capacity=stage.capacity,
        work_s=stage.work_s or some_work,
        victims=stage.victims,
        speaks_as=stage.speaks_as or as_itself,
        stand_ins=stage.stand_ins,
        store=_store_of(stage),
        read_s=stage.read_s,
    )


def _store_of(stage: Stage) -> Callable[[Writer, World], StoreActor]:
    """Return what makes the owner of a writing connection, with the bounds of the scenario."""
    if stage.log_frames is None:
        return StoreActor
    due, most = stage.log_frames
    return partial(StoreActor, checkpoint_frames=due, log_frames_max=most)


def _words_of(broken: AssertionError) -> str:
    """Return the message of a failed assertion, or the line that failed."""
    if str(broken) or isinstance(broken, PromiseBroken):
        return str(broken).split("\n", 1)[0]
    last = traceback.extract_tb(broken.__traceback__)[-1]
    return linecache.getline(last.filename, last.lineno or 0).strip()
