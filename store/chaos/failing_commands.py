"""Commands that fail after they have written, each in another way that SQLite knows."""

import enum
from typing import Final

import apsw

from pi_workflows.protocol.ids import ResourceId
from pi_workflows.protocol.states import ResourceType
from store import resources
from store.errors import Rejected
from store.transaction import Transaction

# A resource id that is taken already.
INSERT_TAKEN: Final = """
    INSERT INTO resources
           (resource_id, resource_type, aggregate_key, revision, created_at, updated_at)
    VALUES (:resource_id, 'maintenance', :resource_id, 0, :now, :now)
"""

INSERT_TAKEN_OR_ROLLBACK: Final = """
    INSERT OR ROLLBACK INTO resources
           (resource_id, resource_type, aggregate_key, revision, created_at, updated_at)
    VALUES (:resource_id, 'maintenance', :resource_id, 0, :now, :now)
"""


class Failure(enum.StrEnum):
    """How a command fails."""

    REFUSED = "refused"
    BUG = "bug"
    CONSTRAINT = "constraint"
    ROLLBACK = "rollback"


FAILURES: Final = (Rejected, ZeroDivisionError, apsw.ConstraintError)
"""What its caller sees raised."""


def fail_after_writing(tx: Transaction, how: Failure, key: str) -> object:
    """Write a resource of this key, then fail.

    Raises:
        Rejected: the command is refused.
        ZeroDivisionError: it has a bug.
        apsw.ConstraintError: a constraint does not hold; with ROLLBACK SQLite throws the whole
            transaction away.
    """
    written = resources.create(tx, ResourceType.MAINTENANCE, key)
    match how:
        case Failure.REFUSED:
            raise Rejected("refused on purpose")
        case Failure.BUG:
            return 1 // (len(written) - len(written))
        case Failure.CONSTRAINT:
            return _insert(tx, INSERT_TAKEN, written)
        case Failure.ROLLBACK:
            return _insert(tx, INSERT_TAKEN_OR_ROLLBACK, written)


def _insert(tx: Transaction, sql: str, taken: ResourceId) -> int:
    return tx.execute(sql, {"resource_id": taken, "now": tx.now})
