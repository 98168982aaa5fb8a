"""Who a process is, across id reuse; asking, signalling and waiting for exactly that process.

A process id alone names nobody: it is reused. Every kill here goes through a pidfd that was opened
first and checked afterwards, so a signal can never reach a process that took the id over. Where
the system has no pidfds the check comes immediately before the signal, and waits poll.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import trio

from runtime import process_table

_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that once ran, told apart from every other that had or will have its id.

    Attributes:
        pid: The process id, above 1.
        start_identity: On Linux `linux-proc-start:<boot id>:<start ticks>`.
    """

    pid: int
    start_identity: str


class Liveness(StrEnum):
    """What can be said about an identity now."""

    ALIVE = "alive"
    GONE = "gone"
    """Proven: ended (a zombie too), replaced by another process, or from an earlier boot."""
    UNPROVABLE = "unprovable"
    """Something has the id, but whether it is this process cannot be seen."""


def identity_of(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process that has `pid` now, a zombie included.

    None means that there is no such process, or none that this user may see.
    """
    state = process_table.read_process(pid)
    return None if state is None else ProcessIdentity(pid, state.start_identity)


def is_alive(identity: ProcessIdentity) -> Liveness:
    """Tell whether exactly this process still runs."""
    if identity.start_identity.partition(":")[0] != process_table.SCHEME:
        return Liveness.UNPROVABLE
    state = process_table.read_process(identity.pid)
    if state is None:
        return Liveness.UNPROVABLE if _has_holder(identity.pid) else Liveness.GONE
    if state.has_ended or state.start_identity != identity.start_identity:
        return Liveness.GONE
    return Liveness.ALIVE


def age_s(identity: ProcessIdentity) -> float | None:
    """Return for how many seconds this process has been there, or would have been.

    Sleep of the machine counts. None means that it cannot be told: another boot, another scheme.
    """
    return process_table.age_s(identity.start_identity)


def signal_exactly(identity: ProcessIdentity, sig: signal.Signals) -> bool:
    """Send `sig` to exactly this process; False when it is gone or cannot be proven to be it.

    Raises:
        PermissionError: The process belongs to another user.
    """
    try:
        with _held(identity) as descriptor:
            if descriptor is None or is_alive(identity) is not Liveness.ALIVE:
                return False
            _send(identity, descriptor, sig)
            return True
    except ProcessLookupError:
        return False


async def wait_gone(identity: ProcessIdentity) -> None:
    """Wait until exactly this process has ended; returns at once if it has.

    Unbounded: wrap it in a deadline. Cancelling it has no effect on the process. A process that
    cannot be proven to be the one meant is not waited for.
    """
    await trio.lowlevel.checkpoint()
    with _held(identity) as descriptor:
        if sys.platform == "linux" and descriptor is not None:
            if is_alive(identity) is Liveness.ALIVE:
                await trio.lowlevel.wait_readable(descriptor)
            return
    while is_alive(identity) is Liveness.ALIVE:  # noqa: ASYNC110 - no event to wait for here
        await trio.sleep(_POLL_S)


@contextmanager
def _held(identity: ProcessIdentity) -> Iterator[int | None]:
    """Yield a pidfd of whoever has the id; -1 where there are none, None if nobody has it.

    The caller checks the identity *after* the descriptor was opened: if it matches, the process
    existed before and so is the one that the descriptor holds.
    """
    if sys.platform != "linux":
        yield -1
        return
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _send(identity: ProcessIdentity, descriptor: int, sig: signal.Signals) -> None:
    if sys.platform == "linux":
        signal.pidfd_send_signal(descriptor, sig)
    else:
        os.kill(identity.pid, sig)


def _has_holder(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
