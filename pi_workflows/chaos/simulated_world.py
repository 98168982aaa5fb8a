"""A whole installation in one trio loop: servers, runners, clients, disk and clock from one seed.

`simulate` runs a scenario, an async function of a `SimulatedWorld`, to its end in virtual time and
returns what happened. The same seed gives the same trace, whatever the interpreter's hash seed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast, final

import trio
import trio.testing

from pi_workflows.chaos.invariants import InvariantBroken, check_at_rest
from pi_workflows.chaos.journal import Journal
from pi_workflows.chaos.outside import Outside
from pi_workflows.chaos.simulated_client import SimulatedClient
from pi_workflows.chaos.simulated_programs import programs
from pi_workflows.chaos.simulated_runner import Workplace
from pi_workflows.chaos.simulated_sources import PROJECT, SimulatedSources
from pi_workflows.chaos.simulated_state import SimulatedStateFiles
from pi_workflows.chaos.trace import note_events
from pi_workflows.client.asynchronous import LiveClient
from pi_workflows.client.errors import Refused
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ExitCode
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.protocol.states import ParkReason
from pi_workflows.runner.messages import Call
from pi_workflows.server import explained, serve
from runtime.exception_groups import sole_error
from runtime.simulation.chance import SeededIds
from runtime.simulation.machine import Machine, SimulationBroken
from runtime.simulation.network import SimulatedNetwork
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.spawner import SimulatedSpawner
from runtime.simulation.sync_points import SimulatedSyncPoints
from runtime.simulation.trace import Trace

HOME: Final = Path("/simulated/home")
"""Where socket, lock and registry lie; on no real disk."""

CAPACITY: Final = 4

LIMIT_S: Final = 7_200.0
"""Virtual time in which every scenario has to end."""

END_S: Final = 1_800.0
"""Virtual time within which a run has to end."""

STORY_LINES: Final = 80
"""How much of the trace the error of a broken simulation tells."""

_WORK_S_MAX: Final = 2.0
_POLL_S_FIRST: Final = 0.25
_POLL_S_MAX: Final = 30.0
_SETTLED: Final = frozenset({"completed", "failed", "timed_out", "cancelled", "ambiguous"})


def some_work(_: Call, drawn: float) -> float:
    """Let a piece of user code take up to two seconds, most of them much less."""
    return _WORK_S_MAX * drawn**3


@final
class SimulatedServer:
    """One server process.

    Attributes:
        process: the process.
        sync_points: where it can be made to die.
    """

    def __init__(
        self, machine: Machine, process: SimulatedProcess, sync_points: SimulatedSyncPoints
    ) -> None:
        self._machine: Final = machine
        self.process: Final = process
        self.sync_points: Final = sync_points

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.process.status is None

    def kill(self) -> None:
        """End it with SIGKILL: no line of its code runs after this."""
        self._machine.kill(self.process)

    async def stop(self) -> None:
        """Tell it to stop with SIGTERM and wait for its end."""
        self._machine.terminate(self.process)
        await self.process.ended.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What there is before a scenario begins.

    Attributes:
        workflows: source text of workflow files by name.
        capacity: how many runners a server may have at a time.
        work_s: how long a piece of user code takes, given a number drawn from [0, 1).
    """

    workflows: dict[str, str] = field(default_factory=dict)
    capacity: int = CAPACITY
    work_s: Callable[[Call, float], float] = some_work


