"""Behaviour of the client protocol at the socket: frames, envelopes, limits, many clients."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from actors.client_replies import ERROR_CHARS_MAX
from actors.client_session import IN_FLIGHT_MAX
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.frames import FRAME_BYTES_MAX, encode_frame
from pi_workflows.protocol.version import CLIENT_PROTOCOL, PACKAGE_VERSION

if TYPE_CHECKING:
    from tests.actors.clients.conftest import Front

Clock = trio.testing.MockClock

COMMANDS: Final = "SELECT count(*) FROM host_commands"


async def test_hello_comes_first_with_exactly_its_fields(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(10):
        one, two = await front.connect(), await front.connect()
    assert one.hello.keys() == {"schema", "type", "connectionId", "packageVersion"}
    assert (one.hello["schema"], one.hello["type"]) == (CLIENT_PROTOCOL, "hello")
    assert one.hello["packageVersion"] == PACKAGE_VERSION
    assert one.hello["connectionId"] != two.hello["connectionId"]


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[]\n",
        b'"text"\n',
        b"{}\n",
        b"\n",
        b"\xff\xfe\n",
        b'{"a":1,"a":2}\n',
        b'{"b":1,"a":2}\n',
        b'{"a": 1}\n',
        b'{"a":1.0}\n',
        b'{"a":NaN}\n',
        b"[" * 1_000 + b"\n",
        b"[" * 1_000_000 + b"\n",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
        b'{"a":Infinity}\n',
        b'{"a":-Infinity}\n',
        b'{"a":1e999}\n',
        b'{"a":9007199254740993}\n',
        b'{"a":' + b"9" * 5_000 + b"}\n",
        b'{"a":"\\ud800"}\n',
        b'{"a":"\xed\xa0\x80"}\n',
        b'{"a":"\\u0061"}\n',
        b'{"a":"\t"}\n',
        b'{"a":1}\r\n',
        b'\xef\xbb\xbf{"a":1}\n',
        b'{"a":1}{"a":1}\n',
        b"\x00\n",
    ],
)
async def test_bytes_that_are_no_canonical_frame_close_that_connection_alone(
    autojump_clock: Clock, front: "Front", line: bytes
) -> None:
    """Case: C14."""
    with trio.fail_after(10):
        good, bad = await front.connect(), await front.connect()
        await bad.stream.send_all(line)
        assert await bad.is_closed()
        assert (await good.ask("server.status"))["outcome"] == "accepted"
        assert front.populations[-1] == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"extra": 1},
        {"schema": "pi-workflows.client.v2"},
        {"type": "event"},
        {"type": "hello"},
        {"requestId": ""},
        {"requestId": "x" * 257},
        {"requestId": 7},
        {"clientId": None},
        {"idempotencyKey": ["key"]},
        {"operation": 3},
        {"runId": ""},
        {"runId": None},
        {"expectedRevision": -1},
        {"expectedRevision": True},
        {"expectedRevision": None},
        {"payload": []},
        {"payload": None},
    ],
)
async def test_envelope_with_an_unknown_or_malformed_field_closes_that_connection_alone(
    autojump_clock: Clock, front: "Front", changed: JsonObject
) -> None:
    """Case: C16."""
    with trio.fail_after(10):
        good, bad = await front.connect(), await front.connect()
        await bad.send({**bad.request("server.status"), **changed})
        assert await bad.is_closed()
        assert (await good.ask("server.status"))["outcome"] == "accepted"


@pytest.mark.parametrize("missing", ["schema", "requestId", "clientId", "operation", "payload"])
async def test_envelope_without_a_field_closes_the_connection(
    autojump_clock: Clock, front: "Front", missing: str
) -> None:
    with trio.fail_after(10):
        peer = await front.connect()
        request = peer.request("server.status")
        del request[missing]
        await peer.send(request)
        assert await peer.is_closed()


async def test_unknown_operation_and_unknown_payload_fields_are_refused_with_a_reason(
    autojump_clock: Clock, front: "Front"
) -> None:
    """The connection goes on, and no value of the payload comes back.

    Case: C16.
    """
    asked: list[tuple[str, JsonObject, str | None]] = [
        ("run.fly", {}, None),
        ("run.list", {"limit": 0}, None),
        ("run.list", {"status": "s3cret-status"}, None),
        ("run.list", {"surprise": "s3cret"}, None),
        ("run.list", {"cursor": "s3cret"}, None),
        ("run.list", {}, "run-1"),
        ("run.status", {}, None),
        ("run.start", {"projectPath": "/", "workflow": "x", "executionMode": "s3cret"}, None),
        ("run.start", {"projectPath": "/", "workflow": "", "input": "s3cret"}, None),
        ("view.run.watch", {"subscriptionId": ""}, "run-1"),
    ]
    with trio.fail_after(10):
        peer = await front.connect()
        for operation, payload, run_id in asked:
            reply = await peer.ask(operation, payload, run_id=run_id)
            assert reply["outcome"] == "rejected", reply
            assert reply["error"]
            assert reply["receipt"].keys() == {"code"}  # type: ignore[union-attr]
            assert "s3cret" not in str(reply)


async def test_frame_of_exactly_1_mib_passes_and_one_byte_more_closes(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Case: C15."""
    with trio.fail_after(10):
        peer = await front.connect()
        request = peer.request("run.fly", {"filling": ""}, request_id="r", key="k")
        room = FRAME_BYTES_MAX - len(encode_frame(request))
        reply = await peer.answer({**request, "payload": {"filling": "x" * room}})
        assert reply["outcome"] == "rejected"
        frame = encode_frame({**request, "payload": {"filling": "x" * room}})
        assert len(frame) == FRAME_BYTES_MAX
        await peer.stream.send_all(frame.replace(b"xxx", b"xxxx", 1))
        assert await peer.is_closed()


