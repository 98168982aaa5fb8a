"""Settings of a run for whoever asks: what they are, and the changes that made them so."""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.states import ActorType
from pi_workflows.protocol.timestamps import rfc3339
from store import blobs, contents, list_cursor, runs, settings_scopes
from store.errors import Rejected
from store.settings_scopes import ScopeRow
from store.transaction import Reading

ITEMS_MAX: Final = 64
"""Items that one page holds at most."""

PAGE_BYTES_MAX: Final = 524_288
"""Bytes of values after which a page ends; one value alone has at most half of it."""


class SettingsCursorError(Rejected):
    """The cursor was not made by a page of this list."""

    code: ClassVar[str] = ErrorCode.PAYLOAD_INVALID

    def __init__(self) -> None:
        super().__init__("the cursor was not made by a page of the settings of a run")


class RecordRow(NamedTuple):
    """One change."""

    change_number: int
    actor_type: ActorType
    source_type: str
    patch_hash: bytes
    before_hash: bytes
    after_hash: bytes
    accepted_at: int


SELECT_SCOPES: Final = """
    SELECT w.scope_id, w.origin_run_id AS run_id, w.mount_path, w.invocation,
           o.revision AS change_number, w.initial_hash, w.current_hash, w.created_at, w.updated_at
      FROM workflow_settings AS w JOIN resources AS o ON o.resource_id = w.resource_id
     WHERE w.origin_run_id = :run_id AND (w.created_at, w.scope_id) > (:created_at, :scope_id)
     ORDER BY w.created_at, w.scope_id LIMIT :limit
"""

SELECT_NEWEST_SCOPES: Final = """
    SELECT w.scope_id, w.origin_run_id AS run_id, w.mount_path, w.invocation,
           o.revision AS change_number, w.initial_hash, w.current_hash, w.created_at, w.updated_at
      FROM workflow_settings AS w JOIN resources AS o ON o.resource_id = w.resource_id
     WHERE w.origin_run_id = :run_id
     ORDER BY w.created_at DESC, w.scope_id DESC LIMIT :limit
"""

SELECT_RECORDS: Final = """
    SELECT change_number, actor_type, source_type, patch_hash, before_hash, after_hash, accepted_at
      FROM workflow_setting_changes
     WHERE scope_id = :scope_id AND change_number > :after
     ORDER BY change_number LIMIT :limit
"""

ROW_STATEMENTS: Final = {
    "SELECT_SCOPES": ScopeRow,
    "SELECT_NEWEST_SCOPES": ScopeRow,
    "SELECT_RECORDS": RecordRow,
}


def page(
    reading: Reading, run_id: str, scope_id: str | None, cursor: str | None = None
) -> JsonObject:
    """Return `{items, nextCursor}` of the settings of a run, oldest first.

    Args:
        scope_id: only these; None lists all.
        cursor: `nextCursor` of the page before; None begins with the oldest.

    Raises:
        RunUnknownError: there is no such run.
        SettingsUnknownError: it has no such settings.
        SettingsCursorError: the cursor is no cursor of this list.
    """
    runs.require(reading, run_id)
    if scope_id is not None:
        wanted = settings_scopes.require(reading, run_id, scope_id)
        return {"items": [shown(reading, wanted)], "nextCursor": None}
    place = (-1, "") if cursor is None else list_cursor.decode(cursor)
    if place is None:
        raise SettingsCursorError
    found = reading.many(
        ScopeRow,
        SELECT_SCOPES,
        {
            "run_id": run_id,
            "created_at": place[0],
            "scope_id": place[1],
            "limit": ITEMS_MAX + 1,
        },
    )
    kept = _fitting(reading, [scope.current_hash for scope in found])
    items: list[JsonValue] = [shown(reading, scope) for scope in found[:kept]]
    last = found[kept - 1] if kept < len(found) else None
    after = None if last is None else list_cursor.encode(last.created_at, last.scope_id)
    return {"items": items, "nextCursor": after}


def newest(reading: Reading, run_id: str, limit: int, value_bytes: int) -> list[JsonValue]:
    """Return the newest settings of a run, oldest first, without values beyond so many bytes."""
    found = reading.many(ScopeRow, SELECT_NEWEST_SCOPES, {"run_id": run_id, "limit": limit})
    return [shown(reading, scope, value_bytes=value_bytes) for scope in reversed(found)]


def changes(reading: Reading, scope: ScopeRow, after: int, limit: int) -> JsonObject:
    """Return `{scopeId, changeNumber, items, next}` of the changes of settings, oldest first.

    Args:
        after: the number of the change that the page follows; 0 begins with the first.
        limit: how many items at most.
    """
    limit = min(limit, ITEMS_MAX)
    found = reading.many(
        RecordRow,
        SELECT_RECORDS,
        {"scope_id": scope.scope_id, "after": after, "limit": limit + 1},
    )
    kept = min(limit, _fitting(reading, [record.patch_hash for record in found]))
    items: list[JsonValue] = [_record(reading, record) for record in found[:kept]]
    return {
        "scopeId": scope.scope_id,
        "changeNumber": scope.change_number,
        "items": items,
        "next": found[kept - 1].change_number if kept < len(found) else None,
    }


def shown(reading: Reading, scope: ScopeRow, *, value_bytes: int | None = None) -> JsonObject:
    """Return settings as clients see them; the mount path of a run's own is empty.

    Args:
        value_bytes: of a larger value it is only said that there is one; None shows any.
    """
    item: JsonObject = {
        "scopeId": scope.scope_id,
        "originRunId": scope.run_id,
        "activeRunId": scope.run_id,
        "mountPath": [*scope.mount_path.split("/")] if scope.mount_path else [],
        "invocation": scope.invocation,
        "changeNumber": scope.change_number,
        "settingsHash": scope.current_hash.hex(),
        "createdAt": rfc3339(scope.created_at),
        "updatedAt": rfc3339(scope.updated_at),
    }
    if value_bytes is None or contents.size(reading, scope.current_hash) <= value_bytes:
        item["settings"] = blobs.read_json(reading, scope.current_hash)
    else:
        item["settingsStored"] = True
    return item


def _record(reading: Reading, record: RecordRow) -> JsonObject:
    return {
        "changeNumber": record.change_number,
        "actor": record.actor_type.value,
        "source": record.source_type,
        "patch": blobs.read_json(reading, record.patch_hash),
        "beforeHash": record.before_hash.hex(),
        "afterHash": record.after_hash.hex(),
        "acceptedAt": rfc3339(record.accepted_at),
    }


def _fitting(reading: Reading, values: Sequence[bytes]) -> int:
    """Return how many of the first values one page holds; at least one, if there is one."""
    held = 0
    for number, value in enumerate(values[:ITEMS_MAX]):
        held += contents.size(reading, value)
        if number and held > PAGE_BYTES_MAX:
            return number
    return min(len(values), ITEMS_MAX)
