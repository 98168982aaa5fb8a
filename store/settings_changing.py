"""Change settings: one numbered change, one event, one commit (B §7.3).

What a change makes of the settings is found out before, because the model and the author's own
check are the author's code. Here it counts only if the settings are those that it was made of.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from pi_workflows.protocol.ids import time_ordered
from pi_workflows.protocol.states import ActorType, ResourceType, RunStatus
from store import blobs, runs, settings_scopes
from store.authority import Operation, Permit, holding, require_actor, revise
from store.blobs import Blob
from store.errors import IdempotencyConflictError
from store.resources import Happening
from store.run_resuming import RunEndedError
from store.settings_errors import RunNotStartedError, SettingsMoved, SettingsStaleError
from store.settings_scopes import ScopeRow
from store.transaction import Change, Reading, Transaction, affected_one

SOURCE_CHARS_MAX: Final = 128
"""Longest label of where a change comes from."""


@dataclass(frozen=True, slots=True)
class NewChange:
    """A change of settings, looked at and hashed before the transaction.

    Attributes:
        scope_id: None means the run's own settings.
        request_id: a repeat with the same content adopts.
        source: where it comes from, a label of 1 to 128 characters.
        made_of: the change number of the settings that it was made of.
        after: what it makes of them.
    """

    run_id: str
    scope_id: str | None
    request_id: str
    source: str
    patch: Blob
    made_of: int
    after: Blob


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """What became of a change.

    Attributes:
        change_number: of this change.
        adopted: it had been made before; nothing was written.
    """

    scope_id: str
    change_number: int
    adopted: bool


class ChangeRow(NamedTuple):
    """A change, as a repeat is held against it."""

    change_number: int
    actor_type: ActorType
    actor_id: str | None
    source_type: str
    patch_hash: bytes


SELECT_CHANGE: Final = """
    SELECT change_number, actor_type, actor_id, source_type, patch_hash
      FROM workflow_setting_changes WHERE scope_id = :scope_id AND request_id = :request_id
"""

INSERT_CHANGE: Final = """
    INSERT INTO workflow_setting_changes (change_id, scope_id, request_id, change_number,
                                          actor_type, actor_id, source_type, patch_hash,
                                          before_hash, after_hash, accepted_at)
    VALUES (:change_id, :scope_id, :request_id, :change_number, :actor_type,
            :actor_id, :source, :patch_hash, :before_hash, :after_hash, :now)
"""

# Fenced on the value that the change was made of.
UPDATE_SETTINGS: Final = """
    UPDATE workflow_settings SET current_hash = :after_hash, updated_at = :now
     WHERE scope_id = :scope_id AND current_hash = :before_hash
"""

ROW_STATEMENTS: Final = {"SELECT_CHANGE": ChangeRow}


def require_open(reading: Reading, run_id: str) -> None:
    """Refuse a run whose settings cannot be changed now; paused and parked ones can.

    Raises:
        RunUnknownError: there is no such run.
        RunNotStartedError: it is queued.
        RunEndedError: it has ended.
    """
    run = runs.require(reading, run_id)
    if run.terminal:
        raise RunEndedError(run_id, run.status, holding(reading, run.resource_id).revision)
    if run.status is RunStatus.QUEUED:
        raise RunNotStartedError(run_id)


def made_before(
    reading: Reading, scope: ScopeRow, permit: Permit, wanted: NewChange
) -> ChangedSettings | None:
    """Return the change that this request made before; None when it is new.

    Raises:
        IdempotencyConflictError: the request id stands for another change.
    """
    row = reading.one(
        ChangeRow,
        SELECT_CHANGE,
        {"scope_id": scope.scope_id, "request_id": wanted.request_id},
    )
    if row is None:
        return None
    actor = permit.actor
    same = (actor.actor_type, actor.actor_id, wanted.source, wanted.patch.blob_hash)
    if (row.actor_type, row.actor_id, row.source_type, row.patch_hash) != same:
        raise IdempotencyConflictError
    return ChangedSettings(scope.scope_id, row.change_number, adopted=True)


def change_settings(tx: Transaction, permit: Permit, wanted: NewChange) -> ChangedSettings:
    """Record a change and make its result the current settings.

    Change n is revision n of the settings. A runner at work keeps its copy.

    Race contract: of changes that were made of the same settings one wins. The others are told to
    look again, unless they expected exactly those settings: then they are stale. When this
    returns, value, change, event and revision are in one transaction.

    Args:
        permit: its expected revision is the change number that the caller has seen; None means
            whatever stands.

    Raises:
        RunUnknownError: there is no such run.
        SettingsUnknownError: it has no such settings.
        IdempotencyConflictError: the request id stands for another change.
        AuthorityError: this actor may change no settings.
        RunNotStartedError, RunEndedError: the run does not go on now.
        SettingsStaleError: the settings are not at the expected change.
        SettingsMoved: they moved since they were looked at.
    """
    runs.require(tx, wanted.run_id)
    scope = settings_scopes.require(tx, wanted.run_id, wanted.scope_id)
    known = made_before(tx, scope, permit, wanted)
    if known is not None:
        return known
    require_actor(permit.actor, Operation.CHANGE_SETTINGS)
    require_open(tx, wanted.run_id)
    expected = permit.expected_revision
    if expected is not None and expected != scope.change_number:
        raise SettingsStaleError(expected, scope.change_number)
    if wanted.made_of != scope.change_number:
        raise SettingsMoved
    with revise(tx, permit, scope.resource_id, Operation.CHANGE_SETTINGS) as recorder:
        number = recorder.record(_event(scope))
        _write(tx, permit, scope, wanted, number)
    # Viewers of the run see its settings; the run itself has not moved.
    tx.changes.add(Change(ResourceType.RUN, wanted.run_id))
    return ChangedSettings(scope.scope_id, number, adopted=False)


def _event(scope: ScopeRow) -> Happening:
    payload = {"changeNumber": scope.change_number + 1, "patchStored": True}
    return Happening("settings.changed", {"scope": "run", "payload": {**payload}})


def _write(
    tx: Transaction, permit: Permit, scope: ScopeRow, wanted: NewChange, number: int
) -> None:
    after_hash = blobs.put(tx, wanted.after)
    tx.execute(
        INSERT_CHANGE,
        {
            "change_id": f"change-{time_ordered(tx.ids.new_uuid(), tx.now)}",
            "scope_id": scope.scope_id,
            "request_id": wanted.request_id,
            "change_number": number,
            "actor_type": permit.actor.actor_type,
            "actor_id": permit.actor.actor_id,
            "source": wanted.source,
            "patch_hash": blobs.put(tx, wanted.patch),
            "before_hash": scope.current_hash,
            "after_hash": after_hash,
            "now": tx.now,
        },
    )
    affected_one(
        tx.execute(
            UPDATE_SETTINGS,
            {
                "scope_id": scope.scope_id,
                "before_hash": scope.current_hash,
                "after_hash": after_hash,
                "now": tx.now,
            },
        )
    )
