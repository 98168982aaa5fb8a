"""The client protocol's requests, checked to the field before anything acts on them."""

from dataclasses import dataclass
from typing import Annotated, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from pi_workflows.protocol.canonical import JsonObject, canonical_bytes, digest
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.frames import FrameError
from pi_workflows.protocol.ids import is_peer_id
from pi_workflows.protocol.version import CLIENT_PROTOCOL
from store.receipts import Request

_REQUIRED: Final = frozenset(
    {"schema", "type", "requestId", "clientId", "operation", "idempotencyKey", "payload"}
)
_OPTIONAL: Final = frozenset({"runId", "expectedRevision"})
PATH_CHARS_MAX: Final = 4_096
LIST_LIMIT_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One request.

    Attributes:
        fingerprint: SHA-256 of the canonical request without its request id.
        run_id: None when the operation names no run.
    """

    request_id: str
    client_id: str
    operation: str
    idempotency_key: str
    payload: JsonObject
    run_id: str | None
    expected_revision: int | None
    fingerprint: bytes

    def stored_by(self, host_epoch: int) -> Request:
        """Return the request as its receipt knows it; the epoch is the answering server's."""
        return Request(
            self.request_id,
            self.client_id,
            self.operation,
            self.idempotency_key,
            self.fingerprint,
            self.run_id,
            host_epoch,
        )


class PayloadInvalid(ValueError):
    """A payload has a missing, unknown or malformed field; the text names it, never its value."""

    code: Final = ErrorCode.PAYLOAD_INVALID


def parse_request(frame: JsonObject) -> ClientRequest:
    """Read a request envelope.

    Raises:
        FrameError: a field is unknown, missing or malformed: the connection is to be closed.
    """
    if not _REQUIRED <= frame.keys() <= _REQUIRED | _OPTIONAL:
        raise FrameError("a request has exactly the fields of the protocol")
    if frame["schema"] != CLIENT_PROTOCOL or frame["type"] != "request":
        raise FrameError("not a request of this protocol")
    ids = [frame[name] for name in ("requestId", "clientId", "idempotencyKey", "operation")]
    run_id = frame.get("runId")
    if not all(isinstance(item, str) and is_peer_id(item) for item in ids):
        raise FrameError("an id is not a text of 1 to 256 bytes")
    if "runId" in frame and not (isinstance(run_id, str) and is_peer_id(run_id)):
        raise FrameError("runId is not a text of 1 to 256 bytes")
    expected = frame.get("expectedRevision")
    if "expectedRevision" in frame and not (type(expected) is int and expected >= 0):
        raise FrameError("expectedRevision is not an integer >= 0")
    payload = frame["payload"]
    if not isinstance(payload, dict):
        raise FrameError("payload is not an object")
    without_id = {name: value for name, value in frame.items() if name != "requestId"}
    return ClientRequest(
        cast("str", frame["requestId"]),
        cast("str", frame["clientId"]),
        cast("str", frame["operation"]),
        cast("str", frame["idempotencyKey"]),
        payload,
        cast("str | None", run_id),
        cast("int | None", expected),
        digest(canonical_bytes(without_id)),
    )


class Payload(BaseModel):
    """A payload with exactly its fields; aliases map to the wire's camelCase here only."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        hide_input_in_errors=True,
        defer_build=True,  # Not while a server starts: each model takes it a millisecond.
    )


class NoPayload(Payload):
    """Of an operation that takes nothing."""


class RunStart(Payload):
    """`run.start`."""

    project_path: Annotated[str, Field(min_length=1, max_length=PATH_CHARS_MAX)]
    workflow: Annotated[str, Field(min_length=1, max_length=PATH_CHARS_MAX)]
    input: JsonValue = None
    launch_options: dict[str, JsonValue] = {}
    origin_session_id: None = None
    execution_mode: Annotated[str, Field(pattern="^headless$")] = "headless"


class RunCancel(Payload):
    """`run.cancel`."""

    reason: Annotated[str, Field(min_length=1, max_length=2_048)] | None = None


class RunList(Payload):
    """`run.list` and `view.runs.page`."""

    limit: Annotated[int, Field(ge=1, le=LIST_LIMIT_MAX)] = 50
    cursor: Annotated[str, Field(max_length=512)] | None = None
    status: str | None = None
    project_path: Annotated[str, Field(max_length=PATH_CHARS_MAX)] | None = None


class WatchRun(Payload):
    """`view.run.watch`; a known revision is not sent again."""

    subscription_id: Annotated[str, Field(min_length=1, max_length=256)]
    revision: Annotated[int, Field(ge=0)] | None = None


class WatchRuns(Payload):
    """`view.runs.watch`."""

    subscription_id: Annotated[str, Field(min_length=1, max_length=256)]
    limit: Annotated[int, Field(ge=1, le=LIST_LIMIT_MAX)] = 50


class Unwatch(Payload):
    """`view.run.unwatch`: removes a subscription of any kind."""

    subscription_id: Annotated[str, Field(min_length=1, max_length=256)]


class Content(Payload):
    """`view.content`."""

    path: Annotated[str, Field(min_length=1, max_length=512)]
    offset: Annotated[int, Field(ge=0)] = 0


PayloadT = TypeVar("PayloadT", bound=Payload)


def parse_payload(model: type[PayloadT], payload: JsonObject) -> PayloadT:
    """Return the payload as `model`.

    Raises:
        PayloadInvalid: a field is missing, unknown or malformed.
    """
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        named = "; ".join(
            f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
            for item in problems[:5]
        )
        raise PayloadInvalid(f"the payload is not valid: {named}") from error
