"""The process table as one injectable thing, so that a simulator can own who lives and dies."""

import os
import signal
from typing import Protocol, final

from runtime.identity import (
    Liveness,
    ProcessIdentity,
    age_s,
    identity_of,
    is_alive,
    signal_exactly,
    wait_gone,
)
from runtime.parentage import leader_started_by
from runtime.session_end import END_WAIT_S, end_session


class ProcessTable(Protocol):
    """Questions about, signals to and waits for exact processes."""

    def own_pid(self) -> int:
        """Return the process id of the caller."""
        ...

    def identity_of(self, pid: int) -> ProcessIdentity | None:
        """Return who has `pid` now; None if nobody visible has it."""
        ...

    def is_alive(self, identity: ProcessIdentity) -> Liveness:
        """Tell whether exactly this process still runs."""
        ...

    def age_s(self, identity: ProcessIdentity) -> float | None:
        """Return for how many seconds this process has been there; None if it cannot be told."""
        ...

    def leader_started_by(self, parent: ProcessIdentity, pid: int) -> ProcessIdentity | None:
        """Return who has `pid` if it leads a group and `parent` is its parent; else None."""
        ...

    def signal_exactly(self, identity: ProcessIdentity, sig: signal.Signals) -> bool:
        """Send `sig` to exactly this process; False if it is not provably there."""
        ...

    async def wait_gone(self, identity: ProcessIdentity) -> None:
        """Wait, unbounded, until exactly this process has ended."""
        ...

    async def end_session(
        self, leader: ProcessIdentity, marker: str, *, within_s: float = END_WAIT_S
    ) -> None:
        """Kill what is ours in the leader's session, without the leader; bounded and shielded."""
        ...


@final
class SystemProcessTable:
    """The operating system's own table."""

    def own_pid(self) -> int:
        """Return the process id of this process."""
        return os.getpid()

    def identity_of(self, pid: int) -> ProcessIdentity | None:
        """See `runtime.identity.identity_of`."""
        return identity_of(pid)

    def is_alive(self, identity: ProcessIdentity) -> Liveness:
        """See `runtime.identity.is_alive`."""
        return is_alive(identity)

    def age_s(self, identity: ProcessIdentity) -> float | None:
        """See `runtime.identity.age_s`."""
        return age_s(identity)

    def leader_started_by(self, parent: ProcessIdentity, pid: int) -> ProcessIdentity | None:
        """See `runtime.parentage.leader_started_by`."""
        return leader_started_by(parent, pid)

    def signal_exactly(self, identity: ProcessIdentity, sig: signal.Signals) -> bool:
        """See `runtime.identity.signal_exactly`."""
        return signal_exactly(identity, sig)

    async def wait_gone(self, identity: ProcessIdentity) -> None:
        """See `runtime.identity.wait_gone`."""
        await wait_gone(identity)

    async def end_session(
        self, leader: ProcessIdentity, marker: str, *, within_s: float = END_WAIT_S
    ) -> None:
        """See `runtime.session_end.end_session`."""
        await end_session(leader, marker, within_s=within_s)
