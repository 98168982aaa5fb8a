"""Settings as methods of both clients: what they send, and pages put together."""

from typing import Any

import pytest
import trio

from pi_workflows.client.asynchronous import LiveClient, unix_connector
from pi_workflows.client.blocking import BlockingClient
from pi_workflows.client.channel import open_channel
from pi_workflows.client.scripted import Answer, ScriptedServer
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.paths import StatePaths

PATCH: list[JsonObject] = [{"op": "remove", "path": "/note"}]


def paged(request: JsonObject) -> Answer:
    """Two pages of everything, the second asked for by what the first names."""
    payload = request["payload"]
    assert isinstance(payload, dict)
    if request["operation"] == "run.changeSettings":
        return Answer(receipt={"changeNumber": 1})
    if request["operation"] == "settings.show":
        first = "cursor" not in payload
        return Answer(receipt={"items": [{"n": first}], "nextCursor": "c" if first else None})
    first = "after" not in payload
    return Answer(receipt={"items": [{"n": first}], "next": 7 if first else None})


@pytest.mark.parametrize(
    ("name", "arguments", "given", "payloads"),
    [
        (
            "change_settings",
            ("r1", PATCH),
            {"expected_change_number": 0, "scope_id": "s"},
            [{"scopeId": "s", "patch": PATCH, "source": "client", "expectedChangeNumber": 0}],
        ),
        ("settings", ("r1",), {}, [{}, {"cursor": "c"}]),
        (
            "settings_history",
            ("r1", "s"),
            {},
            [{"scopeId": "s"}, {"scopeId": "s", "after": 7}],
        ),
    ],
)
def test_both_clients_ask_the_same(
    name: str,
    arguments: tuple[Any, ...],
    given: dict[str, Any],
    payloads: list[JsonObject],
    paths: StatePaths,
) -> None:
    async def ask_live() -> object:
        async with LiveClient(unix_connector(paths.socket)) as client:
            return await getattr(client, name)(*arguments, **given)

    with ScriptedServer(paths.socket, paged) as server:
        with BlockingClient(lambda: open_channel(paths.socket)) as client:
            told = getattr(client, name)(*arguments, **given)
        live = trio.run(ask_live)
    assert live == told
    assert [request["payload"] for request in server.requests] == [*payloads, *payloads]
    if name != "change_settings":
        assert told == [{"n": True}, {"n": False}]
