"""Listening and connecting as a port, so that a simulation can keep every byte in memory."""

from pathlib import Path
from typing import Protocol, final

import trio

from runtime.listener import open_unix_listener


class Network(Protocol):
    """Local streams between clients and the server."""

    def listen(self, path: Path) -> trio.abc.Listener[trio.abc.Stream]:
        """Listen at `path`, for this user alone.

        Raises:
            SocketPathTooLong, NotPrivate, SocketPathTaken, OSError: as `open_unix_listener`.
        """
        ...

    async def connect(self, path: Path) -> trio.abc.Stream:
        """Connect to whoever listens at `path`.

        Raises:
            OSError: nobody does.
        """
        ...


@final
class UnixNetwork:
    """Unix sockets."""

    def listen(self, path: Path) -> trio.abc.Listener[trio.abc.Stream]:
        """Bind and listen; see `open_unix_listener`."""
        return open_unix_listener(path)

    async def connect(self, path: Path) -> trio.abc.Stream:
        """Connect to a Unix socket."""
        return await trio.open_unix_socket(str(path))
