"""Effects that are still open: what a run may or may not have done to the outside world."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import CanonicalError, JsonObject, parse_json
from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import EffectStatus
from store.projection_steps import stored_text
from store.transaction import Reading

ERROR_BYTES_MAX: Final = 1_024
"""How much is shown of why nobody knows, of each effect; a view has up to 64 of them."""

_ACTION_KEY_PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class UnresolvedRow:
    """An effect that is pending, applying or ambiguous."""

    effect_id: str
    effect_type: str
    status: EffectStatus
    idempotency_key: str
    attempt_count: int
    error_media: str | None
    error: bytes | None


SELECT_UNRESOLVED: Final = """
    SELECT e.effect_id, e.effect_type, e.status, e.idempotency_key, e.attempt_count,
           b.media_type AS error_media, substr(b.content, 1, :error_bytes) AS error
      FROM effects AS e LEFT JOIN blobs AS b ON b.blob_hash = e.error_hash
     WHERE e.source_resource_id = :source AND e.settled_at IS NULL
     ORDER BY e.created_at, e.effect_id
     LIMIT :limit
"""

ROW_STATEMENTS: Final = {"SELECT_UNRESOLVED": UnresolvedRow}


def unresolved(reading: Reading, source: ResourceId, *, limit: int) -> list[JsonObject]:
    """Return `{effectId, effectType, status, attempts, nodeId?, error?}` of each, oldest first."""
    found = reading.many(
        UnresolvedRow,
        SELECT_UNRESOLVED,
        {"source": source, "limit": limit, "error_bytes": ERROR_BYTES_MAX},
    )
    return [_described(row) for row in found]


def _described(row: UnresolvedRow) -> JsonObject:
    shown: JsonObject = {
        "effectId": row.effect_id,
        "effectType": row.effect_type,
        "status": row.status.value,
        "attempts": row.attempt_count,
    }
    node = node_of(row.idempotency_key)
    if node is not None:
        shown["nodeId"] = node
    error = stored_text(row.error_media, row.error)
    if error is not None:
        shown["error"] = error
    return shown


def node_of(key: str) -> str | None:
    """Return the node that a key made by `effects.action_key` names; None for other keys."""
    try:
        parts = parse_json(key)
    except CanonicalError:
        return None
    if not isinstance(parts, list) or len(parts) != _ACTION_KEY_PARTS:
        return None
    return parts[2] if isinstance(parts[2], str) else None
