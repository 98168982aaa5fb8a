"""What running nodes say of themselves: the newest update of each type and key, and all before it.

An update never ends, routes or starts anything. It is history: rows are added and never changed,
but for the mark that a newer one takes from the one before it.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.ids import run_resource_id
from pi_workflows.protocol.states import AttemptStatus, RunStatus
from pi_workflows.protocol.timestamps import rfc3339
from pi_workflows.protocol.updates import PAIRS_MAX, UPDATE_PAIRS, UPDATE_REFUSED
from store import attempts, blobs, runs
from store.attempts import AttemptRow
from store.authority import Operation, Permit, revise
from store.blobs import Blob
from store.errors import Rejected
from store.projection_steps import stored_json
from store.resources import node_event
from store.runs import RunRow
from store.transaction import Reading, Transaction, affected_one


class UpdateRefused(Rejected):
    """The update comes from nowhere, or too late."""

    code: ClassVar[str] = UPDATE_REFUSED


class TooManyPairsError(Rejected):
    """The run has as many pairs of type and key as it may."""

    code: ClassVar[str] = UPDATE_PAIRS

    def __init__(self) -> None:
        super().__init__(
            f"the run has {PAIRS_MAX} pairs of type and key already; use an old one again"
        )


@dataclass(frozen=True, slots=True)
class NewUpdate:
    """An update that a running try asks for; its data is hashed before the transaction."""

    attempt_id: str
    update_type: str
    key: str
    data: Blob


@dataclass(frozen=True, slots=True)
class Published:
    """An update that is stored.

    Attributes:
        seq: the run's revision that it made; orders the updates of a run.
        at: UTC epoch ms.
    """

    update_id: str
    seq: int
    at: int


@dataclass(frozen=True, slots=True)
class PairsRow:
    """How many pairs a run has, and whether the wanted one is among them."""

    pairs: int
    known: bool


@dataclass(frozen=True, slots=True)
class CurrentRow:
    """The newest update of its type and key."""

    update_id: str
    node_id: str
    attempt_id: str
    update_seq: int
    update_type: str
    update_key: str
    data_bytes: int
    data_media: str
    data: bytes | None
    recorded_at: int


@dataclass(frozen=True, slots=True)
class CountRow:
    """A number."""

    count: int


SELECT_PAIRS: Final = """
    SELECT count(*) AS pairs,
           coalesce(max(update_type = :update_type AND update_key = :key), 0) AS known
      FROM workflow_updates WHERE run_id = :run_id AND is_current = 1
"""

SELECT_CURRENT_COUNT: Final = """
    SELECT count(*) AS count FROM workflow_updates WHERE run_id = :run_id AND is_current = 1
"""

# The newest are chosen before anything is joined to them: a run may have a thousand more.
SELECT_CURRENT: Final = """
    SELECT u.update_id, a.node_id, u.attempt_id, u.update_seq, u.update_type, u.update_key,
           b.byte_length AS data_bytes, b.media_type AS data_media,
           CASE WHEN b.byte_length <= :data_bytes THEN b.content END AS data, u.recorded_at
      FROM (SELECT * FROM workflow_updates WHERE run_id = :run_id AND is_current = 1
             ORDER BY update_seq DESC LIMIT :limit) AS u
      JOIN node_attempts AS a ON a.attempt_id = u.attempt_id
      JOIN blobs AS b ON b.blob_hash = u.data_hash
     ORDER BY u.update_seq DESC
"""

UPDATE_SUPERSEDED: Final = """
    UPDATE workflow_updates SET is_current = 0
     WHERE run_id = :run_id AND update_type = :update_type AND update_key = :key
       AND is_current = 1
"""

INSERT_UPDATE: Final = """
    INSERT INTO workflow_updates (update_id, run_id, attempt_id, update_seq, run_revision,
                                  update_type, update_key, data_hash, is_current, recorded_at)
    VALUES (:update_id, :run_id, :attempt_id, :seq, :seq, :update_type, :key, :data_hash, 1, :now)