@final
class SimulatedWorld:
    """What a scenario acts on.

    Attributes:
        machine: processes, clocks, wires and disk.
        sources: the workflow files.
        journal: what user code was run.
        outside: where effects land.
        chance: draws for the scenario itself.
    """

    def __init__(self, machine: Machine, installation: Installation, folder: Path) -> None:
        """`folder` is a real one, for the database alone."""
        self.machine: Final = machine
        self.sources: Final = SimulatedSources(installation.workflows)
        self.journal: Final = Journal()
        self.chance: Final = machine.chance.stream("scenario")
        self.capacity: Final = installation.capacity
        self._clients: Final[list[SimulatedClient]] = []
        self._state: Final = StatePaths(folder)
        self._paths: Final = StatePaths(HOME)
        self.outside: Final = Outside()
        workplace = Workplace(
            machine, self.sources, self.journal, installation.work_s, self.outside
        )
        self._programs: Final = programs(workplace, self._state.database)

    def start_server(self) -> SimulatedServer:
        """Start a server process at once; clients find out when it serves."""
        points: list[SimulatedSyncPoints] = []

        async def program(process: SimulatedProcess) -> int:
            spawner = SimulatedSpawner(self.machine, process, self._programs)
            world = self.machine.world_of(process, spawner, points[0])
            state = SimulatedStateFiles(self._state, process)
            try:
                await serve(world, self._paths, self.capacity, state=state)
            except Exception as error:  # noqa: BLE001 - a bug is raised again, whatever it is
                end = explained(sole_error(error))
                process.output = end.text
                return end.exit_code
            return ExitCode.OK

        process = self.machine.start("server", program)
        points.append(SimulatedSyncPoints(process, self.machine.kill))
        return SimulatedServer(self.machine, process, points[0])

    def client(self) -> SimulatedClient:
        """Return a new client; it connects when it is first used."""
        process = self.machine.start("client", _wait_for_ever)
        client = SimulatedClient(self.machine, process, self._paths)
        self._clients.append(client)
        return client

    def live_client(self) -> LiveClient:
        """Return the client of live views, the real one; enter it to connect."""
        process = self.machine.start("viewer", _wait_for_ever)
        network = SimulatedNetwork(self.machine.wires, process)
        ids = SeededIds(self.machine.chance.stream(f"ids of {process.identity}"))
        delays = self.machine.chance.stream(f"delays of {process.identity}")
        return LiveClient(
            lambda: network.connect(self._paths.socket),
            delays.uniform,
            lambda: ids.token_bytes(16).hex(),
        )

    async def start_run(
        self, client: SimulatedClient, workflow: str, run_input: JsonValue = None
    ) -> str:
        """Start a run and return its id."""
        payload: JsonObject = {
            "projectPath": str(PROJECT),
            "workflow": workflow,
            "input": run_input,
        }
        return cast("str", (await client.call("run.start", payload)).receipt["runId"])

    async def await_end(self, client: SimulatedClient, run_id: str) -> JsonObject:
        """Wait until a run has ended, or only an operator can decide more; return its view.

        A run that was parked because its runners died in a row is resumed meanwhile.

        Raises:
            InvariantBroken: the server knows nothing of a run whose start it has answered, or
                the run does not end within half an hour.
        """
        pause_s = _POLL_S_FIRST
        began_s = trio.current_time()
        while True:
            try:
                reply = await client.call("view.run.get", run_id=run_id)
            except Refused as refused:
                raise InvariantBroken(f"{run_id} was acknowledged: {refused}") from refused
            view = cast("JsonObject", reply.receipt["view"])
            display = cast("JsonObject", view["display"])
            if display["status"] in _SETTLED:
                return view
            if display.get("code") == ParkReason.NO_PROGRESS:
                await client.call("run.resume", run_id=run_id)
            if trio.current_time() > began_s + END_S:
                raise InvariantBroken(f"{run_id} has not ended within {END_S:g} s: {view}")
            await trio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _POLL_S_MAX)

    def runners(self) -> list[SimulatedProcess]:
        """Return the runner children that live, oldest first."""
        return [p for p in self.machine.processes.living.values() if p.name.startswith("runner-")]

    def children(self) -> list[SimulatedProcess]:
        """Return every child of a server that lives, oldest first."""
        names = ("runner-", "resolver-", "reader-")
        return [p for p in self.machine.processes.living.values() if p.name.startswith(names)]

    def check_at_rest(self) -> None:
        """Check every invariant of a database that nobody has open.

        Raises:
            InvariantBroken: says which.
        """
        acknowledged = [
            cast("str", receipt["runId"])
            for client in self._clients
            for operation, receipt in client.acknowledged
            if operation == "run.start"
        ]
        if twice := self.outside.twice():
            raise InvariantBroken(f"carried out more than once: {twice}")
        now = self.machine.clock.wall_ms()
        check_at_rest(self._state.database, self.journal, acknowledged, now)

    def note_events(self) -> None:
        """Put every event of the database into the trace; nobody has it open."""
        note_events(self._state.database, self.machine.trace)


Scenario = Callable[[SimulatedWorld], Awaitable[None]]


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


def simulate(
    scenario: Scenario,
    seed: int,
    installation: Installation,
    *,
    folder: Path | None = None,
) -> Simulated:
    """Run a scenario to its end, check the invariants, and return what happened.

    Whatever still runs when the scenario returns is killed.

    Args:
        scenario: acts on the world; an error it raises leaves as itself, with the end of the
            trace as a note.
        seed: decides the order of everything.
        installation: what there is at the beginning.
        folder: an empty real folder for the database; None makes one and removes it.

    Raises:
        InvariantBroken: a promise of the product was broken.
        SimulationBroken: a process failed, or the simulation did.
    """
    memory = Path("/dev/shm")  # noqa: S108 - a private folder is made inside
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        clock = trio.testing.MockClock(autojump_threshold=0)
        told: list[Trace] = []
        try:
            return trio.run(
                _simulate, scenario, seed, installation, folder or Path(made), told, clock=clock
            )
        except BaseException as raised:
            error = sole_error(raised)
            for trace in told:
                error.add_note(_story(seed, trace))
            if error is raised:
                raise
            raise error from error.__cause__


async def _simulate(
    scenario: Scenario,
    seed: int,
    installation: Installation,
    folder: Path,
    told: list[Trace],
) -> Simulated:
    """Run the scenario; `told` gets the trace even when it fails."""
    ended_at = 0.0
    async with trio.open_nursery() as nursery:
        machine = Machine(seed, nursery)
        told.append(machine.trace)
        world = SimulatedWorld(machine, installation, folder)
        try:
            await _bounded(scenario, world)
            ended_at = trio.current_time()
        finally:
            machine.kill_all()
            with trio.CancelScope(shield=True):
                world.note_events()
                await machine.shut_down()
    if machine.failures:
        name, error = machine.failures[0]
        raise SimulationBroken(f"{name} failed: {error!r}") from error
    world.check_at_rest()
    return Simulated(seed, machine.trace, ended_at)


def _story(seed: int, trace: Trace) -> str:
    """Return how it came to this, for people."""
    lines = trace.lines()
    shown = lines[-STORY_LINES:]
    return "\n".join([f"seed {seed}; the last {len(shown)} of {len(lines)} entries:", *shown])


async def _bounded(scenario: Scenario, world: SimulatedWorld) -> None:
    """Run the scenario until it ends, takes too long, or a process fails.

    Raises:
        InvariantBroken: it took too long.
    """
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await world.machine.has_failed.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        with trio.move_on_after(LIMIT_S) as limit:
            await scenario(world)
        nursery.cancel_scope.cancel()
    if limit.cancelled_caught:
        raise InvariantBroken(f"the scenario has not ended after {LIMIT_S:g} s")


async def _wait_for_ever(_: SimulatedProcess) -> int:
    await trio.sleep_forever()
    raise AssertionError
