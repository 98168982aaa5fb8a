"""A blocking connection to the server's Unix socket."""

import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pi_workflows.client.errors import (
    ConnectionLost,
    ProtocolViolation,
    Unavailable,
)
from pi_workflows.client.messages import Event, Request, Response
from pi_workflows.client.sans_io import CONNECT_MS, Connection
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.paths import SOCKET_PATH_BYTES_MAX

_READ_BYTES: Final = 65_536


def check_socket_path(path: Path) -> None:
    """Refuse a path that no Unix socket can have.

    Raises:
        Unavailable: code `SOCKET_PATH_TOO_LONG`; trying again cannot help.
    """
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES_MAX:
        raise Unavailable(
            f"the socket path {path} has {length} bytes, this system allows"
            f" {SOCKET_PATH_BYTES_MAX}: set HOME to a shorter path",
            code=ErrorCode.SOCKET_PATH_TOO_LONG,
        )


class Channel:
    """One open connection whose hello was accepted; one request at a time."""

    def __init__(self, stream: socket.socket, connection: Connection) -> None:
        self._stream = stream
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; may be called again."""
        self._stream.close()

    def exchange(self, request: Request, reply_ms: int | None) -> Response:
        """Send one request and wait for its response.

        Args:
            request: is sent whole before anything is read.
            reply_ms: how long to wait for the response; None waits for ever.

        Raises:
            ConnectionLost: the connection ended first; the outcome is unknown.
            Unavailable: no response in time; the outcome is unknown. Close the channel then.
            ProtocolViolation: the server broke the protocol.
            RequestInvalid: it exceeds 1 MiB or is not JSON; nothing was sent.
        """
        frame = self._connection.send(request)
        deadline = None if reply_ms is None else time.monotonic() + reply_ms / 1000
        try:
            self._stream.settimeout(None if reply_ms is None else reply_ms / 1000)
            self._stream.sendall(frame)
            while True:
                for message in self._read(deadline):
                    if isinstance(message, Response):
                        return message
        except TimeoutError as error:
            raise Unavailable(
                f"the server did not answer {request.operation} within {reply_ms} ms"
            ) from error
        except OSError as error:
            raise ConnectionLost(f"the connection to the server was lost: {error}") from error

    def await_hello(self, wait_ms: int) -> None:
        """Read until the server's hello was accepted.

        Raises:
            Unavailable: no hello in time, or the connection ended.
            VersionsDiffer: the server is of another package version.
            ProtocolViolation: something else came.
        """
        deadline = time.monotonic() + wait_ms / 1000
        try:
            while self._connection.hello is None:
                if self._read(deadline):
                    raise ProtocolViolation("a message came with the hello")
        except TimeoutError as error:
            raise Unavailable(f"the server said no hello within {wait_ms} ms") from error
        except OSError as error:
            raise ConnectionLost(f"the connection to the server was lost: {error}") from error

    def _read(self, deadline: float | None) -> list[Response | Event]:
        if deadline is not None:
            self._stream.settimeout(max(deadline - time.monotonic(), 0.001))
        data = self._stream.recv(_READ_BYTES)
        if not data:
            raise ConnectionLost("the server closed the connection before it answered")
        return self._connection.receive(data)


def open_channel(path: Path, wait_ms: int = CONNECT_MS) -> Channel:
    """Connect and accept the hello, each within `wait_ms`.

    Raises:
        Unavailable: nothing listens there, it does not answer, or the path is too long.
        VersionsDiffer: the server is of another package version.
        ProtocolViolation: the peer is no workflow server.
    """
    check_socket_path(path)
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    channel = Channel(stream, Connection())
    try:
        stream.settimeout(wait_ms / 1000)
        stream.connect(os.fspath(path))
        channel.await_hello(wait_ms)
    except OSError as error:
        channel.close()
        raise Unavailable(
            f"no workflow server answers ({error.strerror or error}); the next command that needs"
            " one starts it, as does: pi-workflows server start"
        ) from error
    except BaseException:
        channel.close()
        raise
    return channel
