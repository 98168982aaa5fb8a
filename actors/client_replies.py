"""What the server says first, and how an answer to a request looks on the wire."""

from typing import Final

from actors.client_requests import ClientRequest
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.version import CLIENT_PROTOCOL, PACKAGE_VERSION
from store.receipts import Reply

ERROR_CHARS_MAX: Final = 2_048


def hello_of(connection_id: str) -> JsonObject:
    """Return the first message of a connection."""
    return {
        "schema": CLIENT_PROTOCOL,
        "type": "hello",
        "connectionId": connection_id,
        "packageVersion": PACKAGE_VERSION,
    }


def response_to(request: ClientRequest, reply: Reply) -> JsonObject:
    """Return the answer to a request; its text is cut at 2,048 characters."""
    response: JsonObject = {
        "schema": CLIENT_PROTOCOL,
        "type": "response",
        "requestId": request.request_id,
        "outcome": reply.outcome.value,
    }
    if reply.revision is not None:
        response["revision"] = reply.revision
    if reply.receipt is not None:
        response["receipt"] = reply.receipt
    if reply.error is not None:
        response["error"] = reply.error[:ERROR_CHARS_MAX]
    return response
