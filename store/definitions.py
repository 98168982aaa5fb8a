"""Compiled workflow graphs, stored once per digest."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from pi_workflows.protocol.definition import DefinitionSnapshot
from store import blobs
from store.errors import StoreCorrupt
from store.transaction import Reading, Transaction

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """One stored definition."""

    definition_digest: bytes
    workflow_name: str
    definition_hash: bytes
    created_at: int


SELECT_DEFINITION: Final = """
    SELECT definition_digest, workflow_name, definition_hash, created_at
      FROM workflow_definitions WHERE definition_digest = :definition_digest
"""

INSERT_DEFINITION: Final = """
    INSERT OR IGNORE INTO workflow_definitions
           (definition_digest, workflow_name, definition_hash, created_at)
    VALUES (:definition_digest, :workflow_name, :definition_hash, :now)
"""

ROW_STATEMENTS: Final = {"SELECT_DEFINITION": DefinitionRow}


def ensure(tx: Transaction, name: str, snapshot: blobs.Blob) -> bytes:
    """Store a definition unless it is there, and return its digest (the snapshot's hash)."""
    tx.execute(
        INSERT_DEFINITION,
        {
            "definition_digest": snapshot.blob_hash,
            "workflow_name": name,
            "definition_hash": blobs.put(tx, snapshot),
            "now": tx.now,
        },
    )
    return snapshot.blob_hash


def name_of(reading: Reading, definition_digest: bytes) -> str:
    """Return the name of the workflow with this digest.

    Raises:
        StoreCorrupt: it is missing.
    """
    return _require(reading, definition_digest).workflow_name


def load(reading: Reading, definition_digest: bytes) -> DefinitionSnapshot:
    """Return the graph with this digest.

    Raises:
        StoreCorrupt: it is missing or malformed.
    """
    row = _require(reading, definition_digest)
    stored = blobs.read_json(reading, row.definition_hash)
    try:
        return DefinitionSnapshot.parse(cast("JsonObject", stored))
    except ValueError as error:
        raise StoreCorrupt(str(error)) from error


def _require(reading: Reading, definition_digest: bytes) -> DefinitionRow:
    row = reading.one(DefinitionRow, SELECT_DEFINITION, {"definition_digest": definition_digest})
    if row is None:
        raise StoreCorrupt("a run's definition is missing")
    return row
