"""The server's own claim: one row whose epoch grows with every server that takes over.

Every batch checks it before any command, so a server that lost it can never commit again, however
long it was frozen (README 14).
"""

import hmac
from dataclasses import dataclass
from typing import Final, NamedTuple

import apsw

from store import rows
from store.authority import hash_token
from store.errors import EpochLost, HostHeldError
from store.transaction import Reading, Transaction, affected_one, new_token

HOST_CLAIM_MS: Final = 30_000
"""How long a server's claim lasts after its last heartbeat."""


class HostRow(NamedTuple):
    """The one row of `workflow_host_state`."""

    epoch: int
    host_id: str | None
    token_hash: bytes | None
    pid: int | None
    process_start_identity: str | None
    started_at: int | None
    heartbeat_at: int | None
    expires_at: int | None

    def left_ms(self, now: int) -> int:
        """Return for how long the last sign of life still counts; 0 when it does no more.

        Ordinarily the time until `expires_at`. But that never goes back: after the wall clock was
        set back it lies far ahead, and a heartbeat of the future says nothing about now.
        """
        if self.heartbeat_at is None or self.heartbeat_at > now:
            return 0
        return max(0, self.heartbeat_at + HOST_CLAIM_MS - now)


@dataclass(frozen=True, slots=True)
class HostClaim:
    """What a server holds while it serves.

    Attributes:
        epoch: grows by one with every acquisition; older ones are fenced off.
        token_hash: SHA-256 of the claim's secret.
    """

    epoch: int
    host_id: str
    token_hash: bytes


@dataclass(frozen=True, slots=True)
class HostProcess:
    """Which exact process asks for the claim."""

    host_id: str
    pid: int
    start_identity: str


SELECT_HOST: Final = """
    SELECT epoch, host_id, token_hash, pid, process_start_identity, started_at, heartbeat_at,
           expires_at
      FROM workflow_host_state WHERE id = :id
"""

UPDATE_HOST_CLAIMED: Final = """
    UPDATE workflow_host_state
       SET epoch = epoch + 1, host_id = :host_id, token_hash = :token_hash, pid = :pid,
           process_start_identity = :start_identity, started_at = :now, heartbeat_at = :now,
           expires_at = :expires_at
     WHERE id = 1 AND epoch = :epoch
"""

UPDATE_HOST_RENEWED: Final = """
    UPDATE workflow_host_state
       SET heartbeat_at = :now, expires_at = max(expires_at, :expires_at)
     WHERE id = 1 AND epoch = :epoch
"""

UPDATE_HOST_RELEASED: Final = """
    UPDATE workflow_host_state
       SET host_id = NULL, token_hash = NULL, pid = NULL, process_start_identity = NULL,
           started_at = NULL, heartbeat_at = NULL, expires_at = NULL
     WHERE id = 1 AND epoch = :epoch
"""

ROW_STATEMENTS: Final = {"SELECT_HOST": HostRow}


def current(reading: Reading) -> HostRow:
    """Return the row; before the first server its epoch is 0."""
    found = reading.one(HostRow, SELECT_HOST, {"id": 1})
    assert found is not None, "creation inserts the row"
    return found


def acquire(tx: Transaction, process: HostProcess, *, holder_gone: bool) -> HostClaim:
    """Become the server of this database.

    Args:
        holder_gone: the process named in the row is proven dead, so its claim has lapsed.

    Raises:
        HostHeldError: another server's claim is live.
    """
    row = current(tx)
    if row.expires_at is not None and row.expires_at > tx.now and not holder_gone:
        raise HostHeldError(row.expires_at - tx.now)
    token_hash = hash_token(new_token(tx.ids))
    affected_one(
        tx.execute(
            UPDATE_HOST_CLAIMED,
            {
                "host_id": process.host_id,
                "token_hash": token_hash,
                "pid": process.pid,
                "start_identity": process.start_identity,
                "epoch": row.epoch,
                "now": tx.now,
                "expires_at": tx.now + HOST_CLAIM_MS,
            },
        )
    )
    return HostClaim(row.epoch + 1, process.host_id, token_hash)


def heartbeat(tx: Transaction, claim: HostClaim) -> int:
    """Extend the claim, even an expired one that nobody replaced (sleep of the machine).

    The batch's fence has checked epoch and token. Returns the new expiry, UTC epoch ms.
    """
    expires_at = tx.now + HOST_CLAIM_MS
    affected_one(
        tx.execute(
            UPDATE_HOST_RENEWED,
            {"epoch": claim.epoch, "now": tx.now, "expires_at": expires_at},
        )
    )
    return expires_at


def release(tx: Transaction, claim: HostClaim) -> None:
    """Give the claim up in an orderly stop; the epoch stays."""
    affected_one(tx.execute(UPDATE_HOST_RELEASED, {"epoch": claim.epoch}))


def check_fence(connection: apsw.Connection, claim: HostClaim) -> None:
    """Refuse to write for a server that is no longer the one named in the row.

    Raises:
        EpochLost: another server has taken over, or this one has released its claim.
    """
    row = rows.one(connection, HostRow, SELECT_HOST, {"id": 1})
    if (
        row is None
        or row.epoch != claim.epoch
        or row.token_hash is None
        or not hmac.compare_digest(row.token_hash, claim.token_hash)
    ):
        raise EpochLost
