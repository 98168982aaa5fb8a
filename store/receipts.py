"""One row per client command, written with its change: a lost reply can always be asked again.

Refusals are stored too: the command's own savepoint is rolled back and the receipt written in a
second one (README 20). `unavailable` is never stored, for nothing was decided.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import CommandOutcome
from store import blobs
from store.effect_errors import EffectSettledError, EffectUnknownError
from store.errors import (
    CancelConflictError,
    ClaimLostError,
    IdempotencyConflictError,
    Rejected,
    RunConflictError,
    RunUnknownError,
    StaleResourceError,
    UnknownResourceError,
)
from store.follow_up_errors import FollowUpOverError, FollowUpUnknownError
from store.settings_errors import SettingsBusyError, SettingsStaleError, SettingsUnknownError
from store.transaction import Reading, Transaction


@dataclass(frozen=True, slots=True)
class Request:
    """A client command as the receipt knows it.

    Attributes:
        fingerprint: SHA-256 of the canonical request without its request id.
        host_epoch: epoch of the server that answers.
    """

    request_id: str
    client_id: str
    operation: str
    idempotency_key: str
    fingerprint: bytes
    run_id: str | None
    host_epoch: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What the client is told.

    Attributes:
        revision: of the run after the command; None when it has none.
        receipt: typed facts; always has `code` when the outcome is a refusal.
        error: bounded safe text; None unless refused.
    """

    outcome: CommandOutcome
    revision: int | None = None
    receipt: JsonObject | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReceiptRow:
    """A stored answer."""

    request_id: str
    client_id: str
    idempotency_key: str
    request_fingerprint: bytes
    accepted_revision: int | None
    outcome: CommandOutcome
    receipt_hash: bytes | None
    error_hash: bytes | None


SELECT_RECEIPT: Final = """
    SELECT request_id, client_id, idempotency_key, request_fingerprint, accepted_revision,
           outcome, receipt_hash, error_hash
      FROM host_commands
     WHERE request_id = :request_id
        OR (client_id = :client_id AND idempotency_key = :idempotency_key)
"""

# A refusal may name a run that does not exist; the receipt then names none.
INSERT_RECEIPT: Final = """
    INSERT INTO host_commands (request_id, client_id, operation, idempotency_key,
                               request_fingerprint, run_id, accepted_revision, outcome,
                               receipt_hash, error_hash, host_epoch, created_at, completed_at)
    VALUES (:request_id, :client_id, :operation, :idempotency_key,
            :fingerprint, (SELECT run_id FROM runs WHERE run_id = :run_id), :accepted_revision,
            :outcome,
            :receipt_hash, :error_hash, :host_epoch, :now, :now)
"""

ROW_STATEMENTS: Final = {"SELECT_RECEIPT": ReceiptRow}

_CONFLICTS: Final = (
    StaleResourceError,
    IdempotencyConflictError,
    RunConflictError,
    CancelConflictError,
    EffectSettledError,
    SettingsBusyError,
    SettingsStaleError,
    FollowUpOverError,
)
_NOT_FOUND: Final = (
    RunUnknownError,
    UnknownResourceError,
    EffectUnknownError,
    SettingsUnknownError,
    FollowUpUnknownError,
)


def stored(reading: Reading, request: Request) -> Reply | None:
    """Return the answer given before, or None when the request is new.

    The same request answered `accepted` is now `adopted`; a stored refusal is repeated as it was;
    another request under the same id or key is a conflict.
    """
    found = reading.many(
        ReceiptRow,
        SELECT_RECEIPT,
        {
            "request_id": request.request_id,
            "client_id": request.client_id,
            "idempotency_key": request.idempotency_key,
        },
    )
    if not found:
        return None
    row = found[0]
    same_key = (row.client_id, row.idempotency_key) == (
        request.client_id,
        request.idempotency_key,
    )
    if len(found) > 1 or not same_key or row.request_fingerprint != request.fingerprint:
        return refusal(IdempotencyConflictError())
    return Reply(
        CommandOutcome.ADOPTED if row.outcome == CommandOutcome.ACCEPTED else row.outcome,
        row.accepted_revision,
        cast("JsonObject", blobs.read_json(reading, row.receipt_hash))
        if row.receipt_hash is not None
        else None,
        blobs.read_text(reading, row.error_hash) if row.error_hash is not None else None,
    )


def receipted(tx: Transaction, request: Request, action: Callable[[Transaction], Reply]) -> Reply:
    """Run a command once per request, and store what it answered.

    Race contract: of equal requests the first runs, all later ones adopt its answer, across
    restarts of the server. When this returns, change and receipt are in one transaction.
    """
    known = stored(tx, request)
    if known is not None:
        return known
    try:
        with tx.nested():
            reply = action(tx)
    except Rejected as refused:
        reply = refusal(refused)
    _insert(tx, request, reply)
    return reply


def refusal(refused: Rejected) -> Reply:
    """Return the wire form of an expected refusal."""
    if isinstance(refused, ClaimLostError):
        outcome = CommandOutcome.CLAIM_LOST
    elif isinstance(refused, _NOT_FOUND):
        outcome = CommandOutcome.NOT_FOUND
    elif isinstance(refused, _CONFLICTS):
        outcome = CommandOutcome.CONFLICT
    else:
        outcome = CommandOutcome.REJECTED
    return Reply(
        outcome, None, {"code": str(refused.code), **refused.fields()}, str(refused)[:2_048]
    )


def _insert(tx: Transaction, request: Request, reply: Reply) -> None:
    receipt = blobs.Blob.of_json(reply.receipt) if reply.receipt is not None else None
    error = blobs.Blob.of_text(reply.error) if reply.error is not None else None
    tx.execute(
        INSERT_RECEIPT,
        {
            "request_id": request.request_id,
            "client_id": request.client_id,
            "operation": request.operation,
            "idempotency_key": request.idempotency_key,
            "fingerprint": request.fingerprint,
            "run_id": request.run_id or _created_run(reply),
            "accepted_revision": reply.revision,
            "outcome": reply.outcome,
            "receipt_hash": blobs.put_optional(tx, receipt),
            "error_hash": blobs.put_optional(tx, error),
            "host_epoch": request.host_epoch,
            "now": tx.now,
        },
    )


def _created_run(reply: Reply) -> str | None:
    """Return the run that an accepted start names in its receipt."""
    if reply.outcome != CommandOutcome.ACCEPTED or reply.receipt is None:
        return None
    run_id = reply.receipt.get("runId")
    return run_id if isinstance(run_id, str) else None
