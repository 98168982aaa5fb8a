"""Admit runs within capacity, soonest first; sleep until a commit, an exit or an exact instant.

A run that is being claimed counts against the capacity like one that is served. Cancel, resume,
renewal and clean-up never wait here.

Nothing is polled. Whatever can make a run claimable is a commit of this server, and the store
tells of each one after it; a run that an owner of ours has had in hand is looked at again when
that owner ends. So no hint can be missed, and an idle server does nothing.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from actors.run_owner import RunOwner
from actors.services import Services
from pi_workflows.protocol.ids import RunId
from pi_workflows.protocol.states import ResourceType
from runtime.supervisor import Restart, SupervisedTask, Supervisor
from store import run_queue
from store.transaction import Change

RECHECK_S: Final = 60.0
"""Longest sleep while some run is due later: the wall clock may have been stepped meanwhile."""

REFUSED_PAUSE_S: Final = 1.0
"""Pause after a claim was refused, so that a row that lists but refuses cannot spin the loop."""


def _nobody() -> None:
    """Stand in for somebody who wants to know."""


class Scheduler:
    """The one actor that starts run owners."""

    def __init__(
        self, services: Services, owners: Supervisor, population: Callable[[], None] = _nobody
    ) -> None:
        """Describe the scheduler.

        Args:
            owners: supervises the run owners; each fails alone.
            population: called whenever `active` has changed.
        """
        self._population: Final = population
        self._services: Final = services
        self._owners: Final = owners
        self._admitted: Final[set[str]] = set()
        self._held_back: dict[str, float] = {}
        self._wake = trio.Event()
        services.store.listen(self._changed)

    @property
    def active(self) -> int:
        """Runs that are being claimed or served."""
        return len(self._admitted)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Admit until cancelled."""
        task_status.started()
        while True:
            self._wake = trio.Event()
            pause = self._admit_due()
            with trio.move_on_after(pause):
                await self._wake.wait()

    def recheck(self) -> None:
        """Look at every run again, now: the machine has slept, or its clock was stepped."""
        self._held_back.clear()
        self._wake.set()

    def _changed(self, changes: frozenset[Change]) -> None:
        """Wake for a run that nobody here serves; the steps of one that is served are many."""
        for change in changes:
            if change.resource_type == ResourceType.RUN and (
                change.aggregate_key not in self._admitted
            ):
                self._wake.set()
                return

    def _admit_due(self) -> float:
        """Start owners for what is due; return how long to sleep, in seconds."""
        services = self._services
        now_s = trio.current_time()
        self._held_back = {
            run_id: until for run_id, until in self._held_back.items() if until > now_s
        }
        free = services.capacity - len(self._admitted)
        if free <= 0:
            return float("inf")
        with services.readers.reading() as reading:
            candidates = run_queue.claimable(reading, services.capacity * 2 + free)
            now = reading.now
        pause = float("inf")
        for candidate in candidates:
            if candidate.run_id in self._admitted:
                continue
            due_in = max((candidate.due_at - now) / 1000, self._held_for(candidate.run_id))
            if due_in > 0:
                pause = min(pause, due_in, RECHECK_S)
            elif free > 0:
                self._start(RunId(candidate.run_id))
                free -= 1
        return pause

    def _held_for(self, run_id: str) -> float:
        """Return for how many seconds a run is still held back; 0 or less when it is not."""
        return self._held_back.get(run_id, 0) - trio.current_time()

    def _start(self, run_id: RunId) -> None:
        self._admitted.add(run_id)
        self._population()
        self._owners.start(
            SupervisedTask(key=run_id, run=self._serving(run_id), restart=Restart.TEMPORARY)
        )

    def _serving(self, run_id: RunId) -> Callable[[], Awaitable[None]]:
        async def serve() -> None:
            served = False
            try:
                served = await RunOwner(self._services, run_id).run()
            finally:
                if not served:
                    self._held_back[run_id] = trio.current_time() + REFUSED_PAUSE_S
                self._admitted.discard(run_id)
                self._population()
                self._wake.set()

        return serve
