"""A whole installation in one trio loop: servers, runners, clients, disk and clock."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, cast, final

import trio

from pi_workflows.chaos.batches import Batches
from pi_workflows.chaos.installation import Exposure, Installation
from pi_workflows.chaos.invariants import InvariantBroken, check_at_rest
from pi_workflows.chaos.journal import Journal
from pi_workflows.chaos.outside import Outside
from pi_workflows.chaos.process_faults import RUNNER, ProcessFaults
from pi_workflows.chaos.rot import Rot
from pi_workflows.chaos.secrets_kept import check_secrets, readable
from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.sim_timeline import Timeline
from pi_workflows.chaos.simulated_client import SimulatedClient
from pi_workflows.chaos.simulated_programs import programs
from pi_workflows.chaos.simulated_runner import Workplace
from pi_workflows.chaos.simulated_server import SimulatedServer
from pi_workflows.chaos.simulated_sources import PROJECT, SimulatedSources
from pi_workflows.chaos.simulated_state import SimulatedStateFiles, Storage
from pi_workflows.chaos.trace import note_events
from pi_workflows.client.asynchronous import LiveClient
from pi_workflows.client.errors import Refused
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ExitCode
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.protocol.states import ParkReason
from pi_workflows.server import explained, serve
from runtime.chaos.disk_survivors import Persistence
from runtime.chaos.outcome import PromiseBroken, ScenarioRefused
from runtime.exception_groups import sole_error
from runtime.simulation.chance import Draws, SeededIds
from runtime.simulation.machine import Machine
from runtime.simulation.network import SimulatedNetwork
from runtime.simulation.processes import ACTING, SimulatedProcess
from runtime.simulation.spawner import SimulatedSpawner
from runtime.simulation.sync_points import SimulatedSyncPoints
from runtime.sync_points import SyncPoint
from store.database import Reader
from store.opening import open_reader
from store.transaction import Reading

PERSISTENCE: Final = tuple(model.value for model in Persistence)

HOME: Final = Path("/simulated/home")
"""Where socket, lock and registry lie; on no real disk."""

END_S: Final = 1_800.0
"""Virtual time within which a run has to end."""

_POLL_S_FIRST: Final = 0.25
_POLL_S_MAX: Final = 30.0
_SETTLED: Final = frozenset({"completed", "failed", "timed_out", "cancelled", "ambiguous"})


@final
class SimulatedWorld:
    """What a scenario acts on.

    Attributes:
        machine: processes, clocks, wires and disk.
        sources: the workflow files.
        journal: what user code was run.
        outside: where effects land.
        chance: draws for the scenario itself.
        book: the faults that may still happen, and the choices they are made by.
        faults: what strikes its processes.
        guard: up while code of the scenario or of a workflow runs.
        has_calmed: set when nothing may fail any more.
        storage: where the database lies.
        batches: how many commands were committed at a time.
        rot: what bytes of the database come to that change by themselves.
        timeline: what was committed, by whom, and done outside, among all that happened.
        complaint: the first promise that was broken after a commit; None while there is none.
    """

    def __init__(
        self,
        machine: Machine,
        installation: Installation,
        storage: Storage,
        exposure: Exposure,
    ) -> None:
        """Take over a machine with nothing on it but a database, or none."""
        book, guard = exposure.book, exposure.guard
        self.machine: Final = machine
        self.sources: Final = SimulatedSources(installation.workflows)
        self.journal: Final = Journal()
        self.chance: Final = machine.chance.stream("scenario")
        self.capacity: Final = installation.capacity
        self._store: Final = installation.store
        self.book: Final = book
        self.guard: Final = guard
        self.faults: Final = ProcessFaults(book, installation.victims)
        self.has_calmed: Final = trio.Event()
        self.timeline: Final = Timeline(machine.trace)
        self.outside: Final = Outside(self.timeline.note_outside)
        self._wires: Final = exposure.wires
        self._calmed_at = 0.0
        self._clients: Final[list[SimulatedClient]] = []
        self._servers: Final[list[SimulatedServer]] = []
        self._readers: Final[dict[SimulatedProcess, Reader]] = {}
        self._watching: Callable[[Seen], None] | None = None
        self.complaint: PromiseBroken | None = None
        self.storage: Final = storage
        self._state: Final = storage.paths
        self._paths: Final = StatePaths(HOME)
        self._serving: Final[set[SimulatedProcess]] = set()
        database = storage.paths.database.name
        self.batches: Final = Batches(self._complain)
        self.rot: Final = Rot(storage.disk, database, machine.trace, self._complain)
        workplace = Workplace(
            machine,
            self.sources,
            self.journal,
            installation.work_s,
            self.outside,
            guard,
            lambda process, place: self.faults.at_place(process, RUNNER, place),
            installation.stand_ins,
            installation.speaks_as,
        )
        self._programs: Final = programs(workplace, self._state.database, installation.read_s)
        book.note_into(machine.trace)
        machine.trace.hide(str(storage.paths.home), "/simulated/state")
        self.faults.join(self)
        storage.disk.faults.join(self)

    def decide(self, what: str, *options: str) -> str:
        """Decide something that the engine is to explore; the first option is the ordinary one."""
        return self.book.choices.pick(what, options)

    def calm(self) -> None:
        """Let nothing fail any more, and everything go on that stands still."""
        if not self.has_calmed.is_set():
            self.faults.calm()
            if self.rot.is_unnoticed:  # Only a start after an unclean stop has to look.
                for server in self.servers():
                    server.kill()
            self._calmed_at = trio.current_time()
            self.has_calmed.set()

    def watch(self, look: Callable[[Seen], None]) -> None:
        """Show `look` what is committed, after every commit of a server.

        The first error of it ends the simulation.
        """
        self._watching = look

    def start_server(self) -> SimulatedServer:
        """Start a server process at once; clients find out when it serves."""
        points: list[SimulatedSyncPoints] = []

        async def program(process: SimulatedProcess) -> int:
            spawner = SimulatedSpawner(self.machine, process, self._programs)
            world = self.machine.world_of(process, spawner, points[0])
            state = SimulatedStateFiles(self.storage, process, partial(self.opened, process))
            self.rot.begins(process, is_alone=self.server_processes() == [process])
            try:
                await serve(world, self._paths, self.capacity, state=state, store=self._store)
            except Exception as error:  # noqa: BLE001 - a bug is raised again, whatever it is
                end = explained(sole_error(error))
                process.output = end.text
                self.rot.ends(process, end)
                return end.exit_code
            return ExitCode.OK

        process = self.machine.start("server", program)
        points.append(SimulatedSyncPoints(process, self.machine.kill, self.passing))
        server = SimulatedServer(self.machine, process, points[0])
        self._servers.append(server)
        return server

    @property
    def is_served(self) -> bool:
        """Whether a server lives that has come to its socket."""
        return any(process in self._serving for process in self.server_processes())

    @property
    def persistence(self) -> tuple[str, ...]:
        """In which ways the disk may keep what was not flushed when the power goes."""
        return PERSISTENCE

    def cut_power(self, model: str, instant: Draws) -> None:
        """Let the machine die, and come up again with what its disk has kept.

        From inside a call of a process nobody gets to another one.

        Args:
            model: one of `persistence`.
            instant: decides where the model leaves it open.
        """

        def lose() -> None:
            self.machine.trace.note("disk", "power cut", model)
            self.machine.disk.lose_power(instant)
            self.storage.disk.cut_power(Persistence(model), instant)

        if self.acting() is None:
            self.machine.cut_power(lose)
        else:
            self.machine.cut_power_now(lose)

    def now_s(self) -> float:
        """Return virtual seconds; see `DiskHooks`."""
        return trio.current_time()

    def acting(self) -> SimulatedProcess | None:
        """Return the process whose code runs now; None for the scenario itself."""
        return ACTING.get()

    def doom(self, process: SimulatedProcess) -> None:
        """End a process from inside a call of its own; see `DiskHooks`."""
        self.machine.kill_now(process)

    def servers(self) -> list[SimulatedServer]:
        """Return the servers that live, oldest first."""
        self._servers[:] = [server for server in self._servers if server.is_alive]
        return list(self._servers)

    def server_processes(self) -> list[SimulatedProcess]:
        """Return the processes of the servers that live, oldest first."""
        return [server.process for server in self.servers()]

    def client(self) -> SimulatedClient:
        """Return a new client; it connects when it is first used."""
        process = self.machine.start("client", _wait_for_ever, is_elsewhere=True)
        client = SimulatedClient(
            self.machine, process, self._paths, self._wires.repeats, self._told_of_damage
        )
        self._clients.append(client)
        return client

    def live_client(self) -> LiveClient:
        """Return the client of live views, the real one; enter it to connect."""
        process = self.machine.start("viewer", _wait_for_ever, is_elsewhere=True)
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
                the run does not end within half an hour in which nothing fails.
        """
        pause_s = _POLL_S_FIRST
        began_s = trio.current_time()
        while True:
            try:
                reply = await client.call("view.run.get", run_id=run_id)
            except Refused as refused:
                raise InvariantBroken(f"{run_id} was acknowledged: {refused}", "P1") from refused
            view = cast("JsonObject", reply.receipt["view"])
            display = cast("JsonObject", view["display"])
            if display["status"] in _SETTLED:
                return view
            if display.get("code") == ParkReason.NO_PROGRESS:
                await client.call("run.resume", run_id=run_id)
            is_late = trio.current_time() > max(began_s, self._calmed_at) + self._end_s()
            if self.has_calmed.is_set() and is_late:
                raise InvariantBroken(f"{run_id} has not ended within {END_S:g} s: {view}", "P8")
            await trio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _POLL_S_MAX)

    def _end_s(self) -> float:
        """Return how long a run may take.

        What waits for an instant waits longer when a clock that is set back moves it away.
        """
        return END_S + self.machine.clock.set_back_ms / 1000

    def runners(self) -> list[SimulatedProcess]:
        """Return the runner children that live, oldest first."""
        return [p for p in self.machine.processes.living.values() if p.name.startswith("runner-")]

    def children(self) -> list[SimulatedProcess]:
        """Return every child of a server that lives, oldest first."""
        names = ("runner-", "resolver-", "reader-")
        return [p for p in self.machine.processes.living.values() if p.name.startswith(names)]

    def acknowledged(self) -> list[tuple[str, JsonObject]]:
        """Return operation and receipt of every command that was answered, by client."""
        return [answered for client in self._clients for answered in client.acknowledged]

    def acknowledged_runs(self) -> list[str]:
        """Return the ids of the runs whose start was answered."""
        return [
            cast("str", receipt["runId"])
            for operation, receipt in self.acknowledged()
            if operation == "run.start"
        ]

    async def await_runs(self, count: int) -> list[str]:
        """Wait until so many runs were started; return their ids in this order."""
        while len(runs := self.acknowledged_runs()) < count:  # noqa: ASYNC110 - of any client
            await trio.sleep(_POLL_S_FIRST / 10)
        return runs

    def check_at_rest(self, look: Callable[[Seen], None] = lambda _: None) -> None:
        """Check every invariant of a database that nobody has open.

        Args:
            look: shown what there is in the end, after that.

        Raises:
            InvariantBroken: says which.
        """
        if twice := self.outside.twice():
            raise InvariantBroken(f"carried out more than once: {twice}", "P5")
        if written := self.storage.disk.written_by_readers:
            raise InvariantBroken(f"a read path has done this: {written[0]}", "P2")
        now = self.machine.clock.wall_ms()
        database = self._state.database
        check_secrets(self.machine.secrets, readable(self.machine, self._state.state_dir))
        check_at_rest(database, self.journal, self.acknowledged_runs(), now)
        if database.exists():
            reader = open_reader(database)
            try:
                with reader.snapshot(), self.guard:
                    look(self.seen(reader))
            finally:
                reader.close()

    def seen(self, reader: Reader) -> Seen:
        """Return what an invariant is shown of the state that a reader sees."""
        reading = Reading(reader.connection, self.machine.clock.wall_ms())
        return Seen(reading, self.outside, self.journal.executions, self.acknowledged)

    def note_events(self) -> None:
        """Put every event of the database into the trace; nobody has it open."""
        note_events(self._state.database, self.machine.trace)

    def _told_of_damage(self) -> None:
        for process in self.server_processes():
            if process in self._serving:
                self.rot.told(process)

    def opened(self, process: SimulatedProcess, reader: Reader) -> None:
        """Look through this reader from now on when the process has committed."""
        self._readers[process] = reader

    def passing(self, process: SimulatedProcess, point: SyncPoint) -> None:
        """Let happen what may where a process that owns the database comes by."""
        reader = self._readers.get(process)
        self.rot.passes(process, point)
        self.batches.passes(process, point)
        if point is SyncPoint.START_SOCKET_BOUND:
            self._serving.add(process)
        if point is SyncPoint.COMMAND_AFTER_COMMIT_BEFORE_REPLY and reader is not None:
            with self.book.quiet(), reader.snapshot():
                self._show(process, reader)
        self.faults.passing(process, point)

    def _show(self, process: SimulatedProcess, reader: Reader) -> None:
        seen = self.seen(reader)
        self.timeline.note(seen.reading, process.name, trio.current_time())
        try:
            if self._watching is not None:
                with self.guard:
                    self._watching(seen)
        except PromiseBroken as broken:
            self._complain(broken)
        except ScenarioRefused as refused:
            self.guard.refusal = self.guard.refusal or refused
            self.machine.has_failed.set()

    def _complain(self, broken: PromiseBroken) -> None:
        """End the simulation over a promise that was broken."""
        self.complaint = self.complaint or broken
        self.machine.has_failed.set()


async def _wait_for_ever(_: SimulatedProcess) -> int:
    await trio.sleep_forever()
    raise AssertionError
