"""Streams and networks, real and simulated, keep the same promises."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import socket
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from runtime.line_stream import LineStream
from runtime.network import Network, UnixNetwork
from runtime.simulation.machine import Machine
from runtime.simulation.network import SimulatedNetwork, own
from runtime.simulation.processes import SimulatedProcess

Pair: TypeAlias = tuple[trio.abc.Stream, trio.abc.Stream]


async def sleeping(_: SimulatedProcess) -> int:
    await trio.sleep_forever()
    raise AssertionError


def process_of(machine: Machine) -> SimulatedProcess:
    return machine.start("peer", sleeping)


@pytest.fixture(params=["real", "simulated"])
def pair(request: pytest.FixtureRequest, machine: Machine) -> Pair:
    """Both ends of a connection."""
    if request.param == "simulated":
        ours, theirs = machine.wires.pair("test")
        return own(ours, process_of(machine)), own(theirs, process_of(machine))
    first, second = (
        trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair()
    )
    return first, second


@pytest.fixture(params=["real", "simulated"])
def network(request: pytest.FixtureRequest, machine: Machine) -> Network:
    if request.param == "simulated":
        return SimulatedNetwork(machine.wires, process_of(machine))
    return UnixNetwork()


async def closed(*streams: trio.abc.AsyncResource) -> None:
    for stream in streams:
        await stream.aclose()


async def receive_all(stream: trio.abc.Stream) -> bytes:
    received = b""
    while data := await stream.receive_some():
        received += data
    return received


async def test_bytes_arrive_whole_and_in_order_then_the_end(
    autojump_clock: MockClock, pair: Pair
) -> None:
    """More than fits on the way: the sender waits for the receiver."""
    first, second = pair
    sent = bytes(range(256)) * 4_000
    received: list[bytes] = []

    async def read() -> None:
        received.append(await receive_all(second))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await first.send_all(sent)
        await first.aclose()
    assert received == [sent]
    await closed(second)


async def test_frames_are_put_together_from_whatever_pieces_arrive(
    autojump_clock: MockClock, pair: Pair
) -> None:
    first, second = LineStream(pair[0]), LineStream(pair[1])
    frames = [b'{"n":%d}\n' % number * 1 for number in range(200)]

    async def write() -> None:
        for frame in frames:
            await first.send(frame)
        await first.aclose()

    received = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        while (line := await second.receive()) is not None:
            received.append(line + b"\n")
    assert received == frames
    await second.aclose()


async def test_sending_to_an_end_that_is_closed_breaks(
    autojump_clock: MockClock, pair: Pair
) -> None:
    first, second = pair
    await second.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await first.send_all(b"x")
    await closed(first)


async def test_end_that_closes_with_unread_bytes_resets_the_connection(
    autojump_clock: MockClock, pair: Pair
) -> None:
    first, second = pair
    await first.send_all(b"never read")
    await second.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await first.receive_some()
    await closed(first)


async def test_blocked_read_ends_when_its_own_end_is_closed(
    autojump_clock: MockClock, pair: Pair
) -> None:
    first, second = pair

    async def read() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await first.receive_some()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        await first.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await first.send_all(b"x")
    await closed(second)


async def test_blocked_write_ends_when_the_other_end_is_closed(
    autojump_clock: MockClock, pair: Pair
) -> None:
    first, second = pair

    async def write() -> None:
        with pytest.raises(trio.BrokenResourceError):
            await first.send_all(b"x" * 10_000_000)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await wait_all_tasks_blocked()
        await second.aclose()
    await closed(first)


async def test_cancelled_read_loses_nothing(autojump_clock: MockClock, pair: Pair) -> None:
    first, second = pair
    with trio.move_on_after(1) as waited:
        await second.receive_some()
    assert waited.cancelled_caught
    await first.send_all(b"late")
    await first.aclose()
    assert await receive_all(second) == b"late"
    await closed(second)


async def test_room_is_waited_for_until_the_other_end_reads(
    autojump_clock: MockClock, pair: Pair
) -> None:
    first, second = pair
    await first.wait_send_all_might_not_block()
    with trio.move_on_after(1):
        await first.send_all(b"x" * 10_000_000)
    with trio.move_on_after(1) as waited:
        await first.wait_send_all_might_not_block()
    assert waited.cancelled_caught
    await second.aclose()
    await first.wait_send_all_might_not_block()
    await closed(first)


async def test_connection_reaches_who_listens(
    autojump_clock: MockClock, network: Network, tmp_path: Path
) -> None:
    path = tmp_path / "host" / "host.sock"
    listener = network.listen(path)
    client = await network.connect(path)
    server = await listener.accept()
    await client.send_all(b"hello")
    await client.aclose()
    assert await receive_all(server) == b"hello"
    await closed(server, listener)


async def test_connecting_to_nobody_is_refused(
    autojump_clock: MockClock, network: Network, tmp_path: Path
) -> None:
    path = tmp_path / "host" / "host.sock"
    with pytest.raises(OSError, match=r"host\.sock|No such file|refused"):
        await network.connect(path)
    listener = network.listen(path)
    await listener.aclose()
    with pytest.raises(OSError, match=r"host\.sock|No such file|refused"):
        await network.connect(path)


async def test_closed_listener_accepts_nobody_more(
    autojump_clock: MockClock, network: Network, tmp_path: Path
) -> None:
    listener = network.listen(tmp_path / "host" / "host.sock")

    async def accept() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await listener.accept()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        await wait_all_tasks_blocked()
        await listener.aclose()


async def test_death_of_a_process_ends_its_connections_and_its_listener(
    autojump_clock: MockClock,
    machine: Machine,
) -> None:
    """What it sent before still arrives, as with a killed process."""
    dying, other = process_of(machine), process_of(machine)
    path = Path("/host.sock")
    listener = SimulatedNetwork(machine.wires, dying).listen(path)
    stream = await SimulatedNetwork(machine.wires, other).connect(path)
    theirs = await listener.accept()
    await theirs.send_all(b"last words")
    machine.kill(dying)
    assert await receive_all(stream) == b"last words"
    with pytest.raises(trio.BrokenResourceError):
        await stream.send_all(b"x")
    with pytest.raises(ConnectionRefusedError):
        await SimulatedNetwork(machine.wires, other).connect(path)
