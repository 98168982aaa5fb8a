"""One server process of a simulation, as a scenario meets it."""

from typing import Final, final

import trio

from pi_workflows.chaos.invariants import InvariantBroken
from runtime.simulation.machine import Machine
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.sync_points import SimulatedSyncPoints
from runtime.sync_points import SyncPoint

_LOOK_S: Final = 0.02


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

    @property
    def serves(self) -> bool:
        """Whether clients can reach it."""
        return self.is_alive and bool(self.sync_points.reached_count[SyncPoint.START_SOCKET_BOUND])

    async def await_served(self) -> None:
        """Wait until clients can reach it.

        Raises:
            InvariantBroken: it ends before.
        """
        while not self.serves:
            if not self.is_alive:
                raise InvariantBroken(f"{self.process.name} did not start: {self._words}", "P9")
            await trio.sleep(_LOOK_S)

    @property
    def _words(self) -> str:
        return self.process.output or "it was killed"

    def kill(self) -> None:
        """End it with SIGKILL: no line of its code runs after this."""
        self._machine.kill(self.process)

    async def stop(self) -> None:
        """Tell it to stop with SIGTERM and wait for its end."""
        self._machine.terminate(self.process)
        await self.process.ended.wait()
