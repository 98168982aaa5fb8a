"""Errors of the store, split by who may catch them.

StoreError
  Rejected                    an expected refusal; the command wrote nothing
    ReadOnlyStateError        a write reached a read-only connection
    AuthorityError            this actor may not do this operation
    UnknownResourceError      no resource has this id
    RunUnknownError           no run has this id
    StaleResourceError        the resource has another revision than expected
    ClaimLostError            the caller no longer owns what it writes
    IllegalTransitionError    the state machine has no such move
    BlobConflictError         the digest is taken by other bytes or another type
    IdempotencyConflictError  the request id or key is taken by another request
    EffectConflictError       the effect exists with another payload
    RunConflictError          the run has already ended differently
    RunExistsError            the run id is taken
    CancelConflictError       the run was cancelled before, for another reason
    LeaseHeldError            somebody owns the resource now
    NotClaimableError         the run may not be worked on now
    ProposalRefused           a runner proposed what the graph or the rows do not allow
  Fault                       the world failed; carries a hint for the operator
    StatePathError            a directory or file of the state cannot be used safely
    StateMissingError         there is no database at the path
    StateIncompatibleError    the file is not a database of exactly this schema
    StateBusyError            another connection holds the write lock
    StorageFault              the disk is full or failing
    SqliteVersionError        this SQLite has a bug that can damage the file
    OutcomeUnknown            COMMIT failed: the batch happened or did not
    StoreDown                 the store has stopped; nothing was executed
    EpochLost                 another server has taken over
    HostHeldError             another server's claim on the database is live
  StoreCorrupt                stored data contradicts the schema; a bug, the process ends
    StateDamaged              (`store/damage.py`) SQLite found damaged pages; the server ends

`code` is stable, the message is for people; it holds no payload, token, actor or session id.
"""

import enum
from collections.abc import Mapping
from typing import ClassVar, Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.states import RunStatus

STATE_INCOMPATIBLE_TEXT: Final = (
    "Pi Workflows durable state is incompatible. Back up and move state.sqlite with its -wal and "
    "-shm files, then start Pi Workflows to create a new state.sqlite database. The incompatible "
    "state was not changed."
)


class ClaimLost(enum.StrEnum):
    """Why a claim does not authorise a write: the first of these tests that fails, in order."""

    MISSING_AUTHORITY = "missingAuthority"
    OWNER_CHANGED = "ownerChanged"
    TOKEN_CHANGED = "tokenChanged"  # noqa: S105 - the name of a reason
    GENERATION_CHANGED = "generationChanged"
    EXPIRED = "expired"


class StoreError(Exception):
    """Base of every error the store raises on purpose."""

    code: ClassVar[str] = "STORE_ERROR"


class Rejected(StoreError):
    """A command was refused and everything it did rolled back."""

    code: ClassVar[str] = "REJECTED"
    wire_names: ClassVar[Mapping[str, str]] = {}
    """Attributes that cross the wire, and their names there; None is left out."""

    def fields(self) -> JsonObject:
        """Return the typed facts of the refusal under their wire names."""
        found = {wire: getattr(self, name) for name, wire in self.wire_names.items()}
        return {wire: _plain(value) for wire, value in found.items() if value is not None}


class ReadOnlyStateError(Rejected):
    """A write was tried through a read-only connection."""

    code: ClassVar[str] = "STATE_READ_ONLY"

    def __init__(self) -> None:
        super().__init__("this connection to the durable state only reads")


class AuthorityError(Rejected):
    """The actor may not do this operation, whatever it holds."""

    code: ClassVar[str] = "AUTHORITY_DENIED"
    wire_names: ClassVar[Mapping[str, str]] = {"actor_type": "actorType", "operation": "operation"}

    def __init__(self, actor_type: str, operation: str) -> None:
        super().__init__(f"a {actor_type} actor may not do {operation}")
        self.actor_type = actor_type
        self.operation = operation


class UnknownResourceError(Rejected):
    """No resource has this id."""

    code: ClassVar[str] = "RESOURCE_UNKNOWN"

    def __init__(self) -> None:
        super().__init__("there is no such resource")


