"""Behaviour of frames over a stream, with real sockets where blocking matters."""

import socket

import pytest
import trio
import trio.testing

from pi_workflows.protocol.frames import FRAME_BYTES_MAX, FrameTooLarge
from runtime.line_stream import LineStream
from runtime.sync_points import SyncPoint


def _socket_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    ours, theirs = socket.socketpair()
    return (
        trio.SocketStream(trio.socket.from_stdlib_socket(ours)),
        trio.SocketStream(trio.socket.from_stdlib_socket(theirs)),
    )


async def test_lines_arrive_whole_and_in_order_however_they_were_cut() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    lines = LineStream(ours)
    for piece in (b"{}\n{", b"1", b"}\n", b"unfinished"):
        await theirs.send_all(piece)
    await theirs.aclose()
    assert [await lines.receive() for _ in range(3)] == [b"{}", b"{1}", None]


async def test_frame_of_exactly_the_limit_passes_and_one_byte_more_does_not() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    lines = LineStream(ours)
    await theirs.send_all(b"x" * (FRAME_BYTES_MAX - 1) + b"\n")
    received = await lines.receive()
    assert received is not None
    assert len(received) == FRAME_BYTES_MAX - 1
    await theirs.send_all(b"x" * FRAME_BYTES_MAX + b"\n")
    with pytest.raises(FrameTooLarge):
        await lines.receive()


async def test_frames_of_several_writers_never_mix() -> None:
    ours, theirs = _socket_pair()
    writer, reader = LineStream(ours), LineStream(theirs)
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for letter in (b"a", b"b", b"c"):
                nursery.start_soon(writer.send, letter * 500_000 + b"\n")
            received = [await reader.receive() for _ in range(3)]
    assert {(line or b"")[:1] for line in received} == {b"a", b"b", b"c"}
    assert all(len(set(line or b"")) == 1 for line in received)
    await writer.aclose()
    await reader.aclose()


async def test_close_ends_a_blocked_writer_and_a_blocked_reader() -> None:
    ours, theirs = _socket_pair()
    lines = LineStream(ours)

    async def write() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await lines.send(b"x" * 1_000_000 + b"\n")

    async def read() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await lines.receive()

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            await lines.aclose()
    await theirs.aclose()


async def test_stream_with_half_a_frame_refuses_the_next_one() -> None:
    ours, theirs = _socket_pair()
    lines = LineStream(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lines.send, b"x" * 1_000_000 + b"\n")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    with pytest.raises(trio.BrokenResourceError):
        await lines.send(b"{}\n")
    await lines.aclose()
    await theirs.aclose()


async def test_armed_harness_stops_between_the_halves_of_a_frame() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    seen: list[bytes] = []

    class Armed:
        def is_armed(self, point: SyncPoint) -> bool:
            return point is SyncPoint.SOCKET_MID_FRAME

        def reached(self, point: SyncPoint) -> None:
            assert self.is_armed(point)
            seen.append(bytes(theirs.receive_stream._incoming.get_nowait()))

    await LineStream(ours, Armed()).send(b"12345\n")
    seen.append(bytes(await theirs.receive_some()))
    assert seen == [b"123", b"45\n"]