async def test_key_order_and_large_numbers_go_round(autojump_clock: Clock, front: "Front") -> None:
    """Keys are ordered by UTF-16 units, numbers are doubles in ECMAScript's form.

    Case: C17.
    """
    peer_input: JsonValue = {
        "\U00010000": 1,
        "\ue000": 2,
        "numbers": [1e20, 1e21, 1e-7, 0.1, -0.5, 9007199254740991],
    }
    front.bench.children(front.bench.resolving, front.bench.working)
    with trio.fail_after(10):
        peer = await front.connect()
        payload: JsonObject = {"projectPath": "/", "workflow": "tally", "input": peer_input}
        request = peer.request("run.start", payload)
        frame = encode_frame(request)
        assert "[100000000000000000000,1e+21,1e-7,0.1,-0.5,9007199254740991]" in frame.decode()
        assert frame.index("\U00010000".encode()) < frame.index("\ue000".encode())
        reply = await peer.answer(request)
        assert reply["outcome"] == "accepted", reply
        run_id = reply["receipt"]["runId"]  # type: ignore[index, call-overload]
        status = await peer.ask("run.status", run_id=str(run_id))
    assert status["receipt"]["state"]["input"] == peer_input  # type: ignore[index, call-overload]


async def test_reads_leave_no_receipt(autojump_clock: Clock, front: "Front") -> None:
    """Case: C23."""
    with trio.fail_after(10):
        run_id = await front.bench.create()
        peer = await front.connect()
        asked: list[tuple[str, JsonObject, str | None]] = [
            ("run.list", {}, None),
            ("run.status", {}, run_id),
            ("run.status", {}, "run-unknown"),
            ("server.status", {}, None),
            ("view.runs.page", {}, None),
            ("view.run.get", {}, run_id),
            ("view.run.watch", {"subscriptionId": "a"}, run_id),
            ("view.run.watch", {"subscriptionId": "b"}, "run-unknown"),
            ("view.runs.watch", {"subscriptionId": "c"}, None),
            ("view.run.unwatch", {"subscriptionId": "a"}, None),
            ("view.content", {"path": "artifacts/none"}, run_id),
            ("run.fly", {}, None),
        ]
        for operation, payload, run in asked:
            await peer.ask(operation, payload, run_id=run)
    assert front.bench.rows(COMMANDS) == [(0,)]


