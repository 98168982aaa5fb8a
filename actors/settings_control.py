"""Settings for local clients: look at them, change them, and see who changed them."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import trio
from pydantic import Field, JsonValue

from actors.client_requests import LIST_LIMIT_MAX, ClientRequest, Payload
from actors.resolver import ask_resolver
from actors.resolver_child import NotResolved, RefusedWorkflow
from actors.runner_launch import workflow_source
from actors.services import HUMAN, Services
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import encode_frame
from pi_workflows.protocol.ids import derived_id
from pi_workflows.protocol.settings_patch import (
    Author,
    Operation,
    PatchRefused,
    apply_patch,
    parse_patch,
)
from pi_workflows.protocol.settings_rules import SettingsRules
from pi_workflows.protocol.states import CommandOutcome
from pi_workflows.protocol.version import SETTINGS_CHECK
from store import (
    blobs,
    definitions,
    projects,
    receipts,
    runs,
    settings_changing,
    settings_lists,
    settings_scopes,
)
from store.authority import Permit
from store.blobs import Blob
from store.errors import Rejected, StoreCorrupt
from store.receipts import Reply, Request
from store.settings_changing import NewChange, change_settings
from store.settings_errors import (
    SettingsBusyError,
    SettingsMoved,
    SettingsRefusedError,
    SettingsStaleError,
)
from store.settings_scopes import ScopeRow
from store.transaction import Reading, Transaction

TRIES_MAX: Final = 8
"""How often a change that expects no number is looked at anew because others were faster."""

CHECKS_MAX: Final = 8
"""Children at a time that look at changes; the next change waits for one to end."""

_Scope = Annotated[str, Field(min_length=1, max_length=2_048)]


class SettingsChange(Payload):
    """`run.changeSettings`; no scope means the run's own settings."""

    scope_id: _Scope | None = None
    patch: JsonValue
    expected_change_number: Annotated[int, Field(ge=0)] | None = None
    source: Annotated[
        str, Field(min_length=1, max_length=settings_changing.SOURCE_CHARS_MAX, pattern=r"\S")
    ] = "client"


class SettingsShow(Payload):
    """`settings.show`; no scope means all of the run's."""

    scope_id: _Scope | None = None
    cursor: Annotated[str, Field(max_length=4_096)] | None = None


class SettingsHistory(Payload):
    """`settings.history`; no scope means the run's own settings."""

    scope_id: _Scope | None = None
    after: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=LIST_LIMIT_MAX)] = LIST_LIMIT_MAX


@dataclass(frozen=True, slots=True)
class _Look:
    """What a change is held against, all of one snapshot.

    Attributes:
        made_before: the same request was carried out; nothing is to be checked.
        question: what the child is asked but for what the change makes.
    """

    scope: ScopeRow
    before: JsonValue
    rules: SettingsRules
    made_before: bool
    question: JsonObject
    project_path: str


