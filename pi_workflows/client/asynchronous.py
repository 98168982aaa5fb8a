"""The client of live views: subscriptions that survive the loss of a connection (C §2).

One task owns the connection: it connects, restores every subscription with the last accepted
revision, then reads until the connection ends. Guarantees:

- Delays between attempts are uniform in the upper half of min(10 s, 250 ms * 2^n); after 12 failed
  attempts every subscription gets one `reconnect_exhausted` and ends.
- The budget of attempts is whole again only after a hello and all restored subscriptions.
- A call whose reply was lost is sent again with a new request id and the same key.
- Events of one subscription arrive in order and never twice.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn, Self

import trio

from pi_workflows.client.channel import check_socket_path
from pi_workflows.client.errors import (
    ClientError,
    ConnectionLost,
    ServerStopped,
    Unavailable,
    VersionsDiffer,
)
from pi_workflows.client.follow_up_calls import LiveFollowUpCalls
from pi_workflows.client.messages import UNAVAILABLE, Event, Request, Response
from pi_workflows.client.run_calls import LiveRunCalls
from pi_workflows.client.sans_io import CONNECT_MS, Connection, Reply, new_id, reply_of
from pi_workflows.client.settings_calls import LiveSettingsCalls
from pi_workflows.client.subscription import Subscription
from pi_workflows.protocol.canonical import JsonObject

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

RECONNECT_ATTEMPTS: Final = 12
DELAY_MS_FIRST: Final = 250
DELAY_MS_MAX: Final = 10_000

_READ_BYTES: Final = 65_536


def reconnect_delay_ms(attempt: int, uniform: Callable[[float, float], float]) -> float:
    """Return the delay before the reconnect attempt with this number, counted from 0."""
    ceiling = min(DELAY_MS_MAX, DELAY_MS_FIRST * 2**attempt)
    return uniform(ceiling / 2, ceiling)


@dataclass(eq=False, slots=True, kw_only=True)
class _Call:
    """One request whose response is awaited, across connections.

    A call with a `subscription` installs it; one that is `restoring` has no caller: it belongs to
    the connection that sent it.
    """

    operation: str
    key: str
    payload: JsonObject = field(default_factory=dict)
    run_id: str | None = None
    expected_revision: int | None = None
    subscription: Subscription | None = None
    restoring: bool = False
    done: trio.Event = field(default_factory=trio.Event)
    response: Response | None = None
    failure: ClientError | None = None


class LiveClient(LiveRunCalls, LiveSettingsCalls, LiveFollowUpCalls):
    """See the module. Enter it as an async context manager; leaving closes the connection.

    Args:
        connect: opens one stream to the server; called again after a loss. It may raise OSError
            or `Unavailable`; after `ServerStopped` no further attempt is made.
        uniform: draws the delays; tests give their own.
        fresh_id: makes the ids of requests, keys and subscriptions; a simulation gives its own.

    Attributes:
        failure: why the client gave up, None while it has not.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[trio.abc.Stream]],
        uniform: Callable[[float, float], float] = random.uniform,  # noqa: S311 - no secret
        fresh_id: Callable[[], str] = new_id,
    ) -> None:
        self._connect = connect
        self._uniform = uniform
        self._fresh_id = fresh_id
        self._client_id = fresh_id()
        self._subscriptions: dict[str, Subscription] = {}
        self._calls: dict[str, _Call] = {}
        self._stream: trio.abc.Stream | None = None
        self._connection = Connection()
        self._sending = trio.Lock()
        self._unrestored = 0
        self._attempt = 0
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None
        self.failure: ClientError | None = None

    async def __aenter__(self) -> Self:
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        self._nursery.start_soon(self._stay_connected)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        assert self._manager is not None
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
        try:
            return await self._manager.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            # Callers catch what they raised, not a group that only the nursery made.
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise

    async def call(
        self,
        operation: str,
        payload: JsonObject | None = None,
        *,
        run_id: str | None = None,
        expected_revision: int | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """Carry one operation out, waiting through losses of the connection.

        A cancelled call may have been carried out; repeat it with the same key to learn.

        Raises:
            Refused: the server said no.
            ClientError: the client gave up; see `failure`.
            RequestInvalid: it exceeds 1 MiB or is not JSON; nothing was sent.
        """
        call = _Call(
            operation=operation,
            payload=payload or {},
            run_id=run_id,
            expected_revision=expected_revision,
            key=idempotency_key or self._fresh_id(),
        )
        return reply_of(await self._await_response(call), operation)

    async def watch(
        self, operation: str, *, run_id: str | None = None, payload: JsonObject | None = None
    ) -> Subscription:
        """Install a subscription and return once the server has accepted it.

        Args:
            operation: `view.run.watch` or `view.runs.watch`.
            run_id: the watched run, None for a list.
            payload: what goes beside `subscriptionId` and `revision`.

        Raises:
            Refused: for example `notFound` for a missing run; nothing is installed then.
            ClientError: the client gave up; see `failure`.
        """
        watch = Subscription(operation, run_id, payload or {}, self._fresh_id())
        self._subscriptions[watch.subscription_id] = watch
        try:
            call = _Call(
                operation=operation, key=self._fresh_id(), run_id=run_id, subscription=watch
            )
            reply_of(await self._await_response(call))
        except BaseException:
            self._forget(watch)
            raise
        return watch

    async def unwatch(self, watch: Subscription) -> None:
        """End a subscription of any kind; its channel ends at once.

        Raises:
            ClientError: as `call` does.
        """
        self._forget(watch)
        payload: JsonObject = {"subscriptionId": watch.subscription_id}
        await self.call("view.run.unwatch", payload, run_id=watch.run_id)

    async def _await_response(self, call: _Call) -> Response:
        if self.failure is not None:
            raise self.failure
        try:
            await self._submit(call)
            await call.done.wait()
        finally:
            self._calls = {key: other for key, other in self._calls.items() if other is not call}
        if call.failure is not None:
            raise call.failure
        assert call.response is not None
        return call.response

    async def _submit(self, call: _Call) -> None:
        """Send a call now if there is a connection; else the next connection sends it."""
        watch = call.subscription
        request = Request(
            request_id=self._fresh_id(),
            client_id=self._client_id,
            operation=call.operation,
            idempotency_key=call.key,
            payload=call.payload if watch is None else watch.request_payload(),
            run_id=call.run_id,
            expected_revision=call.expected_revision,
        )
        stream = self._stream
        frame = request.frame() if stream is None else self._connection.send(request)
        self._calls[request.request_id] = call
        if stream is None:
            return
        try:
            async with self._sending:
                await stream.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # The reading task sees the same loss, and the next connection sends again.
        except BaseException:
            await trio.aclose_forcefully(stream)  # Half a frame may be out.
            raise

    async def _stay_connected(self) -> None:
        while True:
            try:
                await self._one_connection()
            except (ServerStopped, VersionsDiffer) as error:
                return self._give_up(error, "connection_lost")
            except (
                ClientError,
                OSError,
                trio.BrokenResourceError,
                trio.ClosedResourceError,
                trio.TooSlowError,
            ) as error:
                lost = error
            if self._attempt >= RECONNECT_ATTEMPTS:
                failure = Unavailable(f"the server did not come back: {lost}")
                return self._give_up(failure, "reconnect_exhausted")
            self._announce("connection_lost")
            delay_ms = reconnect_delay_ms(self._attempt, self._uniform)
            self._attempt += 1
            await trio.sleep(delay_ms / 1000)

    async def _one_connection(self) -> NoReturn:
        """Connect, restore, then read until the connection ends; ends only by raising."""
        with trio.fail_after(CONNECT_MS / 1000):
            stream = await self._connect()
        async with stream:
            connection = Connection()
            with trio.fail_after(CONNECT_MS / 1000):
                while connection.hello is None:
                    self._take(connection, await stream.receive_some(_READ_BYTES))
            self._stream, self._connection = stream, connection
            try:
                await self._restore()
                while True:
                    self._take(connection, await stream.receive_some(_READ_BYTES))
            finally:
                self._stream = None

    async def _restore(self) -> None:
        """Send every installed subscription again, then every call that still waits."""
        waiting = [call for call in dict.fromkeys(self._calls.values()) if not call.restoring]
        self._calls.clear()
        installed = [watch for watch in self._subscriptions.values() if watch.installed]
        self._unrestored = len(installed)
        for watch in installed:
            watch.restore()
            await self._submit(
                _Call(
                    key=self._fresh_id(),
                    operation=watch.operation,
                    run_id=watch.run_id,
                    subscription=watch,
                    restoring=True,
                )
            )
        for call in waiting:
            await self._submit(call)
        self._note_restored()

    def _take(self, connection: Connection, data: bytes | bytearray) -> None:
        if not data:
            raise ConnectionLost("the server closed the connection")
        for message in connection.receive(bytes(data)):
            if isinstance(message, Event):
                watch = self._subscriptions.get(message.subscription_id)
                if watch is not None:
                    watch.deliver(message)
            else:
                self._settle(message)

    def _settle(self, response: Response) -> None:
        call = self._calls.pop(response.request_id, None)
        if call is None:
            return  # Its caller was cancelled.
        if call.restoring:
            reply_of(response)  # Refused: this connection ends and the budget stays spent.
            self._unrestored -= 1
            self._note_restored()
            return
        if call.subscription is not None:
            call.subscription.installed = response.outcome in {"accepted", "adopted"}
        call.response = response
        call.done.set()

    def _note_restored(self) -> None:
        if self._unrestored == 0:
            self._attempt = 0

    def _announce(self, reason: str) -> None:
        for watch in self._subscriptions.values():
            watch.deliver(Event(watch.subscription_id, UNAVAILABLE, {"reason": reason}))

    def _forget(self, watch: Subscription) -> None:
        self._subscriptions.pop(watch.subscription_id, None)
        watch.end()

    def _give_up(self, error: ClientError, reason: str) -> None:
        self.failure = error
        self._announce(reason)
        for watch in list(self._subscriptions.values()):
            self._forget(watch)
        for call in self._calls.values():
            call.failure = error
            call.done.set()


def unix_connector(path: Path) -> Callable[[], Awaitable[trio.SocketStream]]:
    """Return what `LiveClient` needs to reach the server's Unix socket.

    Raises:
        Unavailable: the path is too long for a socket.
    """
    check_socket_path(path)

    async def connect() -> trio.SocketStream:
        return await trio.open_unix_socket(path)

    return connect
