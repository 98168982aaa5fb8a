"""Behaviour of a socket that is read and written without detours."""

import socket

import pytest
import trio
import trio.testing

from runtime.direct_socket import DirectSocket


def pair() -> tuple[trio.SocketStream, DirectSocket, socket.socket]:
    ours, theirs = socket.socketpair()
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
    direct = DirectSocket.of(stream)
    assert direct is not None
    return stream, direct, theirs


async def test_what_the_kernel_takes_at_once_is_written_without_a_turn_of_the_loop() -> None:
    stream, direct, theirs = pair()
    assert direct.send_now(b"frame\n") == 6
    assert theirs.recv(10) == b"frame\n"
    await stream.aclose()
    theirs.close()


async def test_full_socket_takes_a_part_and_then_nothing() -> None:
    stream, direct, theirs = pair()
    data = b"x" * 4_000_000
    assert 0 < direct.send_now(data) < len(data)
    assert direct.send_now(data) == 0
    await stream.aclose()
    theirs.close()


async def test_reader_waits_and_sees_the_end() -> None:
    stream, direct, theirs = pair()
    received: list[bytes] = []

    async def read() -> None:
        received.append(await direct.receive_some(100))
        received.append(await direct.receive_some(100))

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            assert received == []
            theirs.send(b"hello")
            await trio.testing.wait_all_tasks_blocked()
            theirs.close()
    assert received == [b"hello", b""]
    await stream.aclose()


async def test_cancelled_reader_has_read_nothing() -> None:
    stream, direct, theirs = pair()
    with trio.CancelScope() as scope:
        scope.cancel()
        theirs.send(b"kept")
        await direct.receive_some(100)
    assert scope.cancelled_caught
    assert await direct.receive_some(100) == b"kept"
    await stream.aclose()
    theirs.close()


async def test_peer_that_is_gone_is_a_broken_connection() -> None:
    stream, direct, theirs = pair()
    theirs.close()
    with pytest.raises(trio.BrokenResourceError):
        direct.send_now(b"x")
    await stream.aclose()


async def test_closed_stream_is_told_apart_from_a_broken_one() -> None:
    """Also by a reader that waits when it is closed."""
    stream, direct, theirs = pair()

    async def read() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await direct.receive_some(100)

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            await stream.aclose()
    with pytest.raises(trio.ClosedResourceError):
        direct.send_now(b"x")
    theirs.close()


def test_stream_without_a_socket_has_no_direct_way() -> None:
    ours, _ = trio.testing.memory_stream_pair()
    assert DirectSocket.of(ours) is None
