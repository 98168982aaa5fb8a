"""What scenarios have in common: a server that is kept running, runs that have to complete."""

from typing import Final

import trio

from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.client.asynchronous import LiveClient
from pi_workflows.client.messages import UNAVAILABLE
from pi_workflows.protocol.canonical import JsonObject

ENDED: Final = frozenset({"completed", "failed", "timed_out", "cancelled"})

SHOWN_S: Final = 3_600.0
"""Virtual time within which a live view has to show the end of its run."""

_PATIENCE_S_MAX: Final = 60.0
"""After so long at most without an answer somebody starts another server."""


SERVED_S: Final = 300.0
"""Virtual time within which some start serves when nothing fails any more, clocks included."""

_LOOK_S: Final = 0.25
_QUICK_S: Final = 1.0
_FAILED_MAX: Final = 3
"""Who has failed so often at once waits eight times as long, and no longer."""


class Keeper:
    """Starts another server when the last one has ended or stands still, as clients would."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world: Final = world
        self._chance: Final = world.machine.chance.stream("keeper")

    async def keep(self) -> None:
        """Keep a server running until cancelled."""
        failed = 0
        while True:
            began_s = trio.current_time()
            server = self._world.start_server()
            while server.is_alive and not server.process.is_stopped:
                with trio.move_on_after(_PATIENCE_S_MAX * self._chance.random()):
                    await server.process.ended.wait()
            is_quick = trio.current_time() < began_s + _QUICK_S
            failed = min(failed + 1, _FAILED_MAX) if is_quick else 0
            await trio.sleep(self._chance.random() * 2**failed)


async def require_service(world: SimulatedWorld) -> None:
    """Wait until a server serves; nobody but the keeper does anything for it.

    Raises:
        InvariantBroken: none does in time, so somebody would have to help.
    """
    with trio.move_on_after(SERVED_S + world.machine.clock.set_back_ms / 1000):
        while not world.is_served:  # noqa: ASYNC110 - nobody tells of a new server
            await trio.sleep(_LOOK_S)
        return
    raise InvariantBroken(f"no start serves within {SERVED_S:g} s", "P9")


async def watch_to_the_end(live: LiveClient, run_id: str) -> None:
    """Watch a run until its view shows that it has completed.

    Raises:
        InvariantBroken: the view ends before, goes back, shows another end, or shows none within
            an hour.
    """
    with trio.move_on_after(SHOWN_S):
        await _watch(live, run_id)
        return
    raise InvariantBroken(f"no view has shown the end of {run_id} within {SHOWN_S:g} s", "P8")


async def _watch(live: LiveClient, run_id: str) -> None:
    watch = await live.watch("view.run.watch", run_id=run_id)
    shown = 0
    async for event in watch.events:
        if event.event == UNAVAILABLE:
            continue
        assert event.revision is not None
        if event.revision < shown:
            raise InvariantBroken(f"the view of {run_id} went back to {event.revision}", "P8")
        shown = event.revision
        if status_of(event.payload) in ENDED:
            if status_of(event.payload) != "completed":
                raise InvariantBroken(f"{run_id} is shown as {event.payload}", "P8")
            return
    raise InvariantBroken(f"the view of {run_id} ended before its run: {live.failure}", "P8")


def status_of(view: JsonObject) -> object:
    """Return the display status of a run's view."""
    display = view["display"]
    assert isinstance(display, dict)
    return display["status"]


def require_quiet(world: SimulatedWorld) -> None:
    """Check that a server that was stopped in order has left no process behind.

    Raises:
        InvariantBroken: it has.
    """
    left = [process.name for process in world.children()]
    if left:
        raise InvariantBroken(f"processes were left behind: {left}", "P3")
