"""One server process of a simulation, as a scenario meets it."""

from typing import Final, final

from runtime.simulation.machine import Machine
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.sync_points import SimulatedSyncPoints


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
