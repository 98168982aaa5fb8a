"""The live client survives lost connections within its budget and never repeats an event."""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from pi_workflows.client.asynchronous import (
    RECONNECT_ATTEMPTS,
    LiveClient,
    reconnect_delay_ms,
    unix_connector,
)
from pi_workflows.client.errors import Refused, ServerStopped, Unavailable, VersionsDiffer
from pi_workflows.client.messages import Event
from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.client.subscription import EVENTS_BUFFERED, Subscription
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import FrameDecoder, encode_frame, parse_canonical
from pi_workflows.protocol.paths import StatePaths
from pi_workflows.protocol.version import CLIENT_PROTOCOL, PACKAGE_VERSION


def least(low: float, high: float) -> float:
    del high
    return low


def most(low: float, high: float) -> float:
    del low
    return high


class Peer:
    """The server's end of one connection, driven by the test."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._decoder = FrameDecoder()
        self._lines: list[bytes] = []

    async def say(self, kind: str, **members: object) -> None:
        message = {"schema": CLIENT_PROTOCOL, "type": kind, **members}
        await self.stream.send_all(encode_frame(message))  # type: ignore[arg-type]

    async def hello(self, version: str = PACKAGE_VERSION) -> None:
        await self.say("hello", connectionId="c", packageVersion=version)

    async def request(self) -> JsonObject:
        while not self._lines:
            self._lines += self._decoder.feed(bytes(await self.stream.receive_some()))
        return parse_canonical(self._lines.pop(0))

    async def answer(self, outcome: str = "accepted", **members: object) -> JsonObject:
        request = await self.request()
        await self.say("response", requestId=request["requestId"], outcome=outcome, **members)
        return request

    async def push(self, subscription_id: object, revision: int) -> None:
        await self.say(
            "event",
            subscriptionId=subscription_id,
            event="run_snapshot",
            payload={"revision": revision},
            revision=revision,
        )

    async def close(self) -> None:
        await self.stream.aclose()


class Network:
    """Hands the test one peer per connection; `refusing` makes connecting fail."""

    def __init__(self) -> None:
        self.refusing = False
        self.tried_at: list[float] = []
        self._send, self._peers = trio.open_memory_channel[Peer](100)

    async def connect(self) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.tried_at.append(trio.current_time())
        if self.refusing:
            raise ConnectionRefusedError("nobody")
        client_end, server_end = trio.testing.memory_stream_pair()
        self._send.send_nowait(Peer(server_end))
        return client_end

    async def peer(self) -> Peer:
        return await self._peers.receive()

    async def greeted(self) -> Peer:
        peer = await self.peer()
        await peer.hello()
        return peer


def payload_of(request: JsonObject) -> JsonObject:
    payload = request["payload"]
    assert isinstance(payload, dict)
    return payload


async def watched(client: LiveClient, peer: Peer) -> Subscription:
    """Install one subscription through this peer."""
    result: list[Subscription] = []

    async def watch() -> None:
        result.append(await client.watch("view.run.watch", run_id="r"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await peer.answer()
    return result[0]


@pytest.mark.parametrize("draw", [least, most])
def test_delays_lie_in_the_upper_half_of_a_doubling_bound(
    draw: Callable[[float, float], float],
) -> None:
    """Case: C27."""
    for attempt in range(RECONNECT_ATTEMPTS):
        bound = min(10_000, 250 * 2**attempt)
        assert bound / 2 <= reconnect_delay_ms(attempt, draw) <= bound


async def test_twelve_failed_attempts_end_every_subscription_with_one_exhausted_event(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Case: C27."""
    del autojump_clock
    network = Network()
    with trio.fail_after(500):
        async with LiveClient(network.connect, least) as client:
            peer = await network.greeted()
            watch = await watched(client, peer)
            network.refusing = True
            await peer.close()
            events = [event async for event in watch.events]
            assert isinstance(client.failure, Unavailable)
            with pytest.raises(Unavailable):
                await client.call("run.list")
    reasons = [event.payload["reason"] for event in events]
    assert reasons.count("reconnect_exhausted") == 1
    assert reasons[-1] == "reconnect_exhausted"
    assert len(network.tried_at) == 1 + RECONNECT_ATTEMPTS
    delays = [b - a for a, b in zip(network.tried_at, network.tried_at[1:], strict=False)]
    assert delays == pytest.approx([min(10, 0.25 * 2**n) / 2 for n in range(12)])


