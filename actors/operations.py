"""The client operations: what each takes, whether it leaves a receipt, and who carries it out."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from actors import client_requests as wire
from actors.client_requests import ClientRequest, PayloadInvalid, parse_payload
from actors.run_control import RunControl
from actors.server_views import ServerViews
from actors.services import Services
from actors.subscriptions import RunsSubscription, RunSubscription, Subscription, runs_page
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.states import CommandOutcome
from runtime.supervisor import describe_error
from store import run_views, runs
from store.errors import Fault, Rejected, StateBusyError, StoreCorrupt, StoreError
from store.receipts import Reply, refusal


class Watcher(Protocol):
    """The connection's side of a subscription."""

    def watch(self, subscription: Subscription) -> bool:
        """Install a subscription; False when the connection watches as much as it may."""
        ...

    def unwatch(self, subscription_id: str) -> None:
        """Remove a subscription."""
        ...


_Handler = Callable[[ClientRequest, Any, Watcher], "Reply | Awaitable[Reply]"]


@dataclass(frozen=True, slots=True)
class _Operation:
    """How one operation is checked and served."""

    payload: type[wire.Payload]
    handler: _Handler
    names_run: bool = False


class Operations:
    """All operations of this server."""

    def __init__(self, services: Services, control: RunControl, views: ServerViews) -> None:
        self._services: Final = services
        self._log: Final = services.log.bind("operations")
        self._control: Final = control
        self._views: Final = views
        self._table: Final = {
            "run.start": _Operation(wire.RunStart, self._run_start),
            "run.cancel": _Operation(wire.RunCancel, self._run_cancel, names_run=True),
            "run.status": _Operation(wire.NoPayload, self._run_status, names_run=True),
            "run.list": _Operation(wire.RunList, self._run_list),
            "server.status": _Operation(wire.NoPayload, self._server_status),
            "server.stop": _Operation(wire.NoPayload, self._server_stop),
            "state.status": _Operation(wire.NoPayload, self._state_status),
            "state.verify": _Operation(wire.NoPayload, self._state_verify),
            "view.runs.watch": _Operation(wire.WatchRuns, self._watch_runs),
            "view.runs.page": _Operation(wire.RunList, self._runs_page),
            "view.run.get": _Operation(wire.NoPayload, self._run_view, names_run=True),
            "view.run.watch": _Operation(wire.WatchRun, self._watch_run, names_run=True),
            "view.run.unwatch": _Operation(wire.Unwatch, self._unwatch),
            "view.content": _Operation(wire.Content, self._content, names_run=True),
        }

    async def handle(self, request: ClientRequest, watcher: Watcher) -> Reply:
        """Carry out one request; every error becomes an answer without payload or traceback."""
        try:
            operation = self._table.get(request.operation)
            if operation is None:
                return refuse(
                    ErrorCode.OPERATION_UNKNOWN, f"there is no operation {request.operation}"
                )
            if operation.names_run != (request.run_id is not None):
                wanted = "names" if operation.names_run else "does not name"
                return refuse(ErrorCode.PAYLOAD_INVALID, f"{request.operation} {wanted} a run")
            payload = parse_payload(operation.payload, request.payload)
            reply = operation.handler(request, payload, watcher)
            return await reply if inspect.isawaitable(reply) else reply
        except PayloadInvalid as invalid:
            return refuse(ErrorCode.PAYLOAD_INVALID, str(invalid))
        except Rejected as rejected:
            return refusal(rejected)
        except StoreError as error:
            return self._fault(request, error)
        except Exception as error:  # noqa: BLE001 - one request must not end the server
            self._log.error(
                "operation_failed", operation=request.operation, error=describe_error(error)
            )
            return refuse(ErrorCode.INTERNAL, "the server failed to answer; its log says more")

    def _fault(self, request: ClientRequest, error: StoreError) -> Reply:
        self._log.error("operation_fault", operation=request.operation, code=str(error.code))
        if isinstance(error, StateBusyError | StoreCorrupt) or not isinstance(error, Fault):
            return refuse(str(error.code), str(error))
        return Reply(
            CommandOutcome.UNAVAILABLE, receipt={"code": str(error.code)}, error=str(error)
        )

    async def _run_start(self, request: ClientRequest, payload: Any, _: Watcher) -> Reply:
        return await self._control.start(request, payload)

    async def _run_cancel(self, request: ClientRequest, payload: Any, _: Watcher) -> Reply:
        return await self._control.cancel(request, payload)

    def _run_status(self, request: ClientRequest, _: Any, __: Watcher) -> Reply:
        return done(self._views.run_state(_run_of(request)))

    def _run_list(self, _: ClientRequest, payload: Any, __: Watcher) -> Reply:
        return done(self._views.run_list(payload))

    def _server_status(self, _: ClientRequest, __: Any, ___: Watcher) -> Reply:
        return done(self._views.server_status())

    async def _server_stop(self, request: ClientRequest, _: Any, __: Watcher) -> Reply:
        return await self._control.stop_server(request)

    def _state_status(self, _: ClientRequest, __: Any, ___: Watcher) -> Reply:
        return done(self._views.state_status())

    async def _state_verify(self, _: ClientRequest, __: Any, ___: Watcher) -> Reply:
        return done(await self._views.state_verify())

    def _watch_runs(self, _: ClientRequest, payload: Any, watcher: Watcher) -> Reply:
        return _watching(watcher.watch(RunsSubscription(payload.subscription_id, payload.limit)))

    def _runs_page(self, _: ClientRequest, payload: Any, __: Watcher) -> Reply:
        with self._services.readers.reading() as reading:
            return done(runs_page(reading, payload.limit, payload.cursor))

    def _run_view(self, request: ClientRequest, _: Any, __: Watcher) -> Reply:
        with self._services.readers.reading() as reading:
            return done({"view": run_views.run_view(reading, _run_of(request))})

    def _watch_run(self, request: ClientRequest, payload: Any, watcher: Watcher) -> Reply:
        run_id = _run_of(request)
        with self._services.readers.reading() as reading:
            runs.require(reading, run_id)
        subscription = RunSubscription(payload.subscription_id, run_id, payload.revision)
        return _watching(watcher.watch(subscription))

    def _unwatch(self, _: ClientRequest, payload: Any, watcher: Watcher) -> Reply:
        watcher.unwatch(payload.subscription_id)
        return done({"subscribed": False})

    def _content(self, _: ClientRequest, payload: Any, __: Watcher) -> Reply:
        chunk = self._views.content(payload.path, payload.offset)
        if chunk is None:
            return Reply(
                CommandOutcome.NOT_FOUND,
                receipt={"code": ErrorCode.CONTENT_UNKNOWN.value},
                error="there is no such content; ask for the view again",
            )
        return done(chunk)


def done(receipt: dict[str, Any]) -> Reply:
    """Return an accepted answer that left no row."""
    return Reply(CommandOutcome.ACCEPTED, receipt=receipt)


def refuse(code: str, text: str) -> Reply:
    """Return a refusal that left no row."""
    return Reply(CommandOutcome.REJECTED, receipt={"code": str(code)}, error=text)


def _watching(installed: bool) -> Reply:  # noqa: FBT001 - the answer of `watch`
    if installed:
        return done({"subscribed": True})
    return refuse(ErrorCode.PAYLOAD_INVALID, "this connection watches as much as it may")


def _run_of(request: ClientRequest) -> str:
    assert request.run_id is not None, "checked by `handle`"
    return request.run_id
