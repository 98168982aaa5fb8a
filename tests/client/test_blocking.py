"""The blocking client repeats lost commands, verifies content and says what went wrong."""

import base64
import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from pi_workflows.client.blocking import SENDINGS_MAX, BlockingClient
from pi_workflows.client.channel import open_channel
from pi_workflows.client.errors import (
    ConnectionLost,
    ProtocolViolation,
    Refused,
    Unavailable,
    VersionsDiffer,
)
from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.protocol.canonical import JsonObject, canonical_bytes
from pi_workflows.protocol.errors import ErrorCode
from pi_workflows.protocol.paths import StatePaths


def client_of(paths: StatePaths) -> BlockingClient:
    return BlockingClient(lambda: open_channel(paths.socket), sleep=lambda _seconds: None)


def in_turn(*answers: Answer) -> Callable[[JsonObject], Answer]:
    left = list(answers)
    return lambda _request: left.pop(0)


def test_several_calls_share_one_connection_and_one_client_id(paths: StatePaths) -> None:
    script = in_turn(Answer(receipt={"n": 1}), Answer(receipt={"n": 2}))
    with ScriptedServer(paths.socket, script) as server, client_of(paths) as client:
        assert client.call("run.list").receipt == {"n": 1}
        assert client.call("run.list").receipt == {"n": 2}
    first, second = server.requests
    assert first["clientId"] == second["clientId"]
    assert first["idempotencyKey"] != second["idempotencyKey"]


def test_a_lost_reply_is_asked_for_again_with_the_same_key_and_a_new_request_id(
    paths: StatePaths,
) -> None:
    script = in_turn(Answer(lost=True), Answer(outcome="adopted", receipt={"runId": "r"}))
    with ScriptedServer(paths.socket, script) as server, client_of(paths) as client:
        reply = client.call("run.start", {"workflow": "w"}, idempotency_key="k")
    assert reply.adopted
    first, second = server.requests
    assert first.pop("requestId") != second.pop("requestId")
    assert first == second


def test_a_command_lost_every_time_is_reported_as_lost(paths: StatePaths) -> None:
    with ScriptedServer(paths.socket, lambda _: Answer(lost=True)) as server:
        with client_of(paths) as client, pytest.raises(ConnectionLost):
            client.call("run.start")
        assert len(server.requests) == SENDINGS_MAX


def test_a_stopping_server_is_asked_again(paths: StatePaths) -> None:
    script = in_turn(Answer(outcome="unavailable", error="stopping"), Answer())
    with ScriptedServer(paths.socket, script), client_of(paths) as client:
        assert not client.call("run.start").adopted


def test_a_refusal_is_raised_with_its_text_and_not_repeated(paths: StatePaths) -> None:
    answer = Answer(outcome="notFound", error="no such run", receipt={"code": "RUN_UNKNOWN"})
    with ScriptedServer(paths.socket, lambda _: answer) as server, client_of(paths) as client:
        with pytest.raises(Refused, match="no such run") as caught:
            client.call("run.status", run_id="x")
        assert caught.value.code == ErrorCode.RUN_UNKNOWN
        assert len(server.requests) == 1


def test_a_server_that_does_not_answer_in_time_is_unavailable(paths: StatePaths) -> None:
    released = threading.Event()

    def never_in_time(_request: JsonObject) -> Answer:
        released.wait(120)
        return Answer()

    with ScriptedServer(paths.socket, never_in_time), client_of(paths) as client:
        with pytest.raises(Unavailable, match="did not answer run"):
            client.call("run.list", reply_ms=20)
        released.set()


def test_another_version_is_refused_before_anything_is_sent(paths: StatePaths) -> None:
    with ScriptedServer(paths.socket, lambda _: Answer(), package_version="0.0.9") as server:
        with client_of(paths) as client, pytest.raises(VersionsDiffer):
            client.call("run.list")
        assert server.requests == []


def test_no_server_is_unavailable(paths: StatePaths) -> None:
    with client_of(paths) as client, pytest.raises(Unavailable, match="no workflow server"):
        client.call("run.list")


class Content:
    """A server side that serves one large run state in pages."""

    def __init__(self, state: JsonObject, page_bytes: int) -> None:
        self.data = canonical_bytes(state)
        self.sha256 = hashlib.sha256(self.data).hexdigest()
        self._page_bytes = page_bytes

    def answer(self, request: JsonObject) -> Answer:
        described: JsonObject = {
            "bytes": len(self.data),
            "sha256": self.sha256,
            "mediaType": "application/json",
        }
        if request["operation"] == "run.status":
            return Answer(receipt={"content": {"path": "p", **described}})
        payload = request["payload"]
        assert isinstance(payload, dict)
        start = payload["offset"]
        assert isinstance(start, int)
        end = start + self._page_bytes
        complete = end >= len(self.data)
        return Answer(
            receipt={
                **described,
                "data": base64.b64encode(self.data[start:end]).decode(),
                "nextOffset": None if complete else end,
                "complete": complete,
            }
        )


def test_a_large_run_state_is_read_in_pages_and_verified(paths: StatePaths) -> None:
    state: JsonObject = {"runId": "r", "finalOutput": "x" * 1000}
    content = Content(state, page_bytes=300)
    with ScriptedServer(paths.socket, content.answer) as server, client_of(paths) as client:
        assert client.run_state("r") == state
        assert len(server.requests) == 5


def test_content_with_another_digest_is_refused(paths: StatePaths) -> None:
    content = Content({"runId": "r"}, page_bytes=300)
    content.sha256 = "0" * 64
    with (
        ScriptedServer(paths.socket, content.answer),
        client_of(paths) as client,
        pytest.raises(ProtocolViolation, match="SHA-256"),
    ):
        client.run_state("r")


def test_the_blocking_client_needs_only_the_standard_library() -> None:
    script = (
        "import sys, pi_workflows.client.blocking, pi_workflows.client.discovery\n"
        "heavy = {'trio', 'pydantic', 'rich', 'click', 'psutil'} & sys.modules.keys()\n"
        "sys.exit(f'imports {heavy}' if heavy else 0)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
