"""Commands about one run, as methods of both clients: the operation, the run, the key."""

import inspect
from typing import Any, Final

import pytest
import trio

from pi_workflows.client.asynchronous import LiveClient, unix_connector
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.client.channel import open_channel
from pi_workflows.client.errors import Refused
from pi_workflows.client.follow_up_calls import BlockingFollowUpCalls, LiveFollowUpCalls
from pi_workflows.client.run_calls import BlockingRunCalls, LiveRunCalls
from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.client.settings_calls import BlockingSettingsCalls, LiveSettingsCalls
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.paths import StatePaths

CALLS: Final[dict[str, tuple[tuple[Any, ...], JsonObject]]] = {
    "pause": (("r1",), {"operation": "run.pause", "payload": {}}),
    "resume": (("r1",), {"operation": "run.resume", "payload": {}}),
    "restart": (
        ("r1", 7),
        {"operation": "run.restart", "payload": {}, "expectedRevision": 7},
    ),
    "cancel": (("r1", "why"), {"operation": "run.cancel", "payload": {"reason": "why"}}),
}
"""Arguments of each method, and what of the request they decide."""


def asked(request: JsonObject) -> JsonObject:
    return {
        name: value
        for name, value in request.items()
        if name not in {"schema", "type", "requestId", "clientId"}
    }


@pytest.mark.parametrize("name", CALLS)
def test_both_clients_send_the_same_request(paths: StatePaths, name: str) -> None:
    arguments, expected = CALLS[name]
    receipt: JsonObject = {"runId": "r1"}

    async def ask_live() -> JsonObject:
        async with LiveClient(unix_connector(paths.socket)) as client:
            reply = await getattr(client, name)(*arguments, idempotency_key="k")
            return dict(reply.receipt)

    with ScriptedServer(paths.socket, lambda _: Answer(receipt=receipt)) as server:
        with BlockingClient(lambda: open_channel(paths.socket)) as client:
            assert getattr(client, name)(*arguments, idempotency_key="k").receipt == receipt
        assert trio.run(ask_live) == receipt
    expected = {**expected, "runId": "r1", "idempotencyKey": "k"}
    assert [asked(request) for request in server.requests] == [expected, expected]


def test_cancel_without_a_reason_sends_none(paths: StatePaths) -> None:
    with (
        ScriptedServer(paths.socket, lambda _: Answer()) as server,
        BlockingClient(lambda: open_channel(paths.socket)) as client,
    ):
        client.cancel("r1")
    assert server.requests[0]["payload"] == {}


def test_refusal_is_raised_with_its_code(paths: StatePaths) -> None:
    refused = Answer(outcome="rejected", error="it has ended", receipt={"code": "RUN_ENDED"})
    with (
        ScriptedServer(paths.socket, lambda _: refused),
        BlockingClient(lambda: open_channel(paths.socket)) as client,
        pytest.raises(Refused, match="it has ended") as caught,
    ):
        client.pause("r1")
    assert caught.value.code == "RUN_ENDED"


def test_both_clients_have_the_same_methods() -> None:
    def signatures(calls: type) -> dict[str, str]:
        return {
            name: str(inspect.signature(method)).replace("LiveCaller", "BlockingCaller")
            for name, method in vars(calls).items()
            if not name.startswith("_")
        }

    assert signatures(LiveRunCalls) == signatures(BlockingRunCalls)
    assert signatures(LiveRunCalls).keys() == CALLS.keys()
    assert signatures(LiveSettingsCalls) == signatures(BlockingSettingsCalls)
    assert signatures(LiveFollowUpCalls) == signatures(BlockingFollowUpCalls)