class RunUnknownError(Rejected):
    """No run has this id."""

    code: ClassVar[str] = ErrorCode.RUN_UNKNOWN
    wire_names: ClassVar[Mapping[str, str]] = {"nearest": "nearest"}

    def __init__(self, run_id: str, nearest: tuple[str, ...] = ()) -> None:
        """Name the ids that resemble it most, best first."""
        hint = f"; did you mean {', '.join(nearest)}?" if nearest else ""
        super().__init__(f"there is no run {run_id}{hint}")
        self.run_id = run_id
        self.nearest = nearest


class StaleResourceError(Rejected):
    """The resource has another revision than the caller expected, or changed underneath."""

    code: ClassVar[str] = ErrorCode.REVISION_STALE
    wire_names: ClassVar[Mapping[str, str]] = {"expected": "expectedRevision", "found": "revision"}

    def __init__(self, expected: int, found: int | None = None, *, what: str = "resource") -> None:
        """`found` is None when the row vanished or its revision was not read again."""
        now = "has moved on" if found is None else f"is at revision {found}"
        text = f"the {what} {now}, and {expected} was expected; look again and decide anew"
        super().__init__(text)
        self.expected = expected
        self.found = found


class ClaimLostError(Rejected):
    """The caller's claim does not authorise this write. A handoff, not a failure of the run."""

    code: ClassVar[str] = "CLAIM_LOST"
    wire_names: ClassVar[Mapping[str, str]] = {"reason": "reason"}

    def __init__(self, reason: ClaimLost) -> None:
        super().__init__(f"the claim is lost: {reason}")
        self.reason = reason


class IllegalTransitionError(Rejected):
    """The state machine has no such move from this state."""

    code: ClassVar[str] = "TRANSITION_ILLEGAL"
    wire_names: ClassVar[Mapping[str, str]] = {
        "machine": "machine",
        "state": "state",
        "move": "move",
    }

    def __init__(self, machine: str, state: str, move: str) -> None:
        super().__init__(f"a {machine} that is {state} cannot {move}")
        self.machine = machine
        self.state = state
        self.move = move


class BlobConflictError(Rejected):
    """The digest is stored with other bytes, length or media type."""

    code: ClassVar[str] = "BLOB_CONFLICT"

    def __init__(self, detail: str) -> None:
        """`detail` names what differs, never the content."""
        super().__init__(f"the content does not match what its digest stands for: {detail}")


class IdempotencyConflictError(Rejected):
    """The request id or idempotency key already stands for another request."""

    code: ClassVar[str] = ErrorCode.KEY_REUSED

    def __init__(self) -> None:
        super().__init__("this request id or idempotency key was used for another request")


class EffectConflictError(Rejected):
    """The effect with this source, type and key exists with another payload."""

    code: ClassVar[str] = "EFFECT_CONFLICT"
    wire_names: ClassVar[Mapping[str, str]] = {"effect_type": "effectType"}

    def __init__(self, effect_type: str) -> None:
        super().__init__(f"the {effect_type} effect with this key was asked for differently")
        self.effect_type = effect_type


class RunConflictError(Rejected):
    """The run has already ended, and not the way this command wants it to end."""

    code: ClassVar[str] = "RUN_CONFLICT"
    wire_names: ClassVar[Mapping[str, str]] = {"status": "status", "revision": "revision"}

    def __init__(self, status: RunStatus, revision: int) -> None:
        super().__init__(f"the run has already ended as {status} at revision {revision}")
        self.status = status
        self.revision = revision


class RunExistsError(Rejected):
    """The run id is taken."""

    code: ClassVar[str] = "RUN_EXISTS"

    def __init__(self) -> None:
        super().__init__("a run with this id exists")


class CancelConflictError(Rejected):
    """The run was cancelled before, for another reason; that cancel stands."""

    code: ClassVar[str] = "CANCEL_CONFLICT"

    def __init__(self) -> None:
        super().__init__("the run was cancelled before, for another reason")


class LeaseHeldError(Rejected):
    """Somebody owns the resource now; a live lease is never claimed over."""

    code: ClassVar[str] = "LEASE_HELD"

    def __init__(self) -> None:
        super().__init__("the resource is owned by somebody else")