class SettingsControl:
    """What local clients may ask of settings; a change leaves its receipt in its commit."""

    def __init__(self, services: Services) -> None:
        self._services: Final = services
        self._checking: Final = trio.Semaphore(CHECKS_MAX)

    def shown(self, run_id: str, payload: SettingsShow) -> JsonObject:
        """Return one page of the settings of a run, or one of them.

        Raises:
            RunUnknownError: there is no such run.
            SettingsUnknownError: it has no such settings.
            SettingsCursorError: the cursor is no cursor of this list.
        """
        with self._services.readers.reading() as reading:
            return settings_lists.page(reading, run_id, payload.scope_id, payload.cursor)

    def history(self, run_id: str, payload: SettingsHistory) -> JsonObject:
        """Return one page of the changes of settings, oldest first.

        Raises:
            RunUnknownError: there is no such run.
            SettingsUnknownError: it has no such settings.
        """
        with self._services.readers.reading() as reading:
            runs.require(reading, run_id)
            scope = settings_scopes.require(reading, run_id, payload.scope_id)
            return settings_lists.changes(reading, scope, payload.after, payload.limit)

    async def change(self, request: ClientRequest, payload: SettingsChange) -> Reply:
        """Authorise and apply a patch, have the workflow look at it, then record it.

        Race contract: equal requests make one change; later ones adopt it. Of changes that were
        made of the same settings one is recorded, and the others are looked at anew, up to 8
        times; one that expects a number is stale at once. Refusals are stored; that nothing could
        be found out is not stored.
        """
        asked = request.stored_by(self._services.identity.epoch)
        with self._services.readers.reading() as reading:
            known = receipts.stored(reading, asked)
        if known is not None:
            return known
        assert request.run_id is not None
        wanted = _Wanted(request.run_id, _request_id(request), payload)
        try:
            operations = parse_patch(payload.patch)
            for _ in range(TRIES_MAX):
                found = await self._try(asked, wanted, operations)
                if found is not None:
                    return found
        except PatchRefused as refused:
            return await self._refuse(asked, SettingsRefusedError(refused.code, str(refused)))
        except Rejected as refused:
            return await self._refuse(asked, refused)
        return await self._refuse(asked, SettingsBusyError(TRIES_MAX))

    async def _try(
        self, asked: Request, wanted: "_Wanted", operations: tuple[Operation, ...]
    ) -> Reply | None:
        """Make the change of the settings as they stand; None when others were faster.

        Raises:
            PatchRefused, Rejected: it is not to be.
        """
        with self._services.readers.reading() as reading:
            look = _look(reading, wanted)
        after = look.before
        if not look.made_before:
            after = apply_patch(look.before, operations, Author(look.rules, HUMAN.actor_type))
            undecided = await self._check(wanted, look, after)
            if undecided is not None:
                return undecided
        change = wanted.change(look.scope.change_number, after)
        expected = wanted.payload.expected_change_number
        action = partial(_change, Permit(HUMAN, None, expected), change)
        try:
            return await self._services.store.do(receipts.receipted, asked, action)
        except SettingsMoved:
            return None

    async def _check(self, wanted: "_Wanted", look: _Look, after: JsonValue) -> Reply | None:
        """Ask the workflow's own code; return an answer only if nothing was found out.

        Raises:
            SettingsRefusedError: it refuses the change.
        """
        question: JsonObject = {
            **look.question,
            "before": look.before,
            "after": after,
            "actor": HUMAN.actor_type.value,
            "source": wanted.payload.source,
            "patch": wanted.payload.patch,
        }
        frame = encode_frame(question)  # Bounded: 256 KiB twice, and 64 KiB.
        async with self._checking:
            answer = await ask_resolver(self._services, look.project_path, frame)
        if isinstance(answer, RefusedWorkflow):
            raise SettingsRefusedError(ErrorCode.SETTINGS_REJECTED, answer.message)
        if isinstance(answer, NotResolved):
            receipt: JsonObject = {"code": ErrorCode.RESOLVER_FAILED.value}
            was_started = answer.was_started
            outcome = CommandOutcome.REJECTED if was_started else CommandOutcome.UNAVAILABLE
            return Reply(outcome, None, receipt, answer.message)
        if answer.get("outcome") != "accepted":
            raise SettingsRefusedError(str(answer.get("code")), str(answer.get("message")))
        return None

    async def _refuse(self, asked: Request, refused: Rejected) -> Reply:
        def refuse(_: Transaction) -> Reply:
            raise refused

        return await self._services.store.do(receipts.receipted, asked, refuse)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A change that a client asks for."""

    run_id: str
    request_id: str
    payload: SettingsChange

    def change(self, made_of: int, after: JsonValue) -> NewChange:
        """Return it as the store takes it."""
        payload = self.payload
        return NewChange(
            self.run_id,
            payload.scope_id,
            self.request_id,
            payload.source,
            Blob.of_json(payload.patch),
            made_of,
            Blob.of_json(after),
        )


def _request_id(request: ClientRequest) -> str:
    """Return the id of the change: the same for a repeat, another for every other command."""
    return derived_id("request", request.client_id, request.idempotency_key)


def _look(reading: Reading, wanted: _Wanted) -> _Look:
    """Read what a change is held against.

    Raises:
        Rejected: there is nothing to change, or not now, or not from where the caller stands.
    """
    run = runs.require(reading, wanted.run_id)
    scope = settings_scopes.require(reading, wanted.run_id, wanted.payload.scope_id)
    permit = Permit(HUMAN)
    known = settings_changing.made_before(reading, scope, permit, wanted.change(0, None))
    if known is None:
        settings_changing.require_open(reading, wanted.run_id)
        expected = wanted.payload.expected_change_number
        if expected is not None and expected != scope.change_number:
            raise SettingsStaleError(expected, scope.change_number)
    rules = definitions.load(reading, run.definition_digest).settings_of(scope.mount_path)
    if rules is None:
        raise StoreCorrupt("there are settings that no workflow declares")
    question: JsonObject = {
        "schema": SETTINGS_CHECK,
        "workflowSource": workflow_source(runs.sources(reading, wanted.run_id)),
        "definitionDigest": run.definition_digest.hex(),
        "mountPath": scope.mount_path,
    }
    before = blobs.read_json(reading, scope.current_hash)
    project_path = projects.path_of(reading, run.project_id)
    return _Look(scope, before, rules, known is not None, question, project_path)


def _change(permit: Permit, change: NewChange, tx: Transaction) -> Reply:
    changed = change_settings(tx, permit, change)
    receipt: JsonObject = {
        "runId": change.run_id,
        "scopeId": changed.scope_id,
        "changeNumber": changed.change_number,
        "adopted": changed.adopted,
    }
    outcome = CommandOutcome.ADOPTED if changed.adopted else CommandOutcome.ACCEPTED
    return Reply(outcome, changed.change_number, receipt)
