"""Follows one run on the live client until it is over, the server is gone, or Ctrl-C."""

import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from pi_workflows.cli.progress import Progress
from pi_workflows.cli.views import is_over, last_step_error, remark_of, status_of
from pi_workflows.client.asynchronous import LiveClient, unix_connector
from pi_workflows.client.discovery import start_server
from pi_workflows.client.errors import ClientError, ServerStopped, Unavailable
from pi_workflows.client.holder import left_by_a_crash, stopped_in_order
from pi_workflows.client.messages import UNAVAILABLE
from pi_workflows.protocol.errors import ExitCode
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.protocol.states import DisplayStatus
from runtime.exception_groups import sole_error

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject

_TICK_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class Ending:
    """How following a run ended.

    Attributes:
        detached: Ctrl-C ended it; the run goes on.
        status: last display status, empty when no view came.
        remark: for a run that stands without being terminal, why and what next; else empty.
        shown_error: the newest step's error if its line shows all of it; else empty.
    """

    detached: bool
    status: str
    remark: str
    shown_error: str

    @property
    def exit_code(self) -> ExitCode:
        """Return 0 for a completed run and for a detachment, else 1."""
        done = self.detached or self.status == DisplayStatus.COMPLETED
        return ExitCode.OK if done else ExitCode.FAILED


def follow(paths: StatePaths, run_id: str, progress: Progress) -> Ending:
    """Show a run's views as they are pushed, until nothing more happens by itself.

    Raises:
        ClientError: the run is unknown, the server was stopped, or it did not come back; the
            message says how to come back to the run.
    """
    follower = _Follower(paths, run_id, progress)
    try:
        trio.run(follower.follow)
    except BaseExceptionGroup as group:
        raise sole_error(group) from None
    if follower.failure is not None:
        raise follower.failure
    view = follower.view
    remark = remark_of(view) if is_over(view) else ""
    return Ending(follower.detached, status_of(view), remark, last_step_error(view))


class _Follower:
    """The tasks of one following and what they leave behind."""

    def __init__(self, paths: StatePaths, run_id: str, progress: Progress) -> None:
        self._paths = paths
        self._run_id = run_id
        self._progress = progress
        self.view: JsonObject = {}
        self.detached = False
        self.failure: ClientError | None = None

    async def follow(self) -> None:
        """Return when the run is over, the client gave up, or Ctrl-C came."""
        # The interrupt is taken over first, so that from here on it can only detach.
        with trio.open_signal_receiver(signal.SIGINT) as interrupts, self._progress:
            async with trio.open_nursery() as tasks:
                tasks.start_soon(self._detach_at, interrupts, tasks.cancel_scope)
                tasks.start_soon(self._tick)
                try:
                    await self._show_views()
                except ClientError as error:
                    self.failure = error
                tasks.cancel_scope.cancel()

    async def _show_views(self) -> None:
        async with LiveClient(self._connect) as client:
            watch = await client.watch("view.run.watch", run_id=self._run_id)
            async for event in watch.events:
                if event.event == UNAVAILABLE:
                    self._progress.lost()
                elif event.event == "run_snapshot":
                    self.view = event.payload
                    self._progress.show(self.view)
                    if is_over(self.view):
                        return
            assert client.failure is not None, "only a client that gave up ends its channels"
            if isinstance(client.failure, ServerStopped):
                raise client.failure
            raise Unavailable(
                f"{client.failure.message}; come back to the run with:"
                f" pi-workflows watch {self._run_id}"
            )

    async def _connect(self) -> trio.SocketStream:
        """Connect; a crashed server is started again, one that was stopped stays stopped."""
        try:
            return await unix_connector(self._paths.socket)()
        except OSError:
            if left_by_a_crash(self._paths):
                await trio.to_thread.run_sync(self._start_server)
            elif stopped_in_order(self._paths):
                raise ServerStopped(
                    f"the server was stopped; {self._run_id} is parked and goes on when a server"
                    f" runs again: pi-workflows watch {self._run_id}"
                ) from None
            raise

    def _start_server(self) -> None:
        start_server(self._paths).close()

    async def _detach_at(self, interrupts: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for _ in interrupts:
            self.detached = True
            scope.cancel()

    async def _tick(self) -> None:
        while True:
            await trio.sleep(_TICK_SECONDS)
            self._progress.tick()
