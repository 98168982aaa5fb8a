"""The four messages of `pi-workflows.client.v1`, checked field by field with no framework."""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pi_workflows.client.errors import ProtocolViolation, RequestInvalid
from pi_workflows.protocol.canonical import CanonicalError, JsonObject, JsonValue
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import FrameError, encode_frame
from pi_workflows.protocol.ids import PEER_ID_BYTES_MAX, is_peer_id
from pi_workflows.protocol.states import CommandOutcome
from pi_workflows.protocol.version import CLIENT_PROTOCOL

SERVER_EVENTS: Final = frozenset(
    {
        "runs",
        "run_snapshot",
        "run_patch",
        "run_page",
        "session_snapshot",
    }
)
UNAVAILABLE: Final = "unavailable"
"""The event that only the client library makes."""

_ENVELOPE: Final = frozenset({"schema", "type"})
_REQUIRED: Final = {
    "hello": frozenset({"connectionId", "packageVersion"}),
    "response": frozenset({"requestId", "outcome"}),
    "event": frozenset({"subscriptionId", "event", "payload"}),
}
_OPTIONAL: Final[dict[str, frozenset[str]]] = {
    "hello": frozenset(),
    "response": frozenset({"revision", "receipt", "error"}),
    "event": frozenset({"revision", "runId"}),
}


@dataclass(frozen=True, slots=True)
class Hello:
    """The server's first message."""

    connection_id: str
    package_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question or command.

    Attributes:
        request_id: new for every sending, also for a repeat.
        client_id: stays the same for the life of one client.
        idempotency_key: stays the same for every sending of one command.
        run_id: the run it is about, None when it is about none.
        expected_revision: refuse unless the resource is at this revision; None accepts any.
    """

    request_id: str
    client_id: str
    operation: str
    idempotency_key: str
    payload: JsonObject = field(default_factory=dict)
    run_id: str | None = None
    expected_revision: int | None = None

    def frame(self) -> bytes:
        """Return the request as one frame.

        Raises:
            RequestInvalid: the frame would exceed 1 MiB, the request is not JSON, or no run can
                have the id.
        """
        if self.run_id is not None and not is_peer_id(self.run_id):
            raise RequestInvalid(
                f"a run id is a text of 1 to {PEER_ID_BYTES_MAX} bytes; copy it from:"
                " pi-workflows list",
                code=ErrorCode.RUN_ID_INVALID,
            )
        message: JsonObject = {
            "schema": CLIENT_PROTOCOL,
            "type": "request",
            "requestId": self.request_id,
            "clientId": self.client_id,
            "operation": self.operation,
            "idempotencyKey": self.idempotency_key,
            "payload": self.payload,
        }
        if self.run_id is not None:
            message["runId"] = self.run_id
        if self.expected_revision is not None:
            message["expectedRevision"] = self.expected_revision
        try:
            return encode_frame(message)
        except (FrameError, CanonicalError) as error:
            raise RequestInvalid(f"{self.operation} cannot be asked: {error}") from error


@dataclass(frozen=True, slots=True)
class Response:
    """The server's one answer to a request; absent fields are None, an absent receipt is empty."""

    request_id: str
    outcome: CommandOutcome
    revision: int | None
    receipt: JsonObject
    error: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """Something the server pushed, or the library's own `unavailable`."""

    subscription_id: str
    event: str
    payload: JsonObject
    revision: int | None = None
    run_id: str | None = None


Message: TypeAlias = Hello | Response | Event


def read_message(message: JsonObject) -> Message:
    """Check one parsed frame of the server and give it its type.

    Raises:
        ProtocolViolation: another schema, an unknown type, a missing or unknown field, or a value
            of the wrong kind.
    """
    if message.get("schema") != CLIENT_PROTOCOL:
        raise ProtocolViolation(f"a message is not of {CLIENT_PROTOCOL}")
    kind = message.get("type")
    if not isinstance(kind, str) or kind not in _REQUIRED:
        raise ProtocolViolation("a message has an unknown type")
    names = message.keys() - _ENVELOPE
    if not _REQUIRED[kind] <= names <= _REQUIRED[kind] | _OPTIONAL[kind]:
        raise ProtocolViolation(f"a {kind} does not have exactly its fields")
    if kind == "hello":
        return Hello(_peer_id(message["connectionId"]), _text(message["packageVersion"]))
    return _response(message) if kind == "response" else _event(message)


def _response(message: JsonObject) -> Response:
    outcome = _text(message["outcome"])
    if outcome not in set(CommandOutcome):
        raise ProtocolViolation("a response has an unknown outcome")
    error = message.get("error")
    return Response(
        request_id=_peer_id(message["requestId"]),
        outcome=CommandOutcome(outcome),
        revision=_revision(message.get("revision")),
        receipt=_object(message.get("receipt", {})),
        error=None if error is None else _text(error),
    )


def _event(message: JsonObject) -> Event:
    name = _text(message["event"])
    if name not in SERVER_EVENTS:
        raise ProtocolViolation("an event has an unknown name")
    run_id = message.get("runId")
    return Event(
        subscription_id=_peer_id(message["subscriptionId"]),
        event=name,
        payload=_object(message["payload"]),
        revision=_revision(message.get("revision")),
        run_id=None if run_id is None else _text(run_id),
    )


def _text(value: JsonValue) -> str:
    if not isinstance(value, str) or not value:
        raise ProtocolViolation("a field is not a nonempty text")
    return value


def _peer_id(value: JsonValue) -> str:
    if not isinstance(value, str) or not is_peer_id(value):
        raise ProtocolViolation("an id is not 1 to 256 bytes")
    return value


def _revision(value: JsonValue) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProtocolViolation("a revision is not an integer from 0")
    return value


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise ProtocolViolation("a payload or receipt is not an object")
    return value
