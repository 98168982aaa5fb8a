"""`state status`: size, counts and what is unsettled, without anything that a run worked on."""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject
from store import verification
from store.transaction import Reading


@dataclass(frozen=True, slots=True)
class SchemaMetaRow:
    """Which schema the file says it holds."""

    schema_name: str
    schema_version: int
    schema_digest: bytes


@dataclass(frozen=True, slots=True)
class StatusCountRow:
    """How many rows of a kind have a status."""

    kind: str
    status: str
    count: int


@dataclass(frozen=True, slots=True)
class OpenWorkRow:
    """What is held or unsettled at one instant."""

    active_leases: int
    expired_leases: int
    pending_requests: int
    pending_decisions: int
    unsettled_effects: int
    ambiguous_effects: int


PRAGMA_APPLICATION_ID: Final = "PRAGMA application_id"
PRAGMA_USER_VERSION: Final = "PRAGMA user_version"

SELECT_META: Final = """
    SELECT schema_name, schema_version, schema_digest FROM schema_meta WHERE id = 1
"""

SELECT_STATUS_COUNTS: Final = """
    SELECT 'runs' AS kind, status, count(*) AS count FROM runs GROUP BY status
    UNION ALL
    SELECT 'queue', status, count(*) FROM run_queue GROUP BY status
    UNION ALL
    SELECT 'effects', status, count(*) FROM effects GROUP BY status
"""

SELECT_OPEN_WORK: Final = """
    SELECT (SELECT count(*) FROM leases WHERE expires_at > :now) AS active_leases,
           (SELECT count(*) FROM leases WHERE expires_at <= :now) AS expired_leases,
           (SELECT count(*) FROM interactive_requests WHERE status = 'pending')
               AS pending_requests,
           (SELECT count(*) FROM human_decisions AS d
             WHERE NOT EXISTS (SELECT 1 FROM human_decision_resolutions AS x
                                WHERE x.decision_id = d.decision_id)) AS pending_decisions,
           (SELECT count(*) FROM effects WHERE settled_at IS NULL) AS unsettled_effects,
           (SELECT count(*) FROM effects WHERE status = 'ambiguous' AND settled_at IS NULL)
               AS ambiguous_effects
"""

ROW_STATEMENTS: Final = {
    "SELECT_META": SchemaMetaRow,
    "SELECT_STATUS_COUNTS": StatusCountRow,
    "SELECT_OPEN_WORK": OpenWorkRow,
}


def state_status(reading: Reading, *, wal_bytes: int) -> JsonObject:
    """Return the facts of A §12; the caller holds one snapshot.

    `violations` is a number and costs the whole scan of `verification.violations`; the rest reads
    indexes and counts rows by status.

    Args:
        wal_bytes: size of the log beside the database, which SQL cannot see.
    """
    meta = reading.one(SchemaMetaRow, SELECT_META, {})
    work = reading.one(OpenWorkRow, SELECT_OPEN_WORK, {"now": reading.now})
    assert meta is not None, "opening has verified the row"
    assert work is not None, "a query of counts has one row"
    return {
        "schemaName": meta.schema_name,
        "schemaVersion": meta.schema_version,
        "schemaDigest": meta.schema_digest.hex(),
        "applicationId": verification.number(reading, PRAGMA_APPLICATION_ID),
        "userVersion": verification.number(reading, PRAGMA_USER_VERSION),
        "databaseBytes": verification.database_bytes(reading),
        "walBytes": wal_bytes,
        "counts": _counts(reading),
        "activeLeases": work.active_leases,
        "expiredLeases": work.expired_leases,
        "pendingRequests": work.pending_requests,
        "pendingDecisions": work.pending_decisions,
        "unsettledEffects": work.unsettled_effects,
        "ambiguousEffects": work.ambiguous_effects,
        "violations": len(verification.violations(reading)),
    }


def _counts(reading: Reading) -> JsonObject:
    """Return how many runs, queue rows and effects have each status that occurs."""
    runs: JsonObject = {}
    queue: JsonObject = {}
    effects: JsonObject = {}
    by_kind = {"runs": runs, "queue": queue, "effects": effects}
    for row in reading.many(StatusCountRow, SELECT_STATUS_COUNTS, {}):
        by_kind[row.kind][row.status] = row.count
    return {"runs": runs, "queue": queue, "effects": effects}
