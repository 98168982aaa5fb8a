"""One clock for a test and its armed servers: the machine's, moved on by what the test adds.

Two numbers in memory that a descriptor hands to a server: by how much its wall clock is off, and
by how much its monotonic clock is. Both clocks go on by themselves; a test only adds to them.
"""

import mmap
import os
import struct
import time
from typing import Final, final

import trio
from typing_extensions import override

from runtime.clock import WallMs
from runtime.identity import ProcessIdentity
from runtime.processes import ProcessTable, SystemProcessTable

LOOK_EVERY_S: Final = 0.01
"""How soon a waiting loop sees that its clock was moved: nobody wakes it for that."""

_NUMBERS: Final = struct.Struct("=qq")


class _Shared:
    """The two numbers, in milliseconds."""

    def __init__(self, descriptor: int) -> None:
        self._memory: Final = mmap.mmap(descriptor, _NUMBERS.size)

    def read(self) -> tuple[int, int]:
        wall_ms, monotonic_ms = _NUMBERS.unpack_from(self._memory)
        return wall_ms, monotonic_ms

    def add(self, wall_ms: int, monotonic_ms: int) -> None:
        wall, monotonic = self.read()
        _NUMBERS.pack_into(self._memory, 0, wall + wall_ms, monotonic + monotonic_ms)

    def close(self) -> None:
        self._memory.close()


class SharedClock:
    """The test's end: moves the clocks of every armed server of its home.

    Attributes:
        descriptor: to be passed to a server.
    """

    def __init__(self) -> None:
        self.descriptor: Final = os.memfd_create("clock")
        os.ftruncate(self.descriptor, _NUMBERS.size)
        self._shared: Final = _Shared(self.descriptor)

    def wall_ms(self) -> int:
        """Return the wall time that the servers see."""
        return time.time_ns() // 1_000_000 + self._shared.read()[0]

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock on, or back; the monotonic one does not notice.

        This is also what a sleep of the machine looks like where CLOCK_MONOTONIC stands still.
        """
        self._shared.add(round(seconds * 1000), 0)

    def pass_time(self, seconds: float) -> None:
        """Let time pass on both clocks at once; timers that are due by then fire."""
        self._shared.add(round(seconds * 1000), round(seconds * 1000))

    def close(self) -> None:
        """Give the memory back; servers that live keep it as it is."""
        self._shared.close()
        os.close(self.descriptor)


@final
class ServedClock(trio.abc.Clock):
    """The server's end, which is its World's clock and the one its loop sleeps by."""

    def __init__(self, descriptor: int) -> None:
        self._shared: Final = _Shared(descriptor)

    def wall_ms(self) -> WallMs:
        return WallMs(time.time_ns() // 1_000_000 + self._shared.read()[0])

    def monotonic(self) -> float:
        return time.monotonic() + self._shared.read()[1] / 1000

    @override
    def start_clock(self) -> None:
        """Nothing: it has always been going."""

    @override
    def current_time(self) -> float:
        return self.monotonic()

    @override
    def deadline_to_sleep_time(self, deadline: float) -> float:
        return min(deadline - self.monotonic(), LOOK_EVERY_S)

    def passed_s(self) -> float:
        """Return the time that the test has let pass, in seconds."""
        return self._shared.read()[1] / 1000


@final
class AgedProcesses:
    """The system's process table, in which time passes for all, too."""

    def __init__(self, clock: ServedClock) -> None:
        system: ProcessTable = SystemProcessTable()
        self._clock: Final = clock
        self._system: Final = system
        self.own_pid: Final = system.own_pid
        self.identity_of: Final = system.identity_of
        self.is_alive: Final = system.is_alive
        self.leader_started_by: Final = system.leader_started_by
        self.signal_exactly: Final = system.signal_exactly
        self.wait_gone: Final = system.wait_gone
        self.end_session: Final = system.end_session

    def age_s(self, identity: ProcessIdentity) -> float | None:
        age = self._system.age_s(identity)
        return None if age is None else age + self._clock.passed_s()
