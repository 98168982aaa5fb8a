"""The client operations: what each takes, whether it leaves a receipt, and who carries it out."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from actors import client_requests as wire
from actors.client_requests import ClientRequest, PayloadInvalid, parse_payload
from actors.effect_control import EffectControl, EffectList, EffectResolve
from actors.follow_up_control import (
    FollowUpControl,
    FollowUpList,
    FollowUpQueue,
    FollowUpRemove,
)
from actors.heavy_reads import HeavyReads, ReadFailed
from actors.run_control import RunControl
from actors.server_views import ServerViews
from actors.services import Services
from actors.settings_control import (
    SettingsChange,
    SettingsControl,
    SettingsHistory,
    SettingsShow,
)
from actors.subscriptions import RunsSubscription, RunSubscription, Subscription, runs_page
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.states import CommandOutcome
from runtime.supervisor import describe_error
from store import run_views, runs
from store.errors import Fault, Rejected, StateBusyError, StoreCorrupt, StoreError
from store.receipts import Reply, refusal

PayloadT = TypeVar("PayloadT", bound=wire.Payload)


class Watcher(Protocol):
    """The connection's side of a subscription."""

    def watch(self, subscription: Subscription) -> bool:
        """Install a subscription; False when the connection watches as much as it may."""
        ...

    def unwatch(self, subscription_id: str) -> None:
        """Remove a subscription."""
        ...


@dataclass(frozen=True, slots=True)
class _Call(Generic[PayloadT]):
    """One request whose payload has been checked.

    Attributes:
        watcher: the connection that asked.
    """

    request: ClientRequest
    payload: PayloadT
    watcher: Watcher

    @property
    def run_id(self) -> str:
        """The run that the request names."""
        assert self.request.run_id is not None, "checked before the call was made"
        return self.request.run_id


class _Servable(Protocol):
    async def serve(self, request: ClientRequest, watcher: Watcher) -> Reply: ...


@dataclass(frozen=True, slots=True)
class _Operation(Generic[PayloadT]):
    """How one operation is checked and served."""

    payload: type[PayloadT]
    answer: Callable[[_Call[PayloadT]], Awaitable[Reply]]
    names_run: bool = False

    async def serve(self, request: ClientRequest, watcher: Watcher) -> Reply:
        """Check what the request names and carries, then answer it.

        Raises:
            PayloadInvalid: a field is missing, unknown or malformed.
        """
        if self.names_run != (request.run_id is not None):
            wanted = "names" if self.names_run else "does not name"
            raise PayloadInvalid(f"{request.operation} {wanted} a run")
        payload = parse_payload(self.payload, request.payload)
        return await self.answer(_Call(request, payload, watcher))


