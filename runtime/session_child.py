"""A child that leads its own session, whoever is its parent: supervised, ended, reaped once."""

import signal
from typing import Final, Protocol, final

import trio

from runtime.errors import ProcessesSurvived
from runtime.identity import ProcessIdentity
from runtime.output_tail import OutputTail
from runtime.process import ExitStatus
from runtime.session_end import END_WAIT_S, STUCK_HINT, end_session

KILL_WAIT_S: Final = 5.0
"""How long a killed process may take to end; only one stuck in the kernel needs longer."""


class Leader(Protocol):
    """The process itself, towards the system and towards its parent."""

    @property
    def identity(self) -> ProcessIdentity:
        """Exactly which process."""
        ...

    def signal_group(self, sig: signal.Signals) -> None:
        """Signal the group that it leads; called only while it is not known to have exited."""
        ...

    async def exited(self) -> None:
        """Wait for its exit, without reaping it where that is possible."""
        ...

    async def reap(self) -> ExitStatus:
        """Reap it and say how it ended; it has exited. Called once."""
        ...

    def close(self) -> None:
        """Stop watching it; called once, last."""
        ...


@final
class SessionChild:
    """See `runtime.process.Child`; reaped and drained by tasks of trio's own, whoever waits."""

    def __init__(
        self, leader: Leader, marker: str, stream: trio.SocketStream, output: OutputTail
    ) -> None:
        """Supervise from now on; both tasks end with the child, or with trio's run."""
        self.identity: Final = leader.identity
        self.stream: Final = stream
        self._leader: Final = leader
        self._marker: Final = marker
        self._output: Final = output
        self._has_exited = False
        self._status: ExitStatus | None = None
        self._survived: ProcessesSurvived | None = None
        self._ended: Final = trio.Event()
        trio.lowlevel.spawn_system_task(self._see_off, name=f"reap {self.pid}")
        trio.lowlevel.spawn_system_task(output.drain, name=f"output of {self.pid}")

    @property
    def pid(self) -> int:
        """See `Child.pid`."""
        return self.identity.pid

    @property
    def has_ended(self) -> bool:
        """True once it has been reaped."""
        return self._ended.is_set()

    def output_tail(self) -> str:
        """Return the last part of what it printed; complete once `wait` has returned."""
        return self._output.text()

    async def wait(self) -> ExitStatus:
        """See `Child.wait`; cancelling the wait has no effect on the child."""
        await self._ended.wait()
        assert self._status is not None
        return self._status

    async def stop(self, grace_s: float = 2.0) -> ExitStatus:
        """End it and everything left of its session; see `Child.stop`."""
        with trio.CancelScope(shield=True):
            try:
                await self._end_group(grace_s)
            finally:
                self._output.close()
                await self.stream.aclose()
        # No checkpoint out here: a cancelled caller has more to put away.
        if self._survived is not None:
            raise self._survived
        assert self._status is not None
        return self._status

    async def _end_group(self, grace_s: float) -> None:
        self._signal_group(signal.SIGTERM)
        with trio.move_on_after(grace_s):
            await self._ended.wait()
            return
        self._signal_group(signal.SIGKILL)
        with trio.move_on_after(KILL_WAIT_S + END_WAIT_S):
            await self._ended.wait()
            return
        raise ProcessesSurvived(
            f"process {self.pid} did not end within {KILL_WAIT_S + END_WAIT_S:g} s of SIGKILL",
            hint=STUCK_HINT,
        )

    def _signal_group(self, sig: signal.Signals) -> None:
        """Signal the group before its leader has ended: until then its id cannot be reused."""
        if not self._has_exited:
            self._leader.signal_group(sig)

    async def _see_off(self) -> None:
        """Wait for the exit, end the session, reap, record.

        Until it is reaped its zombie keeps the session's number from being used again, which is
        what makes every member of the session provably its own.
        """
        try:
            await self._leader.exited()
            self._has_exited = True
            try:
                await end_session(self.identity, self._marker)
            except ProcessesSurvived as survived:
                self._survived = survived
            self._status = await self._leader.reap()
        finally:
            self._leader.close()
        self._output.drain_available()
        self._ended.set()
