"""What scenarios have in common: a server that is kept running, runs that have to complete."""

from collections.abc import Callable
from typing import Final

import trio

from pi_workflows.chaos.core_workflows import OUTPUT
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.simulated_client import SimulatedClient
from pi_workflows.chaos.simulated_world import SimulatedServer, SimulatedWorld
from pi_workflows.client.asynchronous import LiveClient
from pi_workflows.client.messages import UNAVAILABLE
from pi_workflows.protocol.canonical import JsonObject

RUNS: Final = 3
ENDED: Final = frozenset({"completed", "failed", "timed_out", "cancelled"})


class Keeper:
    """Starts another server whenever the last one has ended, as a client would on demand.

    Attributes:
        server: the newest one.
        started: how many there have been.
    """

    def __init__(
        self,
        world: SimulatedWorld,
        prepare: Callable[[SimulatedServer, int], None] = lambda _, __: None,
    ) -> None:
        """`prepare` is given every server, and its number, before it takes its first step."""
        self._world: Final = world
        self._prepare: Final = prepare
        self.started = 0
        self.server = self._start()

    async def keep(self) -> None:
        """Keep a server running until cancelled."""
        while True:
            await self.server.process.ended.wait()
            await trio.sleep(self._world.chance.random())
            self.server = self._start()

    def also(self, server: SimulatedServer) -> None:
        """Take the end of another server for that of the newest."""
        if server.is_alive:
            self.server = server

    def _start(self) -> SimulatedServer:
        server = self._world.start_server()
        self.started += 1
        self._prepare(server, self.started)
        return server


async def start_runs(
    world: SimulatedWorld, client: SimulatedClient, workflow: str = "tally"
) -> list[str]:
    """Start `RUNS` runs of a workflow, one after the other; return their ids."""
    return [await world.start_run(client, workflow) for _ in range(RUNS)]


async def complete(world: SimulatedWorld, client: SimulatedClient, runs: list[str]) -> None:
    """Wait until all runs have ended.

    Raises:
        InvariantBroken: one did not complete with its output.
    """
    for run_id in runs:
        view = await world.await_end(client, run_id)
        if status_of(view) != "completed" or view.get("finalOutput") != OUTPUT:
            raise InvariantBroken(f"{run_id} is {status_of(view)}, not completed: {view}")


async def watch_to_the_end(live: LiveClient, run_id: str) -> None:
    """Watch a run until its view shows that it has completed.

    Raises:
        InvariantBroken: the view ends before, goes back, or shows another end.
    """
    watch = await live.watch("view.run.watch", run_id=run_id)
    shown = 0
    async for event in watch.events:
        if event.event == UNAVAILABLE:
            continue
        assert event.revision is not None
        if event.revision < shown:
            raise InvariantBroken(f"the view of {run_id} went back to {event.revision}")
        shown = event.revision
        if status_of(event.payload) in ENDED:
            if status_of(event.payload) != "completed":
                raise InvariantBroken(f"{run_id} is shown as {event.payload}")
            return
    raise InvariantBroken(f"the view of {run_id} ended before its run: {live.failure}")


def status_of(view: JsonObject) -> object:
    """Return the display status of a run's view."""
    display = view["display"]
    assert isinstance(display, dict)
    return display["status"]


async def stop(world: SimulatedWorld, server: SimulatedServer) -> None:
    """Stop a server in order, if it still runs, and check that nothing is left of it."""
    if server.is_alive:
        await server.stop()
    require_quiet(world)


def require_quiet(world: SimulatedWorld) -> None:
    """Check that a server that was stopped in order has left no process behind.

    Raises:
        InvariantBroken: it has.
    """
    left = [process.name for process in world.children()]
    if left:
        raise InvariantBroken(f"processes were left behind: {left}")
