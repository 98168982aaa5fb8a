"""Behaviour towards too many clients, too slow ones, and those that make the server work."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from actors import gateway, peers
from actors.client_session import FRAME_S, IN_FLIGHT_MAX, SUBSCRIPTIONS_MAX
from actors.gateway import REFUSING_MAX
from actors.peers import CLIENTS_MAX, CLIENTS_PER_PROCESS_MAX, Peers
from actors.run_control import RESOLVERS_MAX
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import encode_frame

if TYPE_CHECKING:
    from tests.actors.clients.conftest import Front

Clock = trio.testing.MockClock
MINE: Final = 4_242


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let each next connection come from the next of these processes, then from one of ours."""
    order: list[int] = []
    monkeypatch.setattr(gateway, "peer_process", lambda _: order.pop(0) if order else MINE)
    return order


async def closed_without_a_word(front: "Front") -> bool:
    stream = await trio.open_unix_socket(str(front.bench.paths.socket))
    async with stream:
        try:
            return await stream.receive_some(4_096) == b""
        except trio.BrokenResourceError:
            return True


async def test_process_with_too_many_connections_is_told_so_and_others_are_served(
    autojump_clock: Clock, front: "Front", processes: list[int]
) -> None:
    with trio.fail_after(30):
        kept = [await front.connect() for _ in range(CLIENTS_PER_PROCESS_MAX)]
        one_more = await front.connect()
        refused = await one_more.ask("server.status")
        assert refused["outcome"] == "unavailable"
        assert refused["receipt"] == {"code": "LIMIT_REACHED"}
        assert "this process has 64 connections" in str(refused["error"])
        assert await one_more.is_closed()
        assert front.populations[-1] == CLIENTS_PER_PROCESS_MAX
        processes.append(7)
        stranger = await front.connect()
        assert (await stranger.ask("server.status"))["outcome"] == "accepted"
        await trio.aclose_forcefully(kept[0].stream)
        await trio.testing.wait_all_tasks_blocked()
        again = await front.connect()
        assert (await again.ask("server.status"))["outcome"] == "accepted"


async def test_thousand_connections_of_one_process_leave_room_for_another(
    autojump_clock: Clock, front: "Front", processes: list[int]
) -> None:
    """Those beyond its share are told so, a few at a time, or let go at once."""
    greeted: list[bool] = []
    asked, leaving = trio.Event(), trio.Event()
    coming = 1_000

    async def come() -> None:
        async with await trio.open_unix_socket(str(front.bench.paths.socket)) as stream:
            try:
                greeted.append(bool(await stream.receive_some(4_096)))
            except trio.BrokenResourceError:
                greeted.append(False)
            if len(greeted) == coming:
                asked.set()
            await leaving.wait()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(coming):
                nursery.start_soon(come)
            await asked.wait()
            assert front.populations[-1] == CLIENTS_PER_PROCESS_MAX
            assert greeted.count(True) >= CLIENTS_PER_PROCESS_MAX + REFUSING_MAX
            processes.append(7)
            stranger = await front.connect()
            assert (await stranger.ask("server.status"))["outcome"] == "accepted"
            leaving.set()
        await trio.testing.wait_all_tasks_blocked()
        assert front.populations[-1] == 1