async def test_error_texts_are_bounded_and_hold_no_secret(
    autojump_clock: Clock, front: "Front", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug answers with a fixed text; its own goes to the log. A refusal is cut.

    Case: C30.
    """

    def fail(*_: object) -> None:
        raise LookupError("token 5ecret " * 10_000)

    with trio.fail_after(10):
        peer = await front.connect()
        monkeypatch.setattr(front.views, "run_list", fail)
        bug = await peer.ask("run.list")
        long = await peer.ask("o" * 256, {"x" * 500_000: 1})
        unknown = await peer.ask("run.list", {"y" * 500_000: 1})
    assert bug["receipt"] == {"code": "INTERNAL"}
    for reply in (bug, long, unknown):
        error = reply["error"]
        assert isinstance(error, str)
        assert 0 < len(error) <= ERROR_CHARS_MAX
        assert "5ecret" not in str(reply)
        assert "Traceback" not in error
    assert "operation_failed" in (front.bench.paths.logs / "server.log").read_text()


async def test_client_that_asks_and_never_reads_is_not_heard_any_further(
    autojump_clock: Clock, front: "Front", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answers are kept, so their number is bounded; others do not notice."""
    served = 0

    def large(_: object) -> JsonObject:
        nonlocal served
        served += 1
        return {"filling": "x" * 500_000}

    monkeypatch.setattr(front.views, "run_list", large)
    with trio.fail_after(30):
        deaf, good = await front.connect(), await front.connect()
        async with trio.open_nursery() as nursery:

            async def flood() -> None:
                for _ in range(IN_FLIGHT_MAX * 4):
                    await deaf.send(deaf.request("run.list"))

            nursery.start_soon(flood)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert served <= IN_FLIGHT_MAX + 2
            assert (await good.ask("server.status"))["outcome"] == "accepted"
            for _ in range(IN_FLIGHT_MAX * 4):
                message = await deaf.receive()
                assert message is not None
                assert message["outcome"] == "accepted"
    assert served == IN_FLIGHT_MAX * 4


async def test_answer_that_does_not_fit_a_frame_is_refused_and_the_connection_goes_on(
    autojump_clock: Clock, front: "Front", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front.views, "run_list", lambda _: {"filling": "x" * FRAME_BYTES_MAX})
    with trio.fail_after(10):
        peer = await front.connect()
        reply = await peer.ask("run.list")
        assert (reply["outcome"], reply["receipt"]) == ("rejected", {"code": "RESULT_TOO_LARGE"})
        assert (await peer.ask("server.status"))["outcome"] == "accepted"


async def test_client_that_leaves_in_the_middle_ends_what_was_done_for_it(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Its resolver is ended and forgotten; nothing was stored; half a frame harms nobody."""
    bench = front.bench
    bench.children(bench.hanging)
    with trio.fail_after(10):
        peer, half = await front.connect(), await front.connect()
        await peer.send(peer.request("run.start", {"projectPath": "/", "workflow": "tally"}))
        await half.stream.send_all(b'{"half":')
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert bench.spawner.living == 1
        await trio.aclose_forcefully(peer.stream)
        await trio.aclose_forcefully(half.stream)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert bench.spawner.living == 0
        assert front.populations[-1] == 0
    assert bench.services.processes.children() == ()
    assert bench.rows(COMMANDS) == [(0,)]


async def test_client_that_asks_for_much_and_leaves_is_let_go(
    autojump_clock: Clock, front: "Front", monkeypatch: pytest.MonkeyPatch
) -> None:
    """More requests than are worked on at a time lie in the socket when it is closed."""
    monkeypatch.setattr(front.views, "run_list", lambda _: {"filling": "x" * 100_000})
    with trio.fail_after(10):
        peer = await front.connect()
        asked = [encode_frame(peer.request("run.list")) for _ in range(200)]
        await peer.stream.send_all(b"".join(asked))
        await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.aclose_forcefully(peer.stream)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert front.populations[-1] == 0
        other = await front.connect()
        assert (await other.ask("server.status"))["outcome"] == "accepted"
