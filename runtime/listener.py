"""The server's Unix socket: private from the first moment, and only for its own user."""

import errno
import os
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Final, final

import trio
from typing_extensions import override

from pi_workflows.protocol.paths import SOCKET_PATH_BYTES_MAX
from runtime.errors import SocketPathTaken, SocketPathTooLong
from runtime.private_files import ensure_private_directory

BACKLOG: Final = 512
"""Beyond it a connect fails in a way that few clients understand: a burst of them must fit."""
_SOCKET_UMASK: Final = 0o177
_DARWIN_SOL_LOCAL: Final = 0
_DARWIN_LOCAL_PEERCRED: Final = 1
_DARWIN_LOCAL_PEERPID: Final = 2


def check_socket_path(path: Path) -> None:
    """Refuse a path the kernel cannot hold, before anything is made or started.

    Raises:
        SocketPathTooLong: It is longer than 107 bytes (macOS: 103).
    """
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES_MAX:
        raise SocketPathTooLong(str(path), path_bytes=length, path_bytes_max=SOCKET_PATH_BYTES_MAX)


def open_unix_listener(path: Path, *, allowed_uid: int | None = None) -> "UnixListener":
    """Bind and listen at `path`, mode 0600 inside a 0700 directory made if missing.

    A socket that stands there already is replaced: the caller holds the server lock, so nobody
    listens on it.

    Args:
        path: Where to bind.
        allowed_uid: The only user whose connections are accepted; None means our own.

    Raises:
        SocketPathTooLong: The path does not fit; nothing was touched.
        NotPrivate: The directory is open to others.
        SocketPathTaken: Something that is no socket stands at the path.
        OSError: Binding failed.
    """
    check_socket_path(path)
    ensure_private_directory(path.parent)
    _remove_stale_socket(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The mode must be right when the name appears: chmod afterwards leaves a gap.
        umask = os.umask(_SOCKET_UMASK)
        try:
            listening.bind(os.fspath(path))
        finally:
            os.umask(umask)
        listening.listen(BACKLOG)
        bound = path.lstat()
        return UnixListener(
            trio.socket.from_stdlib_socket(listening),
            path,
            inode=(bound.st_dev, bound.st_ino),
            allowed_uid=os.geteuid() if allowed_uid is None else allowed_uid,
        )
    except BaseException:
        listening.close()
        raise


@final
class UnixListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts connections of one user; works with `trio.serve_listeners`."""

    def __init__(
        self,
        listening: trio.socket.SocketType,
        path: Path,
        *,
        inode: tuple[int, int],
        allowed_uid: int,
    ) -> None:
        self.path: Final = path
        self._listening = listening
        self._inode = inode
        self._allowed_uid = allowed_uid

    @override
    async def accept(self) -> trio.SocketStream:
        """Return the next connection of the allowed user; others are closed unanswered.

        Raises:
            trio.ClosedResourceError: The listener was closed.
            OSError: Out of descriptors or memory; a later call can succeed.
        """
        while True:
            try:
                connected, _ = await self._listening.accept()
            except OSError as error:
                if error.errno in {errno.EBADF, errno.ENOTSOCK}:
                    raise trio.ClosedResourceError from None
                if error.errno == errno.ECONNABORTED:
                    continue
                raise
            if _peer_uid(connected) == self._allowed_uid:
                return trio.SocketStream(connected)
            connected.close()

    @override
    async def aclose(self) -> None:
        """Stop listening and remove the socket if it is still the one bound here."""
        if self._listening.fileno() >= 0:
            self._listening.close()
            try:
                found = self.path.lstat()
                if (found.st_dev, found.st_ino) == self._inode:
                    self.path.unlink()
            except FileNotFoundError:
                pass
        await trio.lowlevel.checkpoint()


def _remove_stale_socket(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketPathTaken(f"{path} is not a socket", hint="Move it away and start again.")
    path.unlink()


def peer_process(stream: trio.abc.Stream) -> int | None:
    """Return the id of the process that connected, as the kernel saw it; None if unknown.

    The process may have ended since, or have handed its socket to another.
    """
    if not isinstance(stream, trio.SocketStream):
        return None
    try:
        if sys.platform == "linux":
            found = _credentials(stream.socket)[0]
        else:
            text = stream.socket.getsockopt(_DARWIN_SOL_LOCAL, _DARWIN_LOCAL_PEERPID, 4)
            found = int(struct.unpack("i", text)[0])
    except OSError:
        return None
    return found or None  # Zero names a process of another process namespace.


def _credentials(connected: trio.socket.SocketType) -> tuple[int, int, int]:
    """Return process, user and group at the other end (Linux)."""
    text = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    process, user, group = struct.unpack("3i", text)
    return process, user, group


def _peer_uid(connected: trio.socket.SocketType) -> int | None:
    """Return the user at the other end as the kernel saw it on connect; None if unknown."""
    try:
        if sys.platform == "linux":
            return _credentials(connected)[1]
        else:  # noqa: RET505 - mypy takes the rest for unreachable otherwise
            credentials = connected.getsockopt(_DARWIN_SOL_LOCAL, _DARWIN_LOCAL_PEERCRED, 8)
            return int(struct.unpack("2I", credentials)[1])
    except OSError:
        return None