async def test_refused_client_that_never_asks_or_asks_nonsense_is_let_go(
    autojump_clock: Clock, front: "Front", processes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds its place among those that are refused for two seconds at most."""
    monkeypatch.setattr(peers, "CLIENTS_PER_PROCESS_MAX", 1)
    with trio.fail_after(30):
        kept = await front.connect()
        silent = [await front.connect() for _ in range(REFUSING_MAX)]
        assert await closed_without_a_word(front)
        await trio.sleep(2.1)
        assert all([await peer.is_closed() for peer in silent])
        rude = await front.connect()
        await rude.stream.send_all(b"nonsense\n")
        assert await rude.is_closed()
        assert (await kept.ask("server.status"))["outcome"] == "accepted"


def test_server_serves_only_so_many_clients_in_all() -> None:
    counted = Peers()
    admitted = [counted.admit(number) for number in range(CLIENTS_MAX)]
    assert not any(isinstance(peer, str) for peer in admitted)
    refused = counted.admit(None)
    assert isinstance(refused, str)
    assert "256 clients" in refused
    left = admitted[0]
    assert not isinstance(left, str)
    counted.dismiss(left)
    assert not isinstance(counted.admit(None), str)


async def test_subscription_beyond_the_limit_is_refused_with_its_reason(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(30):
        peer = await front.connect()
        for number in range(SUBSCRIPTIONS_MAX):
            reply = await peer.ask("view.runs.watch", {"subscriptionId": f"s{number}"})
            assert reply["outcome"] == "accepted"
        refused = await peer.ask("view.runs.watch", {"subscriptionId": "more"})
        assert refused["receipt"] == {"code": "LIMIT_REACHED"}
        again = await peer.ask("view.runs.watch", {"subscriptionId": "s0"})
        assert again["outcome"] == "accepted"


async def test_frame_that_is_begun_and_never_finished_closes_its_connection_in_the_end(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Byte by byte is no way around it; a client that is silent between frames stays."""
    with trio.fail_after(FRAME_S * 10):
        slow, silent = await front.connect(), await front.connect()
        half = encode_frame(slow.request("server.status"))
        began_at = trio.current_time()

        async def trickle() -> None:
            for number in range(len(half) - 1):
                await slow.stream.send_all(half[number : number + 1])
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trickle)
            assert await slow.is_closed()
            assert trio.current_time() - began_at == pytest.approx(FRAME_S, abs=1.1)
            nursery.cancel_scope.cancel()
        await trio.sleep(FRAME_S * 4)
        assert (await silent.ask("server.status"))["outcome"] == "accepted"


async def test_rest_of_a_frame_is_not_missed_while_the_server_itself_does_not_read(
    autojump_clock: Clock, front: "Front", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection with all its requests in flight is not read, for however long they take."""
    front.bench.children(front.bench.hanging)
    with trio.fail_after(600):
        peer = await front.connect()
        frames = [encode_frame(peer.request("state.verify")) for _ in range(IN_FLIGHT_MAX)]
        last = encode_frame(peer.request("server.status"))
        await peer.stream.send_all(b"".join(frames) + last + last[:20])
        await trio.sleep(FRAME_S * 2)
        await peer.stream.send_all(last[20:])
        outcomes: list[object] = []
        while len(outcomes) < 2:
            message = await peer.receive()
            assert message is not None
            if message["outcome"] == "accepted":
                outcomes.append(message["outcome"])


async def test_resolvers_are_bounded_however_many_starts_come_at_once(
    autojump_clock: Clock, front: "Front"
) -> None:
    front.bench.children(front.bench.hanging)
    with trio.fail_after(60):
        asking = [await front.connect() for _ in range(4)]
        for peer in asking:
            for _ in range(RESOLVERS_MAX):
                await peer.send(
                    peer.request("run.start", {"projectPath": "/", "workflow": "tally"})
                )
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert front.bench.spawner.living == RESOLVERS_MAX
        assert (await asking[0].answer(asking[0].request("server.status")))["outcome"]


async def test_answers_that_a_process_does_not_read_are_bounded_over_all_its_connections(
    autojump_clock: Clock,
    front: "Front",
    processes: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its further requests wait in their sockets, and nobody else waits for them."""
    served = 0

    def large(_: object) -> JsonObject:
        nonlocal served
        served += 1
        return {"filling": "x" * 300_000}

    monkeypatch.setattr(front.views, "run_list", large)
    monkeypatch.setattr(peers, "IN_FLIGHT_PER_PROCESS_MAX", 40)
    with trio.fail_after(60):
        deaf = [await front.connect() for _ in range(4)]
        for peer in deaf:
            asked = [encode_frame(peer.request("run.list")) for _ in range(IN_FLIGHT_MAX)]
            await peer.stream.send_all(b"".join(asked))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert served <= 40 + 2 * len(deaf)
        processes.append(7)
        stranger = await front.connect()
        assert (await stranger.ask("run.list"))["outcome"] == "accepted"
        for peer in deaf:
            await trio.aclose_forcefully(peer.stream)
        await trio.testing.wait_all_tasks_blocked(0.01)
        again = await front.connect()
        for _ in range(60):
            assert (await again.ask("run.list"))["outcome"] == "accepted"
