"""Bodies too large for a message in the engine loop: written ahead, read back, verified."""

from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from pi_workflows.authoring import Ctx, Definition, Workflow, idempotent
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.content import (
    INLINE_BYTES_MAX,
    PART_BYTES_MAX,
    ContentReference,
    encode_part,
)
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome
from pi_workflows.runner import attempt
from pi_workflows.runner.messages import CallResult, Ending, ExitReason, Reply, Send

if TYPE_CHECKING:
    from tests.runner.conftest import Player, ScriptedServer

LARGE: Final[JsonObject] = {"text": "ä" * 600_000}
"""Three parts of UTF-8; a part ends in the middle of a character."""


def acting() -> Definition:
    """An action, whose output the last node sees."""
    wf = Workflow("large")

    @wf.action(effect=idempotent("large.made"))
    def made() -> dict[str, str]:
        raise AssertionError

    @wf.compute()
    def seen(ctx: Ctx[Any]) -> int:
        return len(ctx.output(made)["text"])

    wf.edge(made, seen)
    return wf.build(start=made)


def ok(output: object) -> CallResult:
    return CallResult(outcome=StepOutcome.OK, output=cast("JsonObject", output))


def operations(server: "ScriptedServer") -> list[str]:
    return [message.operation for message in server.messages]


def test_a_large_output_goes_ahead_in_parts_and_commits_with_its_step(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """It is written once, for the effect's end and the attempt's end.

    Case: C35.
    """
    player(acting(), server, {"made": [ok(LARGE)]}).play()
    assert server.commits == [
        ["startAttempt", "reserveEffect"],
        ["settleEffect", "finishAttempt", "startAttempt"],
        ["finishAttempt", "finishRun"],
    ]
    written = [one.payload["offset"] for one in server.messages if one.operation[0] == "c"]
    assert written == [0, PART_BYTES_MAX, 2 * PART_BYTES_MAX]
    assert "output" not in server.steps[0]
    assert server.finished is not None
    assert server.finished["finalOutput"] == 600_000


def test_a_large_final_output_is_the_last_step_s_and_not_said_again(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    player(acting(), server, {"made": [ok({})], "seen": [ok(LARGE)]}).play()
    assert server.finished == {"type": "finishRun", "status": "completed"}


@pytest.mark.parametrize(("more", "referred"), [(0, False), (1, True)])
def test_the_largest_body_of_a_message_is_128_kib_of_json(
    more: int,
    referred: bool,  # noqa: FBT001 - a parameter of the test
    server: "ScriptedServer",
    player: "type[Player]",
) -> None:
    text = "x" * (INLINE_BYTES_MAX - len('{"text":""}') + more)
    player(acting(), server, {"made": [ok({"text": text})]}).play()
    assert ("outputContent" in server.steps[0]) is referred


def test_a_resuming_runner_reads_large_outputs_and_a_large_input_back(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: C37."""
    server.input = LARGE
    other: JsonObject = {"text": "ö" * 600_000}
    player(acting(), server, {"made": [ok(other)]}).play(crash_before=11)
    assert server.path == [("made", "ok")]
    assert operations(server).count("content.read") == 3
    resumed = player(acting(), server)
    resumed.play()
    assert [call.node.node_id for call in resumed.calls] == ["seen"]
    assert server.finished is not None
    assert server.finished["finalOutput"] == 600_000
    assert operations(server).count("content.read") == 9


def test_a_large_result_of_an_applied_effect_is_adopted_by_reference(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    lost = player(acting(), server, {"made": [ok(LARGE)]})
    lost.play(crash_before=3)
    server.effects["effect-made-1"]["status"] = "applied"
    content = b'{"text":"saved"}'
    reference = ContentReference.of(content)
    server.contents[reference.sha256] = bytearray(content)
    server.effects["effect-made-1"]["resultContent"] = reference.to_json()
    player(acting(), server).play()
    assert server.steps[0]["output"] == {"text": "saved"}
    assert server.steps[0]["receipt"] == {"actionType": "function", "adopted": True}


DAMAGE: Final = {
    "digest": (lambda data: b"y" + data[1:], "digest"),
    "length": (lambda data: data + b"y" * (len(data) < PART_BYTES_MAX), "length"),
    "nothing": (lambda _data: b"", "base64"),
}


@pytest.mark.parametrize(("damage", "named"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_part_ends_the_loop_with_its_reason_and_runs_nothing(
    damage: Any,  # noqa: ANN401 - a function of the test
    named: str,
    server: "ScriptedServer",
    player: "type[Player]",
) -> None:
    """Case: C36."""
    server.input = LARGE

    def refuse(message: Send) -> Reply | None:
        if message.operation != "content.read":
            return None
        (content,) = server.contents.values()
        offset = cast("int", message.payload["offset"])
        data = damage(bytes(content[offset : offset + PART_BYTES_MAX]))
        return Reply(WorkerMessageOutcome.ACCEPTED, None, {"data": encode_part(data)})

    server.refuse = refuse
    damaged = player(acting(), server)
    ending = damaged.play()
    assert isinstance(ending, Ending)
    assert ending.reason is ExitReason.REJECTED
    assert named in str(ending.detail)
    assert damaged.calls == []


def test_a_refused_part_ends_the_loop_with_the_server_s_reason(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    def refuse(message: Send) -> Reply | None:
        if message.operation != "content.write":
            return None
        return Reply(WorkerMessageOutcome.REJECTED, error="the server cannot keep the content")

    server.refuse = refuse
    ending = player(acting(), server, {"made": [ok(LARGE)]}).play()
    assert ending == Ending(ExitReason.REJECTED, "the server cannot keep the content")
    assert server.steps == []


def test_an_output_beyond_the_largest_content_fails_the_node(
    server: "ScriptedServer", player: "type[Player]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "CONTENT_BYTES_MAX", 1_000_000)
    player(acting(), server, {"made": [ok(LARGE)]}).play()
    assert server.finished is not None
    told = 'OUTPUT_TOO_LARGE: node "made" returned 1200011 bytes of JSON; at most 1000000'
    assert str(server.finished["error"]).startswith(told)
