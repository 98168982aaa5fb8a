"""A scripted stand-in for the server: a real Unix socket, real frames, answers from a script.

For tests of clients and of what people build on them. Connections are served by threads, so that
blocking and async clients, in this process or another, can be driven.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import FrameDecoder, encode_frame, parse_canonical
from pi_workflows.protocol.version import CLIENT_PROTOCOL, PACKAGE_VERSION

_READ_BYTES: Final = 65_536
_WAIT_SECONDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the script answers to one request.

    Attributes:
        events: pushed right after the response: name, payload, revision.
        lost: close the connection instead of answering.
    """

    receipt: JsonObject = field(default_factory=dict)
    outcome: str = "accepted"
    error: str | None = None
    revision: int | None = None
    events: Sequence[tuple[str, JsonObject, int]] = ()
    lost: bool = False


class ScriptedServer:
    """Listens on a socket path while it is entered.

    Args:
        path: where to bind; its folder must exist.
        script: gives the answer to each request; called in a connection's thread.
        package_version: what the hello says.

    Attributes:
        requests: everything received, in order.
    """

    def __init__(
        self,
        path: Path,
        script: Callable[[JsonObject], Answer],
        package_version: str = PACKAGE_VERSION,
    ) -> None:
        self._path = path
        self._script = script
        self._package_version = package_version
        self._changed = threading.Condition()
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._watchers: list[tuple[socket.socket, str]] = []
        self.requests: list[JsonObject] = []

    def __enter__(self) -> Self:
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._path))
        self._listener.listen()
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(_WAIT_SECONDS)
        self._path.unlink(missing_ok=True)

    def drop_connections(self) -> None:
        """Close every connection, as a dying server would."""
        with self._changed:
            connections, self._connections = self._connections, []
            self._watchers.clear()
        for connection in connections:
            _shut(connection)

    def push(self, event: str, payload: JsonObject, revision: int) -> None:
        """Push an event to every present subscription; waits for the first one."""
        with self._changed:
            self._changed.wait_for(lambda: self._watchers, _WAIT_SECONDS)
            watchers = list(self._watchers)
        for connection, subscription_id in watchers:
            connection.sendall(_event(subscription_id, event, payload, revision))

    def await_request(self, operation: str, count: int = 1) -> JsonObject:
        """Wait until this operation was received so often; return that request.

        Raises:
            TimeoutError: it was not, within 20 seconds.
        """

        def received() -> list[JsonObject]:
            return [request for request in self.requests if request["operation"] == operation]

        with self._changed:
            if not self._changed.wait_for(lambda: len(received()) >= count, _WAIT_SECONDS):
                raise TimeoutError(f"no {operation} came")
            return received()[count - 1]

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self._connections.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        hello = _message("hello", connectionId="c1", packageVersion=self._package_version)
        decoder = FrameDecoder()
        try:
            connection.sendall(hello)
            while data := connection.recv(_READ_BYTES):
                for line in decoder.feed(data):
                    self._answer(connection, parse_canonical(line))
        except OSError:
            return
        finally:
            connection.close()

    def _answer(self, connection: socket.socket, request: JsonObject) -> None:
        answer = self._script(request)
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        if answer.lost:
            _shut(connection)
            return
        members = {
            "requestId": request["requestId"],
            "outcome": answer.outcome,
            "receipt": answer.receipt,
            "revision": answer.revision,
            "error": answer.error,
        }
        connection.sendall(
            _message("response", **{key: it for key, it in members.items() if it is not None})
        )
        payload = request["payload"]
        assert isinstance(payload, dict)
        subscription_id = payload.get("subscriptionId")
        if isinstance(subscription_id, str) and answer.outcome == "accepted":
            for event, view, revision in answer.events:
                connection.sendall(_event(subscription_id, event, view, revision))
            with self._changed:
                self._watchers.append((connection, subscription_id))
                self._changed.notify_all()


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # Its client was faster.


def _event(subscription_id: str, event: str, payload: JsonObject, revision: int) -> bytes:
    return _message(
        "event", subscriptionId=subscription_id, event=event, payload=payload, revision=revision
    )


def _message(kind: str, **members: object) -> bytes:
    message = {"schema": CLIENT_PROTOCOL, "type": kind, **members}
    return encode_frame(message)  # type: ignore[arg-type]  # Checked when it is made canonical.
