"""Keep the server's own claim alive, and notice that the machine has slept.

Losing the claim ends the server. A claim that only expired, because the machine slept, is taken up
again by the next beat, for nobody has replaced it; leases of runs are not: who owned one has to
claim anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import trio

from actors.store_actor import StoreActor
from runtime.clock import Clock, WallMs
from store import host
from store.errors import StateBusyError
from store.host import HostClaim

HEARTBEAT_S: Final = 10.0
WAKE_GAP_S: Final = 5.0
"""A clock that went on by so much more than it should is a wake (C §4)."""


def beat_every_s(watchdog_s: float | None) -> float:
    """Return the pause between two beats: half of what a watchdog allows, 10 s at most."""
    return HEARTBEAT_S if watchdog_s is None else min(HEARTBEAT_S, watchdog_s / 2)


@dataclass(frozen=True, slots=True)
class Wake:
    """The clocks did not go on as they should between two beats.

    Attributes:
        wall_gap_s: by how much more than the monotonic clock the wall clock went on: a sleep
            during which CLOCK_MONOTONIC stands still, or a step; negative when it was set back.
        late_s: by how much later than asked for the loop came to the beat: a sleep during which
            CLOCK_MONOTONIC goes on, or a process that stood still.
    """

    wall_gap_s: float
    late_s: float


class Heartbeat:
    """Renews the claim every 10 s, or as often as a service manager wants to hear of it."""

    def __init__(
        self,
        store: StoreActor,
        claim: HostClaim,
        clock: Clock,
        *,
        woke: Callable[[Wake], None],
        beaten: Callable[[], object],
        every_s: float = HEARTBEAT_S,
    ) -> None:
        """Describe the heartbeat.

        Args:
            woke: called after a beat that followed a sleep of the machine or a step of its wall
                clock; the claim has been taken up again.
            beaten: called after each beat.
            every_s: the pause between two beats.
        """
        self._store: Final = store
        self._claim: Final = claim
        self._clock: Final = clock
        self._woke: Final = woke
        self._beaten: Final = beaten
        self._every_s: Final = every_s

    async def run(self) -> None:
        """Beat until cancelled.

        A beat that meets a foreign write lock is missed: the next one takes the claim up again.

        Raises:
            EpochLost: another server has taken over.
            StoreDown: the store has stopped.
        """
        last = _Instant.of(self._clock)
        while True:
            slept_from = self._clock.monotonic()
            await trio.sleep(self._every_s)
            now = _Instant.of(self._clock)
            wake = Wake(
                wall_gap_s=(now.wall_ms - last.wall_ms) / 1000 - (now.monotonic - last.monotonic),
                late_s=now.monotonic - slept_from - self._every_s,
            )
            last = now
            await self._beat()
            if abs(wake.wall_gap_s) > WAKE_GAP_S or wake.late_s > WAKE_GAP_S:
                self._woke(wake)
            self._beaten()

    async def _beat(self) -> None:
        try:
            await self._store.do_urgent(host.heartbeat, self._claim)
        except StateBusyError:
            return


@dataclass(frozen=True, slots=True)
class _Instant:
    wall_ms: WallMs
    monotonic: float

    @classmethod
    def of(cls, clock: Clock) -> "_Instant":
        return cls(clock.wall_ms(), clock.monotonic())
