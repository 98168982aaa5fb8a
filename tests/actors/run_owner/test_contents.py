"""Large bodies between a runner and the store: staged, adopted, read back, refused."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
import trio
import trio.testing

from pi_workflows.protocol.canonical import JsonObject, canonical_bytes
from pi_workflows.protocol.content import (
    CONTENT_BYTES_MAX,
    PART_BYTES_MAX,
    ContentReference,
    decode_part,
    encode_part,
)
from pi_workflows.protocol.states import RunStatus
from runtime.process import ExitStatus
from runtime.scratch_file import SystemScratchFile

if TYPE_CHECKING:
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock

VALUE: Final[JsonObject] = {"text": "ä" * 600_000, "next": "second"}
CONTENT: Final = canonical_bytes(VALUE)
REFERENCE: Final = ContentReference.of(CONTENT)
OUTPUTS: Final = """
    SELECT b.media_type, b.content
      FROM node_attempts AS a JOIN blobs AS b ON b.blob_hash = a.output_hash
     WHERE a.node_id = 'first'
"""


def part(offset: int, content: bytes = CONTENT, **changed: Any) -> JsonObject:  # noqa: ANN401
    data = encode_part(content[offset : offset + PART_BYTES_MAX])
    payload = {**ContentReference.of(content).to_json(), "offset": offset, "data": data}
    return payload | changed


async def write(child: "RunnerEnd", content: bytes = CONTENT) -> list[JsonObject]:
    return [
        await child.ask("content.write", part(offset, content))
        for offset in range(0, len(content), PART_BYTES_MAX)
    ]


async def read(child: "RunnerEnd", reference: JsonObject) -> bytes:
    content = bytearray()
    offset: object = 0
    while offset is not None:
        wanted: JsonObject = {"sha256": reference["sha256"], "offset": cast("int", offset)}
        reply = await child.ask("content.read", wanted)
        result = cast("JsonObject", reply["result"])
        content += decode_part(result["data"])
        offset = result["nextOffset"]
    return bytes(content)


def finished_with(child: "RunnerEnd", reference: ContentReference = REFERENCE) -> JsonObject:
    finished = child.finished("first")
    del finished["output"]
    return {**finished, "outputContent": reference.to_json()}


async def test_large_output_is_written_in_parts_and_read_back_by_the_next_runner(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """The switch behind it is decided by a value inside.

    Case: C35, C37.
    """
    graph: JsonObject = {
        "schema": "pi-workflows.definition-snapshot.v1",
        "name": "tally",
        "startAt": "first",
        "maxSteps": 20,
        "nodes": [{"id": "first", "type": "compute"}, {"id": "second", "type": "compute"}],
        "edges": [{"from": "first", "switch": {"on": "$.next", "cases": {"second": "second"}}}],
        "mounts": [],
        "settings": None,
    }
    told: list[bytes] = []
    sizes: list[int] = []

    async def begin(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.go_on(child.started("first"))
        replies = await write(child)
        assert [reply["outcome"] for reply in replies] == ["accepted"] * 3
        await child.go_on(finished_with(child))
        return ExitStatus(1, None)

    async def resume(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        page = cast("JsonObject", (await child.ask("run.state", {"fromNode": 0}))["result"])
        sizes.append(len(canonical_bytes(page)))
        (step,) = cast("list[JsonObject]", page["steps"])
        told.append(await read(child, cast("JsonObject", step["outputContent"])))
        await child.go_on(child.started("second"))
        await child.go_on(child.finished("second"), {"type": "finishRun", "status": "completed"})
        return await child.leave("finished")

    bench.children(begin, resume)
    with trio.fail_after(60):
        run_id = await bench.create(snapshot=graph)
        assert await bench.owner(run_id).run()
        await trio.sleep(1)
        assert await bench.owner(run_id).run()
    assert bench.run_row(run_id).status is RunStatus.COMPLETED
    assert bench.rows(OUTPUTS) == [("application/json", CONTENT)]
    assert told == [CONTENT]
    assert sizes[0] < 1_000


async def test_large_input_is_read_by_reference(autojump_clock: Clock, bench: "Bench") -> None:
    told: list[bytes] = []

    async def take(child: "RunnerEnd") -> ExitStatus:
        command = await child.ready()
        assert "input" not in command
        told.append(await read(child, cast("JsonObject", command["inputContent"])))
        return await child.leave("stopped")

    bench.children(take)
    with trio.fail_after(60):
        run_id = await bench.create(run_input=VALUE)
        assert await bench.owner(run_id).run()
    assert told == [CONTENT]


async def test_large_result_is_stored_once_for_effect_and_step_and_adopted_by_reference(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    told: list[bytes] = []

    async def act(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.go_on(child.started("first"))
        await child.go_on(child.finished("first"), child.started("second", node_type="action"))
        grant = child.granted(
            await child.advance(child.reserve("second", "mail.send", "idempotent"))
        )
        await write(child)
        settled = {**child.settled(grant, "applied"), "resultContent": REFERENCE.to_json()}
        await child.go_on(settled)
        return ExitStatus(1, None)

    async def adopt(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.go_on(child.started("second", node_type="action"))
        grant = child.granted(
            await child.advance(child.reserve("second", "mail.send", "idempotent"))
        )
        assert (grant["status"], "result" in grant) == ("applied", False)
        told.append(await read(child, cast("JsonObject", grant["resultContent"])))
        return await child.leave("stopped")

    bench.children(act, adopt)
    with trio.fail_after(60):
        run_id = await bench.create_with_effect("mail.send", "idempotent")
        assert await bench.owner(run_id).run()
        await trio.sleep(1)
        assert await bench.owner(run_id).run()
    assert told == [CONTENT]


Refused = Callable[["RunnerEnd"], JsonObject]

REFUSED_PARTS: Final[dict[str, tuple[JsonObject, str]]] = {
    "no digest": (part(0, sha256="AB" * 32), "sha256"),
    "no length": (part(0, bytes=0), "bytes"),
    "too long": (part(0, bytes=CONTENT_BYTES_MAX + 1), "bytes"),
    "no json": (part(0, mediaType="text/plain"), "mediaType"),
    "not base64": (part(0, data="ä" * 100), "base64"),
    "no data": (part(0, data=""), "data is not"),
    "data too long": (part(0, data=encode_part(b"x" * (PART_BYTES_MAX + 1))), "data is not"),
    "a hole": (part(PART_BYTES_MAX), "offset"),
    "no offset": ({**part(0), "offset": True}, "offset"),
    "unknown field": (part(0, more=1), "fields"),
    "more than announced": (part(0, bytes=10), "more bytes"),
    "another digest": (part(0, b'"a"', sha256="ab" * 32), "another digest"),
    "no UTF-8": (part(0, b'"\xff"'), "UTF-8"),
    "half a character": (part(0, b'"\xc3'), "UTF-8"),
}


async def test_malformed_parts_are_refused_with_a_bounded_reason_and_the_runner_goes_on(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Case: C36."""
    refusals: list[JsonObject] = []

    async def misbehave(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.go_on(child.started("first"))
        for payload, _ in REFUSED_PARTS.values():
            refusals.append(await child.ask("content.write", payload))
        await write(child)
        await child.go_on(finished_with(child))
        return await child.leave("stopped")

    bench.children(misbehave)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert {refusal["outcome"] for refusal in refusals} == {"rejected"}
    for refusal, (_, named) in zip(refusals, REFUSED_PARTS.values(), strict=True):
        assert named in str(refusal["error"])
        assert len(str(refusal["error"])) < 200
    assert bench.rows(OUTPUTS) == [("application/json", CONTENT)]


async def test_references_to_what_was_not_written_or_is_no_json_are_refused(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Case: C36."""
    replies: list[JsonObject] = []
    broken = b'{"text":' + b"x" * 200_000

    async def misbehave(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.go_on(child.started("first"))
        replies.append(await child.advance(finished_with(child)))
        await child.ask("content.write", part(0))
        replies.append(await child.advance(finished_with(child)))
        replies.append(await child.advance({**finished_with(child), "output": 1}))
        replies.append(await child.advance({**finished_with(child), "outputContent": {}}))
        await write(child, broken)
        replies.append(await child.advance(finished_with(child, ContentReference.of(broken))))
        replies.append(await child.ask("content.read", {"sha256": REFERENCE.sha256, "offset": 0}))
        return await child.leave("stopped")

    bench.children(misbehave)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert {reply["outcome"] for reply in replies} == {"rejected"}
    assert [str(reply["error"])[:30] for reply in replies] == [
        "no content of this digest and ",
        "the content has not been writt",
        "finishAttempt has an output ex",
        "sha256 is not 64 hexadecimal d",
        "the proposal is refused: a con",
        "no content of this digest was ",
    ]
    assert bench.rows("SELECT 1 FROM blobs WHERE byte_length > 100000") == []
    assert bench.rows("SELECT status FROM node_attempts") == [("interrupted",)]


async def test_disk_that_is_full_refuses_the_part_and_not_the_server(
    autojump_clock: Clock, bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    replies: list[JsonObject] = []

    def full(_self: object, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    async def fill(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        replies.append(await child.ask("content.write", part(0)))
        return await child.leave("failed")

    bench.children(fill, bench.working)
    with trio.fail_after(60):
        run_id = await bench.create()
        with monkeypatch.context() as patch:
            patch.setattr(SystemScratchFile, "append", full)
            assert await bench.owner(run_id).run()
        await trio.sleep(1)
        assert await bench.owner(run_id).run()
    assert [reply["error"] for reply in replies] == [
        "the server cannot keep the content: No space left on device"
    ]
    assert bench.run_row(run_id).status is RunStatus.COMPLETED


async def test_runner_keeps_no_more_than_four_contents_waiting(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    replies: list[JsonObject] = []

    async def hoard(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        for letter in b"abcde":
            content = bytes([letter]) * (PART_BYTES_MAX + 1)
            replies.append(await child.ask("content.write", part(0, content)))
        return await child.leave("stopped")

    bench.children(hoard)
    with trio.fail_after(60):
        assert await bench.owner(await bench.create()).run()
    assert [reply["outcome"] for reply in replies] == ["accepted"] * 4 + ["rejected"]


async def test_nothing_of_a_content_stays_when_its_runner_is_gone(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    async def vanish(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.ask("content.write", part(0))
        return ExitStatus(1, None)

    bench.children(vanish)
    with trio.fail_after(60):
        assert await bench.owner(await bench.create()).run()
    assert [path.name for path in bench.paths.host_dir.iterdir() if "scratch" in path.name] == []
