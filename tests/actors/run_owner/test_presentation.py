"""After the end of a run: its child may say how to present it, and nothing else happens."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from runtime.process import ExitStatus
from store import projection

if TYPE_CHECKING:
    from pi_workflows.protocol.ids import RunId
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock


async def to_the_end(child: "RunnerEnd") -> None:
    await child.ready()
    for node_id in ("first", "second"):
        await child.go_on(child.started(node_id))
        await child.go_on(child.finished(node_id))
    await child.go_on({"type": "finishRun", "status": "completed"})


def prompt(bench: "Bench", run_id: "RunId") -> JsonValue:
    state = bench.read(projection.run_state, run_id)
    assert state["status"] == "completed"
    return state.get("presentationPrompt")


async def test_text_that_comes_after_the_end_is_stored(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """The child has 35 seconds to ask its workflow, and stays the one that was heard."""
    replies: list[JsonObject] = []

    async def present(child: "RunnerEnd") -> ExitStatus:
        await to_the_end(child)
        await child.ask("runner.progress", {"presenting": True})
        await trio.sleep(30)
        replies.append(await child.ask("run.present", {"text": "Say it."}))
        replies.append(await child.ask("run.present", {"text": "Say it."}))
        replies.append(await child.ask("run.present", {"text": "Something else."}))
        return await child.leave("finished")

    bench.children(present)
    with trio.fail_after(120):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert [reply["outcome"] for reply in replies] == ["accepted", "accepted", "rejected"]
    assert prompt(bench, run_id) == "Say it."
    assert bench.rows("SELECT status FROM run_workers") == [("exited",)]


@pytest.mark.parametrize(("takes_s", "text"), [(4, "Say it."), (6, None)])
async def test_stop_hears_out_a_child_whose_run_has_ended_for_some_seconds(
    autojump_clock: Clock, bench: "Bench", takes_s: int, text: str | None
) -> None:
    """It stops at the instant of the end, when nothing of the presentation is said yet."""
    stopping = trio.CancelScope()

    async def present(child: "RunnerEnd") -> ExitStatus:
        await to_the_end(child)
        stopping.cancel()
        await child.ask("runner.progress", {"presenting": True})
        await trio.sleep(takes_s)
        await child.ask("run.present", {"text": "Say it."})
        return await child.leave("finished")

    bench.children(present)
    with trio.fail_after(60):
        run_id = await bench.create()
        with stopping:
            await bench.owner(run_id).run()
    assert stopping.cancelled_caught
    assert prompt(bench, run_id) == text
    ends = [("exited",)] if text else [("cancelled",)]
    assert bench.rows("SELECT status FROM run_workers") == ends


@pytest.mark.parametrize("text", ["", "  ", None, 5, "x" * 65_537], ids=str)
async def test_unusable_text_is_refused_and_the_end_stands(
    autojump_clock: Clock, bench: "Bench", text: JsonValue
) -> None:
    replies: list[JsonObject] = []

    async def present(child: "RunnerEnd") -> ExitStatus:
        await to_the_end(child)
        replies.append(await child.ask("run.present", {"text": text}))
        return await child.leave("finished")

    bench.children(present)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert replies[0]["outcome"] == "rejected"
    assert prompt(bench, run_id) is None


async def test_text_before_the_end_is_refused(autojump_clock: Clock, bench: "Bench") -> None:
    replies: list[JsonObject] = []

    async def present(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        replies.append(await child.ask("run.present", {"text": "Say it."}))
        return await child.leave("stopped")

    bench.children(present)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert replies[0]["outcome"] == "rejected"
    assert bench.rows("SELECT count(*) FROM runs WHERE presentation_prompt_hash IS NOT NULL") == [
        (0,)
    ]


async def test_child_that_never_finishes_asking_is_ended_and_the_end_stands(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Its place is needed.

    Case: B6.
    """

    async def hang(child: "RunnerEnd") -> ExitStatus:
        await to_the_end(child)
        await child.ask("runner.progress", {"presenting": True})
        return await child.hang()

    bench.children(hang)
    with trio.fail_after(120):
        run_id = await bench.create()
        began = trio.current_time()
        assert await bench.owner(run_id).run()
    assert 35 <= trio.current_time() - began < 45
    assert prompt(bench, run_id) is None


async def test_failure_of_the_callback_is_logged_and_the_child_has_seconds_to_leave(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Case: B6."""

    async def fail(child: "RunnerEnd") -> ExitStatus:
        await to_the_end(child)
        await child.ask("runner.progress", {"presenting": True})
        await child.ask("runner.progress", {"presentationError": "LookupError: no words"})
        return await child.hang()

    bench.children(fail)
    with trio.fail_after(120):
        run_id = await bench.create()
        began = trio.current_time()
        assert await bench.owner(run_id).run()
    assert trio.current_time() - began < 10
    assert prompt(bench, run_id) is None
    log = (bench.paths.logs / "server.log").read_text()
    assert "presentation_failed" in log
    assert "LookupError" in log
    assert "no words" not in log