class NotClaimableError(Rejected):
    """The run may not be worked on now."""

    code: ClassVar[str] = "RUN_NOT_CLAIMABLE"

    def __init__(self, why: str) -> None:
        super().__init__(f"the run cannot be claimed: {why}")


class ProposalRefused(Rejected):
    """A runner proposed a transition that the graph or the rows do not allow."""

    code: ClassVar[str] = "PROPOSAL_REFUSED"

    def __init__(self, why: str) -> None:
        super().__init__(f"the proposal is refused: {why}")


class Fault(StoreError):
    """The world failed. Supervision retries within bounds, then gives up.

    Attributes:
        hint: what an operator can do, one sentence.
    """

    code: ClassVar[str] = "FAULT"

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class StatePathError(Fault):
    """A directory or file of the state is missing rights, foreign, or not what it must be."""

    code: ClassVar[str] = ErrorCode.STATE_DIRECTORY_UNUSABLE


class StateMissingError(Fault):
    """There is no database at the path."""

    code: ClassVar[str] = "STATE_MISSING"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"there is no database at {path}", hint="Start the server once to create it."
        )


class StateIncompatibleError(Fault):
    """The file is not a database of exactly this schema. No byte of it was changed."""

    code: ClassVar[str] = ErrorCode.STATE_INCOMPATIBLE

    def __init__(self, difference: str) -> None:
        """`difference` is what was found first, for the log; the message is always the same."""
        super().__init__(
            STATE_INCOMPATIBLE_TEXT, hint="Move the three files away and start again."
        )
        self.difference = difference


class StateBusyError(Fault):
    """Another connection holds the write lock."""

    code: ClassVar[str] = ErrorCode.STATE_BUSY

    def __init__(self) -> None:
        super().__init__(
            "another process holds the write lock of the durable state",
            hint="End whatever else has state.sqlite open for writing.",
        )


class StorageFault(Fault):
    """The disk is full or failing. A command that meets it leaves nothing behind."""

    code: ClassVar[str] = "STORAGE_FAILED"

    def __init__(self, detail: str) -> None:
        """`detail` is SQLite's or the system's own short name of what failed."""
        super().__init__(
            f"the durable state cannot be read or written: {detail}",
            hint="Check free space and the health of the disk.",
        )


class SqliteVersionError(Fault):
    """This SQLite can damage a database in WAL mode."""

    code: ClassVar[str] = "SQLITE_TOO_OLD"

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(
            f"SQLite {found} has a known bug that damages databases; {needed} is needed",
            hint="Install a newer apsw.",
        )


class OutcomeUnknown(Fault):
    """COMMIT failed: what the batch did may or may not survive. Repeat the same request later."""

    code: ClassVar[str] = ErrorCode.OUTCOME_UNKNOWN

    def __init__(self) -> None:
        super().__init__(
            "the commit failed and its outcome is unknown",
            hint="Send the same request again once the server has restarted.",
        )


class StoreDown(Fault):
    """The store has stopped. The command was not executed."""

    code: ClassVar[str] = "STORE_DOWN"

    def __init__(self) -> None:
        super().__init__(
            "the store has stopped; nothing was executed", hint="Start the server again."
        )


class EpochLost(Fault):
    """Another server has taken over this database. The command was not executed."""

    code: ClassVar[str] = "EPOCH_LOST"

    def __init__(self) -> None:
        super().__init__(
            "another server has taken over the durable state",
            hint="Connect again; the new server answers.",
        )


class HostHeldError(Fault):
    """Another server's claim on the database is live.

    Attributes:
        left_ms: until it lapses, if nobody renews it.
    """

    code: ClassVar[str] = ErrorCode.SERVER_ALREADY_RUNNING

    def __init__(self, left_ms: int) -> None:
        super().__init__(
            "another server owns the durable state",
            hint="Use the running server, or stop it first.",
        )
        self.left_ms = left_ms


class StoreCorrupt(StoreError):
    """Stored data contradicts the schema or the code that wrote it: a bug or a damaged file."""

    code: ClassVar[str] = "STORE_CORRUPT"


def _plain(value: object) -> JsonValue:
    """Return an attribute as JSON: enums as their text, tuples as lists."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, int) else str(value)
