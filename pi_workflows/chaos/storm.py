"""Everything at once: first anything may fail, then nothing does and all must come to its end.

Which faults there are, and how often, is drawn anew for each seed: a mix of all of them would
hide what only a few can reach.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from pi_workflows.chaos.core_workflows import WORKFLOWS
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.keeping import Keeper, require_quiet, status_of
from pi_workflows.chaos.simulated_world import SimulatedServer, SimulatedWorld
from pi_workflows.client.errors import Refused
from pi_workflows.protocol.states import CommandOutcome
from runtime.simulation.processes import SimulatedProcess
from runtime.sync_points import SyncPoint

if TYPE_CHECKING:
    from pi_workflows.chaos.simulated_client import SimulatedClient

STORM_S: Final = 40.0
"""How long anything may fail."""

_RUNS_MIN: Final = 2
_RUNS_MAX: Final = 6
_PAUSE_S_MAX: Final = 4.0
_STILL_S_MAX: Final = 80.0
"""Longest standstill of a process: more than any claim lasts."""

_STEP_MS_MAX: Final = 900_000
_CHOSEN: Final = 0.5
_SETTLED: Final = frozenset({"completed", "cancelled", "ambiguous"})
_ALLOWED: Final = frozenset({CommandOutcome.CONFLICT, CommandOutcome.REJECTED})
"""How a cancel may be refused: the run has ended before, or another reason was first."""

Fault = Callable[[], Awaitable[None]]


class _Storm:
    """The state of one storm."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world: Final = world
        self._chance: Final = world.chance
        self._clients: Final = [world.client() for _ in range(2)]
        self._keeper: Final = Keeper(world)
        self._servers: Final[list[SimulatedServer]] = []
        self._paused: Final[list[SimulatedProcess]] = []
        self._runs: Final[list[str]] = []

    async def run(self) -> None:
        """Let it blow, then wait until all runs are settled and all servers are stopped.

        Raises:
            InvariantBroken: a run does not settle, or something is left behind.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keeper.keep)
            async with trio.open_nursery() as work:
                with trio.move_on_after(STORM_S):
                    work.start_soon(self._start_runs)
                    await self._blow()
                self._calm()
            await self._settle()
            nursery.cancel_scope.cancel()
        for server in [*self._servers, self._keeper.server]:
            if server.is_alive:
                await server.stop()
        require_quiet(self._world)

    async def _start_runs(self) -> None:
        for _ in range(self._chance.randint(_RUNS_MIN, _RUNS_MAX)):
            workflow = self._chance.choice(sorted(WORKFLOWS))
            client = self._chance.choice(self._clients[:1])
            self._runs.append(await self._world.start_run(client, workflow))
            await trio.sleep(self._chance.random() * _PAUSE_S_MAX)

    async def _blow(self) -> None:
        """Let faults of a drawn mix happen until the time is over."""
        every: list[Fault] = [
            self._kill_runner,
            self._pause_runner,
            self._kill_server,
            self._arm_server,
            self._pause_server,
            self._start_server,
            self._stop_server,
            self._step_clock,
            self._sleep,
            self._cancel,
            self._resume_one,
        ]
        mix = [fault for fault in every if self._chance.random() < _CHOSEN] or every
        pause_s = self._chance.random() * _PAUSE_S_MAX
        while True:
            await trio.sleep(self._chance.random() * pause_s)
            await self._chance.choice(mix)()

    def _calm(self) -> None:
        """Let everything go on that stands still."""
        for process in self._paused:
            if process.status is None:
                self._world.machine.resume(process)

    async def _settle(self) -> None:
        client = self._clients[0]
        for run_id in self._runs:
            view = await self._world.await_end(client, run_id)
            if status_of(view) not in _SETTLED:
                raise InvariantBroken(f"{run_id} is {status_of(view)}: {view}")

    def _living(self) -> list[SimulatedServer]:
        return [s for s in [*self._servers, self._keeper.server] if s.is_alive]

    async def _kill_runner(self) -> None:
        if runners := self._world.runners():
            self._world.machine.kill(self._chance.choice(runners))

    async def _pause_runner(self) -> None:
        if runners := self._world.runners():
            await self._pause(self._chance.choice(runners))

    async def _kill_server(self) -> None:
        if servers := self._living():
            self._chance.choice(servers).kill()

    async def _arm_server(self) -> None:
        points = [point for point in SyncPoint if point is not SyncPoint.SOCKET_MID_FRAME]
        times = 1 + int(self._chance.random() ** 2 * 12)
        self._keeper.server.sync_points.arm(self._chance.choice(points), times)

    async def _pause_server(self) -> None:
        if servers := self._living():
            await self._pause(self._chance.choice(servers).process)

    async def _pause(self, process: SimulatedProcess) -> None:
        """Let a process stand still, mostly for a moment, sometimes beyond every claim."""
        self._world.machine.pause(process)
        self._paused.append(process)
        await trio.sleep(self._chance.random() ** 3 * _STILL_S_MAX)
        if self._chance.random() < _CHOSEN and process.status is None:
            self._world.machine.resume(process)

    async def _start_server(self) -> None:
        self._servers.append(self._world.start_server())

    async def _stop_server(self) -> None:
        if servers := self._living():
            self._world.machine.terminate(self._chance.choice(servers).process)

    async def _step_clock(self) -> None:
        self._world.machine.step_clock(self._chance.randint(-_STEP_MS_MAX, _STEP_MS_MAX))

    async def _sleep(self) -> None:
        await self._world.machine.sleep(self._chance.random() ** 3 * _STEP_MS_MAX / 1000)

    async def _resume_one(self) -> None:
        standing = [process for process in self._paused if process.status is None]
        if standing:
            self._world.machine.resume(self._chance.choice(standing))

    async def _cancel(self) -> None:
        """Cancel a run; the storm does not wait for a server that stands still."""
        if not self._runs:
            return
        client: SimulatedClient = self._clients[1]
        with trio.move_on_after(_PAUSE_S_MAX):
            try:
                await client.call("run.cancel", {}, run_id=self._chance.choice(self._runs))
            except Refused as refused:
                if refused.outcome not in _ALLOWED:
                    raise
            return
        await client.leave()


async def storm(world: SimulatedWorld) -> None:
    """Anything may fail for a while; then all that was acknowledged must come to an end."""
    await _Storm(world).run()
