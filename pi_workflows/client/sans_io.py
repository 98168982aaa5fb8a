"""One connection's protocol as a state machine that does no I/O.

Both clients drive it: bytes in, messages out. It guarantees that nothing is accepted before a
hello of the same package version, that a response answers a request that is still open here, and
that after the first violation nothing is accepted any more.
"""

import os
from dataclasses import dataclass
from typing import Final

from pi_workflows.client.errors import ClientError, ProtocolViolation, Refused, VersionsDiffer
from pi_workflows.client.messages import Event, Hello, Message, Request, Response, read_message
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import FrameDecoder, FrameError, parse_canonical
from pi_workflows.protocol.states import CommandOutcome
from pi_workflows.protocol.version import PACKAGE_VERSION

CONNECT_MS: Final = 2_000
"""Bound of connecting, and again of the hello after it."""

_DONE: Final = frozenset({CommandOutcome.ACCEPTED, CommandOutcome.ADOPTED})


@dataclass(frozen=True, slots=True)
class Reply:
    """A yes of the server.

    Attributes:
        adopted: the change had been made before, by an earlier sending of the same command.
        revision: of the resource after the change; None where the answer is about none.
        receipt: the answer itself.
    """

    adopted: bool
    revision: int | None
    receipt: JsonObject


class Connection:
    """Protocol state of one connection; see the module for what it guarantees.

    Args:
        package_version: the client's own, which the server's must equal.
    """

    def __init__(self, package_version: str = PACKAGE_VERSION) -> None:
        self._package_version = package_version
        self._decoder = FrameDecoder()
        self._open: set[str] = set()
        self._failure: ClientError | None = None
        self.hello: Hello | None = None

    def send(self, request: Request) -> bytes:
        """Return the bytes to send and expect its response from now on.

        Raises:
            RequestInvalid: it exceeds 1 MiB or is not JSON; nothing is expected then.
        """
        assert self.hello is not None, "a request before the hello"
        frame = request.frame()
        self._open.add(request.request_id)
        return frame

    def receive(self, data: bytes) -> list[Response | Event]:
        """Take bytes of the server and return the messages they complete, in order.

        Raises:
            VersionsDiffer: the hello names another package version.
            ProtocolViolation: anything the protocol does not allow. After either, this connection
                raises the same again.
        """
        if self._failure is not None:
            raise self._failure
        messages: list[Response | Event] = []
        try:
            for line in self._decoder.feed(data):
                message = self._accept(read_message(parse_canonical(line)))
                if message is not None:
                    messages.append(message)
        except FrameError as error:
            self._failure = ProtocolViolation(str(error))
            raise self._failure from error
        except ClientError as error:
            self._failure = error
            raise
        return messages

    def _accept(self, message: Message) -> Response | Event | None:
        if isinstance(message, Hello):
            if self.hello is not None:
                raise ProtocolViolation("a second hello")
            if message.package_version != self._package_version:
                raise VersionsDiffer(message.package_version, self._package_version)
            self.hello = message
            return None
        if self.hello is None:
            raise ProtocolViolation("a message before the hello")
        if isinstance(message, Response):
            if message.request_id not in self._open:
                raise ProtocolViolation("a response to a request that is not open")
            self._open.remove(message.request_id)
        return message


def new_id() -> str:
    """Return a fresh id for a client, a request, a key or a subscription (32 hex digits)."""
    return os.urandom(16).hex()


def reply_of(response: Response, operation: str | None = None) -> Reply:
    """Turn a response into its reply.

    Args:
        response: what the server answered.
        operation: what was asked; None when it makes no difference.

    Raises:
        Refused: the outcome is neither `accepted` nor `adopted`.
    """
    if response.outcome not in _DONE:
        text = response.error or f"the server answered {response.outcome}"
        raise Refused(response.outcome, text, response.receipt, operation)
    return Reply(response.outcome is CommandOutcome.ADOPTED, response.revision, response.receipt)
