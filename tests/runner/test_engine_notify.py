"""Notifications in the engine loop: one message per visit, told by its step."""

from typing import TYPE_CHECKING, Any

import pytest

from pi_workflows.authoring import Ctx, Definition, Notified, Workflow
from pi_workflows.protocol.notices import TEXT_BYTES_MAX

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.runner.conftest import Player, ScriptedServer


def telling(text: object = " Done \n") -> Definition:
    """A workflow that says a text, twice unless it fails, and then who heard it."""
    wf = Workflow("telling")

    @wf.notify(kind="final")
    def tell() -> str:
        return text  # type: ignore[return-value]

    @wf.compute()
    def heard(ctx: Ctx[Any]) -> str:
        sent: Notified | None = ctx.get(tell)
        if sent is None:
            result = ctx.result(tell)
            return "nobody" if result is None else str(result.error)
        return f"{sent.notification_id} to {sent.target_session_id}"

    @wf.compute()
    def again(ctx: Ctx[Any]) -> dict[str, bool]:
        return {"more": ctx.visit < 2}

    wf.on_outcome(tell, ok=again, failed=heard)
    wf.switch(again, "$.more", {True: tell, False: heard})
    return wf.build(start=tell)


def test_each_visit_has_one_message_and_its_step_names_it(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    player(telling(), server).play()
    assert [one["output"] for one in server.steps if one["nodeId"] == "tell"] == [
        {"notificationId": f"message-{number}", "targetSessionId": "session-1"}
        for number in (1, 2)
    ]
    assert server.steps[-1]["output"] == "message-2 to session-1"
    said = [transition for _, transition in server.notices.values()]
    assert [(one["kind"], one["text"]) for one in said] == [("final", "Done")] * 2


def test_message_is_written_after_its_code_and_before_its_step(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    player(telling(), server).play()
    assert server.commits[:3] == [["startAttempt"], ["notify"], ["finishAttempt", "startAttempt"]]


def test_crash_at_any_boundary_sends_no_message_twice(
    new_server: "type[ScriptedServer]", player: "type[Player]"
) -> None:
    """Whatever was recorded when the runner died, the next one goes on with it.

    Case: B37.
    """
    steps = 0
    while True:
        for lose_last_reply in (False, True):
            server = new_server()
            first = player(telling(), server)
            ended = first.play(crash_before=steps, lose_last_reply=lose_last_reply)
            if ended is not None:
                return
            if server.finished is None:
                player(telling(), server).play()
            assert list(server.notices) == ["tell#1", "tell#2"]
            outputs: list[JsonObject] = [
                one["output"]  # type: ignore[misc]
                for one in server.steps
                if one["nodeId"] == "tell"
            ]
            assert [one["notificationId"] for one in outputs] == ["message-1", "message-2"]
        steps += 1


def test_run_that_belongs_to_no_conversation_fails_at_the_node_and_goes_on_by_its_routing(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: B38."""
    server.session_id = None
    player(telling(), server).play()
    assert server.path == [("tell", "failed"), ("heard", "ok")]
    assert str(server.steps[-1]["output"]) == (
        'NOTIFY_NEEDS_SESSION: node "tell": the run belongs to no conversation; '
        "start it from a session."
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (" \n", 'ValueError: node "tell": its text is trimmed and not blank'),
        (None, 'TypeError: node "tell" returns its text, not NoneType'),
        ("\ud800", "NotJsonError [NOT_JSON]"),
        ("x" * (TEXT_BYTES_MAX + 1), "its text has 65537 bytes, and at most 65536"),
        ("ä" * (TEXT_BYTES_MAX // 2 + 1), "its text has 65538 bytes"),
    ],
)
def test_what_is_no_text_fails_the_node_and_sends_nothing(
    server: "ScriptedServer", player: "type[Player]", text: object, says: str
) -> None:
    player(telling(text), server).play()
    assert server.path[0] == ("tell", "failed")
    assert says in str(server.steps[0]["error"])
    assert server.notices == {}


def test_longest_text_is_sent(server: "ScriptedServer", player: "type[Player]") -> None:
    player(telling("x" * TEXT_BYTES_MAX), server).play()
    assert server.path[0] == ("tell", "ok")
