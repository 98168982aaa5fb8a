"""Behaviour of the server's Unix socket, with real sockets."""

import os
import socket
import stat
from pathlib import Path

import pytest
import trio
import trio.testing

from runtime.errors import NotPrivate, SocketPathTaken, SocketPathTooLong
from runtime.listener import check_socket_path, open_unix_listener, peer_process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "host" / "host.sock"


async def test_socket_is_private_in_a_private_directory_whatever_the_umask(path: Path) -> None:
    """Case: C7."""
    umask = os.umask(0)
    try:
        listener = open_unix_listener(path)
        assert os.umask(0) == 0
    finally:
        os.umask(umask)
    assert (_mode(path), _mode(path.parent)) == (0o600, 0o700)
    await listener.aclose()


async def test_connections_of_our_own_user_are_served(path: Path, nursery: trio.Nursery) -> None:
    listener = open_unix_listener(path)

    async def echo(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(await stream.receive_some(100))

    nursery.start_soon(trio.serve_listeners, echo, [listener])
    with trio.fail_after(120):
        async with await trio.open_unix_socket(path) as client:
            await client.send_all(b"hello")
            assert await client.receive_some(100) == b"hello"
        nursery.cancel_scope.cancel()
    await listener.aclose()


async def test_connections_of_another_user_are_closed_unanswered(
    path: Path, nursery: trio.Nursery
) -> None:
    listener = open_unix_listener(path, allowed_uid=os.geteuid() + 1)
    nursery.start_soon(listener.accept)
    with trio.fail_after(120):
        async with await trio.open_unix_socket(path) as client:
            assert await client.receive_some(100) == b""
    nursery.cancel_scope.cancel()
    await listener.aclose()


async def test_process_that_connected_is_known(path: Path) -> None:
    """A stream that is no socket, as in a simulation, says nothing."""
    listener = open_unix_listener(path)
    with trio.fail_after(120):
        async with await trio.open_unix_socket(path):
            accepted = await listener.accept()
            async with accepted:
                assert peer_process(accepted) == os.getpid()
    one_end, other_end = trio.testing.memory_stream_pair()
    assert peer_process(one_end) is None
    await one_end.aclose()
    await other_end.aclose()
    await listener.aclose()


async def test_path_of_108_bytes_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """Case: C8."""
    directory = tmp_path / "d"
    longest = directory / ("s" * (107 - len(os.fsencode(directory)) - 1))
    check_socket_path(longest)
    too_long = longest.with_name(longest.name + "s")
    with pytest.raises(SocketPathTooLong) as caught:
        open_unix_listener(too_long)
    assert caught.value.path_bytes == 108
    assert caught.value.code == "SOCKET_PATH_TOO_LONG"
    assert not directory.exists()
    listener = open_unix_listener(longest)
    await listener.aclose()


async def test_socket_left_by_a_dead_server_is_replaced(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    listener = open_unix_listener(path)
    with trio.fail_after(120):
        async with await trio.open_unix_socket(path):
            await (await listener.accept()).aclose()
    await listener.aclose()


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_whatever_is_no_socket_is_left_where_it_stands(path: Path, kind: str) -> None:
    path.parent.mkdir(mode=0o700)
    if kind == "file":
        path.touch()
    elif kind == "link":
        path.symlink_to("/dev/null")
    else:
        path.mkdir()
    before = path.lstat()
    with pytest.raises(SocketPathTaken):
        open_unix_listener(path)
    assert path.lstat() == before


def test_directory_open_to_others_is_refused(path: Path) -> None:
    path.parent.mkdir(mode=0o755)
    with pytest.raises(NotPrivate):
        open_unix_listener(path)
    assert list(path.parent.iterdir()) == []


async def test_closing_removes_only_its_own_socket(path: Path, nursery: trio.Nursery) -> None:
    listener = open_unix_listener(path)
    successor = open_unix_listener(path)

    async def accept() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await listener.accept()

    nursery.start_soon(accept)
    await trio.testing.wait_all_tasks_blocked()
    await listener.aclose()
    await listener.aclose()
    assert _exists(path)
    await successor.aclose()
    assert not _exists(path)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _exists(path: Path) -> bool:
    return path.exists()
