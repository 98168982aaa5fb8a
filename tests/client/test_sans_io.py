"""The connection state machine accepts exactly the protocol and nothing after a violation."""

import pytest

from pi_workflows.client.errors import ProtocolViolation, Refused, VersionsDiffer
from pi_workflows.client.messages import Event, Request, Response
from pi_workflows.client.sans_io import Connection, reply_of
from pi_workflows.protocol.canonical import JsonObject, parse_json
from pi_workflows.protocol.errors import ExitCode
from pi_workflows.protocol.frames import encode_frame
from pi_workflows.protocol.states import CommandOutcome
from pi_workflows.protocol.version import CLIENT_PROTOCOL, PACKAGE_VERSION


def message(kind: str, **members: object) -> bytes:
    envelope = {"schema": CLIENT_PROTOCOL, "type": kind, **members}
    return encode_frame(envelope)  # type: ignore[arg-type]


HELLO = message("hello", connectionId="c1", packageVersion=PACKAGE_VERSION)


def opened() -> Connection:
    connection = Connection()
    connection.receive(HELLO)
    return connection


def request(request_id: str = "r1") -> Request:
    return Request(
        request_id=request_id,
        client_id="client",
        operation="run.cancel",
        idempotency_key="key",
        payload={"reason": "why"},
        run_id="run-1",
        expected_revision=7,
    )


def test_a_hello_cut_into_single_bytes_is_accepted() -> None:
    connection = Connection()
    for byte in HELLO:
        connection.receive(bytes([byte]))
    assert connection.hello is not None
    assert connection.hello.connection_id == "c1"


def test_another_package_version_asks_for_matching_packages_and_never_for_a_reset() -> None:
    with pytest.raises(VersionsDiffer) as caught:
        Connection().receive(message("hello", connectionId="c1", packageVersion="9.9"))
    assert "9.9" in caught.value.message
    assert "matching packages" in caught.value.message
    assert "state.sqlite" not in caught.value.message
    assert caught.value.exit_code is ExitCode.UNAVAILABLE


def test_a_request_has_exactly_its_fields_in_canonical_form() -> None:
    frame = opened().send(request())
    assert frame == (
        b'{"clientId":"client","expectedRevision":7,"idempotencyKey":"key",'
        b'"operation":"run.cancel","payload":{"reason":"why"},"requestId":"r1","runId":"run-1",'
        b'"schema":"pi-workflows.client.v1","type":"request"}\n'
    )


def test_absent_optional_fields_of_a_request_are_left_out() -> None:
    bare = Request(request_id="r", client_id="c", operation="run.list", idempotency_key="k")
    parsed = parse_json(bare.frame())
    assert isinstance(parsed, dict)
    assert not {"runId", "expectedRevision"} & parsed.keys()


def test_a_response_and_an_event_arrive_in_order() -> None:
    connection = opened()
    connection.send(request())
    both = connection.receive(
        message("response", requestId="r1", outcome="accepted", revision=8, receipt={"a": 1})
        + message("event", subscriptionId="s", event="runs", payload={}, revision=1)
    )
    assert both == [
        Response("r1", CommandOutcome.ACCEPTED, 8, {"a": 1}, None),
        Event("s", "runs", {}, 1),
    ]


@pytest.mark.parametrize(
    "broken",
    [
        HELLO,
        message("response", requestId="other", outcome="accepted"),
        message("response", requestId="r1", outcome="perhaps"),
        message("response", requestId="r1"),
        message("response", requestId="r1", outcome="accepted", extra=1),
        message("response", requestId="r1", outcome="accepted", revision=-1),
        message("response", requestId="r1", outcome="accepted", revision=True),
        message("response", requestId="r1", outcome="rejected", error=""),
        message("event", subscriptionId="s", event="unavailable", payload={}),
        message("event", subscriptionId="s", event="news", payload={}),
        message("event", subscriptionId="", event="runs", payload={}),
        message("event", subscriptionId="s" * 257, event="runs", payload={}),
        message("event", subscriptionId="s", event="runs", payload=[]),
        message("gossip"),
        b'{"type":"hello","schema":"pi-workflows.client.v1"}\n',
        b"[]\n",
        b"\xff\n",
    ],
)
def test_what_the_protocol_does_not_allow_ends_the_connection(broken: bytes) -> None:
    """Case: C16."""
    connection = opened()
    connection.send(request())
    with pytest.raises(ProtocolViolation):
        connection.receive(broken)
    with pytest.raises(ProtocolViolation):
        connection.receive(message("response", requestId="r1", outcome="accepted"))


def test_nothing_is_accepted_before_the_hello() -> None:
    with pytest.raises(ProtocolViolation):
        Connection().receive(message("response", requestId="r1", outcome="accepted"))


def test_a_message_of_another_schema_is_no_hello() -> None:
    other: JsonObject = {"schema": "other.v1", "type": "hello"}
    with pytest.raises(ProtocolViolation):
        Connection().receive(encode_frame(other))


@pytest.mark.parametrize(
    ("outcome", "code", "exit_code"),
    [
        ("notFound", "RUN_UNKNOWN", ExitCode.USAGE),
        ("rejected", "INPUT_REJECTED", ExitCode.USAGE),
        ("rejected", "SOURCE_FAILED", ExitCode.USAGE),
        ("rejected", "RESOLVER_FAILED", ExitCode.FAILED),
        ("rejected", "STATE_INCOMPATIBLE", ExitCode.INCOMPATIBLE_STATE),
        ("conflict", "KEY_REUSED", ExitCode.FAILED),
        ("claimLost", None, ExitCode.FAILED),
        ("unavailable", None, ExitCode.UNAVAILABLE),
    ],
)
def test_a_refusal_has_the_code_of_its_receipt_and_an_exit_code(
    outcome: str, code: str | None, exit_code: ExitCode
) -> None:
    receipt: JsonObject = {} if code is None else {"code": code}
    with pytest.raises(Refused) as caught:
        reply_of(Response("r", CommandOutcome(outcome), None, receipt, "the text"))
    assert caught.value.message == "the text"
    assert caught.value.exit_code is exit_code
    assert code is None or caught.value.code == code


def test_an_adopted_outcome_is_a_yes() -> None:
    reply = reply_of(Response("r", CommandOutcome.ADOPTED, 3, {"runId": "x"}, None))
    assert reply.adopted
    assert reply.receipt == {"runId": "x"}