class Operations:
    """All operations of this server."""

    def __init__(self, services: Services, control: RunControl, views: ServerViews) -> None:
        self._services: Final = services
        self._log: Final = services.log.bind("operations")
        self._control: Final = control
        self._views: Final = views
        self._heavy: Final = HeavyReads(services)
        self._effects: Final = EffectControl(services)
        self._settings: Final = SettingsControl(services)
        self._follow_ups: Final = FollowUpControl(services)
        self._table: Final[Mapping[str, _Servable]] = {
            "run.start": _Operation(wire.RunStart, self._run_start),
            "run.pause": _Operation(wire.NoPayload, self._run_pause, names_run=True),
            "run.resume": _Operation(wire.NoPayload, self._run_resume, names_run=True),
            "run.cancel": _Operation(wire.RunCancel, self._run_cancel, names_run=True),
            "run.restart": _Operation(wire.NoPayload, self._run_restart, names_run=True),
            "run.changeSettings": _Operation(
                SettingsChange, self._change_settings, names_run=True
            ),
            "settings.show": _Operation(SettingsShow, self._settings_show, names_run=True),
            "settings.history": _Operation(
                SettingsHistory, self._settings_history, names_run=True
            ),
            "run.status": _Operation(wire.NoPayload, self._run_status, names_run=True),
            "run.list": _Operation(wire.RunList, self._run_list),
            "effect.list": _Operation(EffectList, self._effect_list),
            "effect.resolve": _Operation(EffectResolve, self._effect_resolve),
            "followUp.queue": _Operation(FollowUpQueue, self._follow_up_queue, names_run=True),
            "followUp.remove": _Operation(FollowUpRemove, self._follow_up_remove, names_run=True),
            "followUp.list": _Operation(FollowUpList, self._follow_up_list, names_run=True),
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
        operation = self._table.get(request.operation)
        if operation is None:
            return refuse(
                ErrorCode.OPERATION_UNKNOWN, f"there is no operation {request.operation}"
            )
        try:
            return await operation.serve(request, watcher)
        except (PayloadInvalid, ReadFailed) as refused:
            return refuse(refused.code, str(refused))
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

    async def _run_start(self, call: _Call[wire.RunStart]) -> Reply:
        return await self._control.start(call.request, call.payload)

    async def _run_pause(self, call: _Call[wire.NoPayload]) -> Reply:
        return await self._control.pause(call.request)

    async def _run_resume(self, call: _Call[wire.NoPayload]) -> Reply:
        return await self._control.resume(call.request)

    async def _run_cancel(self, call: _Call[wire.RunCancel]) -> Reply:
        return await self._control.cancel(call.request, call.payload)

    async def _run_restart(self, call: _Call[wire.NoPayload]) -> Reply:
        return await self._control.restart(call.request)

    async def _change_settings(self, call: _Call[SettingsChange]) -> Reply:
        return await self._settings.change(call.request, call.payload)

    async def _settings_show(self, call: _Call[SettingsShow]) -> Reply:
        return done(self._settings.shown(call.run_id, call.payload))

    async def _settings_history(self, call: _Call[SettingsHistory]) -> Reply:
        return done(self._settings.history(call.run_id, call.payload))

    async def _run_status(self, call: _Call[wire.NoPayload]) -> Reply:
        return done(await self._views.run_state(call.run_id))

    async def _run_list(self, call: _Call[wire.RunList]) -> Reply:
        return done(self._views.run_list(call.payload))

    async def _effect_list(self, call: _Call[EffectList]) -> Reply:
        return done(self._effects.listed(call.payload))

    async def _effect_resolve(self, call: _Call[EffectResolve]) -> Reply:
        return await self._effects.resolve(call.request, call.payload)

    async def _follow_up_queue(self, call: _Call[FollowUpQueue]) -> Reply:
        return await self._follow_ups.queue(call.request, call.payload)

    async def _follow_up_remove(self, call: _Call[FollowUpRemove]) -> Reply:
        return await self._follow_ups.remove(call.request, call.payload)

    async def _follow_up_list(self, call: _Call[FollowUpList]) -> Reply:
        return done(self._follow_ups.listed(call.run_id, call.payload))

    async def _server_status(self, _: _Call[wire.NoPayload]) -> Reply:
        return done(self._views.server_status())

    async def _server_stop(self, call: _Call[wire.NoPayload]) -> Reply:
        return await self._control.stop_server(call.request)

    async def _state_status(self, _: _Call[wire.NoPayload]) -> Reply:
        return done(await self._heavy.state_status())

    async def _state_verify(self, _: _Call[wire.NoPayload]) -> Reply:
        return done(await self._heavy.state_verify())

    async def _watch_runs(self, call: _Call[wire.WatchRuns]) -> Reply:
        wanted = call.payload
        return _watch(call.watcher, RunsSubscription(wanted.subscription_id, wanted.limit))

    async def _runs_page(self, call: _Call[wire.RunList]) -> Reply:
        with self._services.readers.reading() as reading:
            return done(runs_page(reading, call.payload.limit, call.payload.cursor))

    async def _run_view(self, call: _Call[wire.NoPayload]) -> Reply:
        with self._services.readers.reading() as reading:
            return done({"view": run_views.run_view(reading, call.run_id)})

    async def _watch_run(self, call: _Call[wire.WatchRun]) -> Reply:
        with self._services.readers.reading() as reading:
            runs.require(reading, call.run_id)
        wanted = call.payload
        return _watch(
            call.watcher, RunSubscription(wanted.subscription_id, call.run_id, wanted.revision)
        )

    async def _unwatch(self, call: _Call[wire.Unwatch]) -> Reply:
        call.watcher.unwatch(call.payload.subscription_id)
        return done({"subscribed": False})

    async def _content(self, call: _Call[wire.Content]) -> Reply:
        chunk = self._views.content(call.run_id, call.payload.path, call.payload.offset)
        if chunk is None:
            return Reply(
                CommandOutcome.NOT_FOUND,
                receipt={"code": ErrorCode.CONTENT_UNKNOWN.value},
                error="there is no such content; ask for the view again",
            )
        return done(chunk)


def done(receipt: JsonObject) -> Reply:
    """Return an accepted answer that left no row."""
    return Reply(CommandOutcome.ACCEPTED, receipt=receipt)


def refuse(code: str, text: str) -> Reply:
    """Return a refusal that left no row."""
    return Reply(CommandOutcome.REJECTED, receipt={"code": str(code)}, error=text)


def _watch(watcher: Watcher, subscription: Subscription) -> Reply:
    if watcher.watch(subscription):
        return done({"subscribed": True})
    return refuse(ErrorCode.LIMIT_REACHED, "this connection watches as much as it may")
