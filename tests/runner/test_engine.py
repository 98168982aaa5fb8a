"""The engine loop against a scripted server: no process, no clock, no socket."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from pi_workflows.authoring import Ctx, Definition, Workflow, idempotent
from pi_workflows.protocol.canonical import JsonValue
from pi_workflows.protocol.states import StepOutcome, WorkerMessageOutcome
from pi_workflows.runner.messages import CallResult, Ending, ExitReason, Reply, Send

if TYPE_CHECKING:
    from tests.runner.conftest import Player, ScriptedServer

FAILED = CallResult(outcome=StepOutcome.FAILED, error="ValueError: no (a.workflow.py:3)")
TIMED_OUT = CallResult(outcome=StepOutcome.TIMED_OUT)


def ok(output: JsonValue) -> CallResult:
    return CallResult(outcome=StepOutcome.OK, output=output)


def linear() -> Definition:
    wf = Workflow("linear")

    @wf.compute()
    def first() -> int:
        return 1

    @wf.compute()
    def second(ctx: Ctx[Any]) -> int:
        return ctx.output(first) + 1

    wf.edge(first, second)
    return wf.build(start=first)


def looping(*, max_steps: int = 100) -> Definition:
    """`again` runs until its third visit, then `done`."""
    wf = Workflow("looping", max_steps=max_steps)

    @wf.compute()
    def again(ctx: Ctx[Any]) -> bool:
        return ctx.visit < 3

    @wf.compute()
    def unwrap(ctx: Ctx[Any]) -> dict[str, bool]:
        return {"more": ctx.output(again)}

    @wf.action(effect=idempotent("loop.done"))
    def done(ctx: Ctx[Any]) -> int:
        return ctx.visit

    wf.edge(again, unwrap)
    wf.switch(unwrap, "$.more", {True: again, False: done})
    return wf.build(start=again)


def endless() -> Definition:
    """Two nodes that follow each other for ever."""
    wf = Workflow("endless", max_steps=1_000_000)

    @wf.compute()
    def tick(ctx: Ctx[Any]) -> int:
        return ctx.visit

    @wf.compute()
    def tock(ctx: Ctx[Any]) -> int:
        return ctx.output(tick)

    wf.edge(tick, tock)
    wf.edge(tock, tick)
    return wf.build(start=tick)


def test_everything_between_two_nodes_travels_in_one_message(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    ending = player(linear(), server).play()
    assert ending == Ending(ExitReason.FINISHED)
    assert server.commits == [
        ["startAttempt"],
        ["finishAttempt", "startAttempt"],
        ["finishAttempt", "finishRun"],
    ]
    assert server.finished == {"type": "finishRun", "status": "completed", "finalOutput": 2}


def test_a_plain_edge_is_not_followed_after_a_failure(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """The run ends with the node's outcome and error.

    Case: B15.
    """
    player(linear(), server, {"first": [FAILED]}).play()
    assert server.path == [("first", "failed")]
    assert server.finished is not None
    assert server.finished["status"] == "failed"
    assert server.finished["error"] == FAILED.error


def test_a_time_out_without_a_case_ends_the_run_timed_out(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    """Case: B20."""
    player(linear(), server, {"second": [TIMED_OUT]}).play()
    assert server.finished is not None
    assert server.finished["status"] == "timed_out"
    assert "900000 ms" in str(server.finished["error"])


def test_a_loop_stops_at_max_steps(server: "ScriptedServer", player: "type[Player]") -> None:
    """Case: B22."""
    player(looping(max_steps=4), server).play()
    assert len(server.steps) == 4
    assert server.finished is not None
    assert server.finished["status"] == "failed"
    assert str(server.finished["error"]).startswith("MAX_STEPS")


def test_a_loop_that_needs_exactly_max_steps_completes(
    new_server: "type[ScriptedServer]", player: "type[Player]"
) -> None:
    free = new_server()
    player(looping(), free).play()
    bounded = new_server()
    player(looping(max_steps=len(free.steps)), bounded).play()
    assert bounded.path == free.path
    assert bounded.finished == free.finished


def test_a_rejected_message_ends_the_loop_with_the_servers_text(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    def refuse(message: Send) -> Reply | None:
        if message.operation != "run.advance" or not server.steps:
            return None
        return Reply(WorkerMessageOutcome.REJECTED, server.revision, {}, "revision 7 is current")

    server.refuse = refuse
    ending = player(looping(), server).play()
    assert ending == Ending(ExitReason.REJECTED, "revision 7 is current")
    assert len(server.steps) == 1


def test_a_lost_claim_ends_the_loop_at_once(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    server.refuse = lambda message: (
        Reply(WorkerMessageOutcome.CLAIM_LOST) if message.operation == "run.advance" else None
    )
    playing = player(linear(), server)
    assert playing.play() == Ending(ExitReason.CLAIM_LOST)
    assert playing.calls == []


@pytest.mark.parametrize("lose_last_reply", [False, True])
def test_a_crash_at_any_boundary_repeats_no_recorded_step(
    lose_last_reply: bool,  # noqa: FBT001 - a parameter of the test
    new_server: "type[ScriptedServer]",
    player: "type[Player]",
) -> None:
    """The interrupted attempt runs again under the same visit; everything else goes on.

    Case: B43.
    """
    undisturbed = new_server()
    player(looping(), undisturbed).play()
    boundary = 0
    while True:
        server = new_server()
        ending = player(looping(), server).play(
            crash_before=boundary, lose_last_reply=lose_last_reply
        )
        if ending is not None:
            break
        server.recover()
        if server.finished is None:
            player(looping(), server).play()
        assert server.path == undisturbed.path, boundary
        assert [step["output"] for step in server.steps] == [
            step["output"] for step in undisturbed.steps
        ]
        assert server.finished == undisturbed.finished
        boundary += 1
    assert boundary > 2 * len(undisturbed.steps)


def test_a_finished_graph_that_lacks_its_end_gets_it(
    server: "ScriptedServer", player: "type[Player]"
) -> None:
    player(linear(), server).play()
    server.finished = None
    playing = player(linear(), server)
    playing.play()
    assert playing.calls == []
    assert server.commits[-1] == ["finishRun"]
    assert server.finished is not None


def test_newest_steps_are_read_in_pages(server: "ScriptedServer", player: "type[Player]") -> None:
    server.page = 1
    player(looping(), server).play(crash_before=11)
    player(looping(), server).play()
    pages = [message for message in server.messages if message.operation == "run.state"]
    assert [page.payload["fromNode"] for page in pages] == [0, 1]
    assert server.path[-1] == ("done", "ok")


def test_what_a_resumed_loop_reads_does_not_grow_with_its_steps(
    new_server: "type[ScriptedServer]", player: "type[Player]"
) -> None:
    told = []
    for boundary in (20, 200):
        server = new_server()
        playing = player(endless(), server)
        playing.play(crash_before=boundary)
        recorded = len(server.steps)
        replies = [
            server.answer(Send("run.state", {"fromNode": position}, None)).result["steps"]
            for position in (0, 2)
        ]
        told.append([len(cast("list[object]", steps)) for steps in replies])
        assert recorded > boundary / 4
        resumed = player(endless(), server)
        resumed.play(crash_before=4)
        assert resumed.calls[0].visit == recorded // 2 + 1
    assert told == [[2, 0], [2, 0]]