async def test_a_refused_restoration_keeps_the_budget_spent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Case: C28."""
    del autojump_clock
    network = Network()
    with trio.fail_after(500):
        async with LiveClient(network.connect, least) as client:
            peer = await network.greeted()
            await watched(client, peer)
            await peer.close()
            for _ in range(RECONNECT_ATTEMPTS):
                peer = await network.greeted()
                await peer.answer("rejected", error="not now")
            await trio.testing.wait_all_tasks_blocked()
            assert client.failure is not None
    assert len(network.tried_at) == 1 + RECONNECT_ATTEMPTS


async def test_the_budget_is_whole_again_after_a_restored_subscription(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    network = Network()
    with trio.fail_after(500):
        async with LiveClient(network.connect, least) as client:
            peer = await network.greeted()
            await watched(client, peer)
            for _ in range(3 * RECONNECT_ATTEMPTS):
                await peer.close()
                peer = await network.greeted()
                await peer.answer()
            assert client.failure is None


async def test_a_subscription_is_restored_with_its_last_accepted_revision(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    network = Network()
    with trio.fail_after(60):
        async with LiveClient(network.connect, least) as client:
            peer = await network.greeted()
            watch = await watched(client, peer)
            await peer.push(watch.subscription_id, 5)
            await peer.push(watch.subscription_id, 5)
            await peer.push(watch.subscription_id, 4)
            await peer.close()
            peer = await network.greeted()
            restored = await peer.answer()
            await peer.push(watch.subscription_id, 3)
            await peer.push(watch.subscription_id, 4)
            seen = [await watch.events.receive() for _ in range(4)]
    assert payload_of(restored) == {"subscriptionId": watch.subscription_id, "revision": 5}
    assert restored["runId"] == "r"
    assert [event.revision for event in seen] == [5, None, 3, 4]
    assert seen[1].payload == {"reason": "connection_lost"}


async def test_a_lost_reply_is_asked_for_again_with_the_same_key(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    network = Network()
    with trio.fail_after(60):
        async with LiveClient(network.connect, least) as client, trio.open_nursery() as nursery:
            payload: JsonObject = {"reason": "x"}
            nursery.start_soon(client.call, "run.cancel", payload)
            peer = await network.greeted()
            first = await peer.request()
            await peer.close()
            peer = await network.greeted()
            second = await peer.answer("adopted")
    assert first.pop("requestId") != second.pop("requestId")
    assert first == second


async def test_watching_a_missing_run_raises_and_is_not_restored(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    network = Network()

    async def refuse() -> None:
        peer = await network.greeted()
        await peer.answer("notFound", error="no such run")
        await peer.close()

    with trio.fail_after(60):
        async with LiveClient(network.connect, least) as client, trio.open_nursery() as nursery:
            nursery.start_soon(refuse)
            with pytest.raises(Refused, match="no such run"):
                await client.watch("view.run.watch", run_id="r")
            peer = await network.greeted()
            nursery.start_soon(client.call, "run.list")
            assert (await peer.answer())["operation"] == "run.list"


async def test_another_version_is_not_retried(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    network = Network()
    with trio.fail_after(60):
        async with LiveClient(network.connect, least) as client:
            peer = await network.peer()
            await peer.hello("0.0.9")
            with pytest.raises(VersionsDiffer):
                await client.call("run.list")
    assert len(network.tried_at) == 1


async def test_a_server_that_was_stopped_in_order_is_not_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    tried = 0

    async def stopped() -> trio.abc.Stream:
        nonlocal tried
        tried += 1
        await trio.lowlevel.checkpoint()
        raise ServerStopped("it was stopped")

    with trio.fail_after(60):
        async with LiveClient(stopped, least) as client:
            with pytest.raises(ServerStopped):
                await client.call("run.list")
    assert tried == 1


async def test_a_hello_that_does_not_come_costs_two_seconds_and_an_attempt(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    network = Network()
    with trio.fail_after(60):
        async with LiveClient(network.connect, least):
            await network.peer()
            await network.peer()
    assert network.tried_at[1] - network.tried_at[0] == pytest.approx(2.125)


async def test_an_error_in_the_body_arrives_as_itself(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    network = Network()
    with trio.fail_after(60), pytest.raises(KeyError):
        async with LiveClient(network.connect):
            raise KeyError("body")


async def test_an_unwatched_subscription_ends_and_is_not_restored(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    network = Network()
    with trio.fail_after(60):
        async with LiveClient(network.connect, least) as client:
            peer = await network.greeted()
            watch = await watched(client, peer)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.unwatch, watch)
                request = await peer.answer()
            assert request["operation"] == "view.run.unwatch"
            assert [event async for event in watch.events] == []
            await peer.close()
            peer = await network.greeted()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call, "run.list")
                assert (await peer.answer())["operation"] == "run.list"


async def test_a_slow_reader_loses_the_oldest_events_and_keeps_the_newest() -> None:
    watch = Subscription("view.run.watch", "r", {}, "s")
    for revision in range(1, EVENTS_BUFFERED + 4):
        watch.deliver(Event(watch.subscription_id, "run_snapshot", {}, revision))
    watch.end()
    kept = [event.revision async for event in watch.events]
    assert kept == list(range(4, EVENTS_BUFFERED + 4))


async def test_events_come_through_a_real_socket(paths: StatePaths) -> None:
    view: JsonObject = {"revision": 1}
    answer = Answer(events=[("run_snapshot", view, 1)])
    with trio.fail_after(20), ScriptedServer(paths.socket, lambda _: answer):
        async with LiveClient(unix_connector(paths.socket)) as client:
            watch = await client.watch("view.run.watch", run_id="r")
            event = await watch.events.receive()
    assert event.payload == view