"""

ROW_STATEMENTS: Final = {
    "SELECT_PAIRS": PairsRow,
    "SELECT_CURRENT_COUNT": CountRow,
    "SELECT_CURRENT": CurrentRow,
}


def publish(tx: Transaction, permit: Permit, run_id: str, wanted: NewUpdate) -> Published:
    """Store an update of the try that is under way, in the place of the pair's current one.

    Raises:
        ClaimLostError: the caller no longer owns the run.
        UpdateRefused: the run is not being worked on, or another try is under way by now.
        TooManyPairsError: it would be the run's 1,025th pair of type and key.
    """
    run = runs.require(tx, run_id)
    with revise(tx, permit, run_resource_id(run_id), Operation.ADVANCE_RUN) as recorder:
        attempt = _speaking(tx, run, wanted.attempt_id)
        pair: dict[str, str | int] = {
            "run_id": run_id,
            "update_type": wanted.update_type,
            "key": wanted.key,
        }
        counted = tx.one(PairsRow, SELECT_PAIRS, pair)
        assert counted is not None, "a query of counts has one row"
        if counted.known:
            affected_one(tx.execute(UPDATE_SUPERSEDED, pair))
        elif counted.pairs >= PAIRS_MAX:
            raise TooManyPairsError
        update_id = f"upd_{tx.ids.new_uuid()}"
        said: JsonObject = {"updateId": update_id, "type": wanted.update_type, "key": wanted.key}
        happening = node_event("update_published", attempt.node_id, attempt.attempt_id, said)
        seq = recorder.record(happening)
        tx.execute(
            INSERT_UPDATE,
            {
                **pair,
                "update_id": update_id,
                "attempt_id": attempt.attempt_id,
                "seq": seq,
                "data_hash": blobs.put(tx, wanted.data),
                "now": tx.now,
            },
        )
        runs.touch(tx, run_id, detail=run.status_detail)
    return Published(update_id, seq, tx.now)


def _speaking(tx: Transaction, run: RunRow, attempt_id: str) -> AttemptRow:
    """Return the try that may speak, if it is the one that does."""
    if run.status is not RunStatus.RUNNING or run.paused:
        raise UpdateRefused(f"the run is {'paused' if run.paused else run.status}")
    attempt = attempts.unfinished(tx, run.run_id)
    if attempt is None or attempt.attempt_id != attempt_id:
        raise UpdateRefused("the attempt has ended")
    if attempt.status is not AttemptStatus.RUNNING:
        raise UpdateRefused(f"the attempt is {attempt.status}")
    return attempt


def count(reading: Reading, run_id: str) -> int:
    """Return how many pairs of type and key the run has."""
    found = reading.one(CountRow, SELECT_CURRENT_COUNT, {"run_id": run_id})
    return 0 if found is None else found.count


def current(
    reading: Reading, run_id: str, *, limit: int = PAIRS_MAX, data_bytes: int | None = None
) -> list[JsonObject]:
    """Return the current update of each pair, by `seq`.

    Args:
        limit: how many at most; the newest.
        data_bytes: larger data is left out, and `dataStored` stands for it; None leaves out none.

    Raises:
        StoreCorrupt: the data of one is not stored as JSON.
    """
    found = reading.many(
        CurrentRow,
        SELECT_CURRENT,
        {
            "run_id": run_id,
            "limit": limit,
            "data_bytes": 2**62 if data_bytes is None else data_bytes,
        },
    )
    return [_shown(row) for row in reversed(found)]


def _shown(row: CurrentRow) -> JsonObject:
    shown: JsonObject = {
        "updateId": row.update_id,
        "seq": row.update_seq,
        "at": rfc3339(row.recorded_at),
        "nodeId": row.node_id,
        "attemptId": row.attempt_id,
        "type": row.update_type,
        "key": row.update_key,
    }
    if row.data is None:
        return {**shown, "dataStored": True}
    return {**shown, "data": stored_json(row.data_media, row.data)}
