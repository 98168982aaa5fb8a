"""Behaviour of commands of clients: each once, whatever is lost or repeated."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import encode_frame
from pi_workflows.protocol.states import RunStatus
from runtime.process import ExitStatus

if TYPE_CHECKING:
    from tests.actors.clients.conftest import Front
    from tests.actors.conftest import RunnerEnd

Clock = trio.testing.MockClock

START: Final[JsonObject] = {"projectPath": "/", "workflow": "tally", "input": {"lines": 3}}
RECEIPTS: Final = "SELECT outcome FROM host_commands ORDER BY created_at"


async def test_lost_reply_of_a_start_is_asked_for_again_and_adopts_the_one_run(
    autojump_clock: Clock, front: "Front"
) -> None:
    """A new request id, the same key and payload, over a new connection.

    Case: C18.
    """
    front.bench.children(front.bench.resolving)
    with trio.fail_after(10):
        lost = await front.connect()
        await lost.send(lost.request("run.start", START, key="start-1"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.aclose_forcefully(lost.stream)
        peer = await front.connect()
        first = await peer.ask("run.start", START, key="start-1")
        second = await peer.ask("run.start", START, key="start-1")
    assert first["outcome"] == second["outcome"] == "adopted"
    assert first["receipt"] == second["receipt"]
    assert len(front.bench.rows("SELECT run_id FROM runs")) == 1
    assert front.bench.rows(RECEIPTS) == [("accepted",)]
    assert len(front.bench.spawner.spawned) == 1, "what is known is not resolved again"


@pytest.mark.parametrize(
    "path",
    ["\0", "/a\0b", "here", "/" + "x" * 300, "/dev/null", "/no/such/folder", "LOOP"],
    ids=["nul", "nul inside", "relative", "too long", "no folder", "missing", "loop"],
)
async def test_start_in_what_is_no_folder_is_refused_and_starts_nothing(
    autojump_clock: Clock, front: "Front", tmp_path: Path, path: str
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    front.bench.children(front.bench.resolving)
    with trio.fail_after(10):
        peer = await front.connect()
        sent = str(loop) if path == "LOOP" else path
        answer = await peer.ask("run.start", {**START, "projectPath": sent})
    assert answer["outcome"] == "rejected"
    assert answer["receipt"] == {"code": "PAYLOAD_INVALID"}
    assert "projectPath" in str(answer["error"])
    assert front.bench.spawner.spawned == []


async def test_equal_starts_at_the_same_time_reserve_one_run(
    autojump_clock: Clock, front: "Front"
) -> None:
    front.bench.children(front.bench.resolving)
    outcomes: list[object] = []

    async def ask() -> None:
        peer = await front.connect()
        outcomes.append((await peer.ask("run.start", START, key="start-1"))["outcome"])

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
    assert sorted(map(str, outcomes)) == ["accepted"] + ["adopted"] * 4
    assert len(front.bench.rows("SELECT run_id FROM runs")) == 1


async def test_request_id_used_for_another_request_is_a_conflict(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Case: C19."""
    with trio.fail_after(10):
        one, two = await front.bench.create(), await front.bench.create()
        peer = await front.connect()
        first = await peer.answer(peer.request("run.cancel", run_id=one, request_id="r-1"))
        other = await peer.answer(peer.request("run.cancel", run_id=two, request_id="r-1"))
    assert first["outcome"] == "accepted"
    assert (other["outcome"], other["receipt"]) == ("conflict", {"code": "KEY_REUSED"})
    assert front.bench.run_row(two).status is RunStatus.QUEUED


async def test_key_used_for_another_payload_is_a_conflict(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Case: C20."""
    with trio.fail_after(10):
        run_id = await front.bench.create()
        peer = await front.connect()
        first = await peer.ask("run.cancel", {"reason": "one"}, run_id=run_id, key="k")
        other = await peer.ask("run.cancel", {"reason": "two"}, run_id=run_id, key="k")
        again = await peer.ask("run.cancel", {"reason": "one"}, run_id=run_id, key="k")
    assert (first["outcome"], other["outcome"]) == ("accepted", "conflict")
    assert again == {**first, "outcome": "adopted", "requestId": again["requestId"]}


async def test_stored_refusal_is_repeated_and_nothing_is_tried_again(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Case: C22."""

    async def refuse(child: "RunnerEnd") -> ExitStatus:
        await child.launch()
        answer: JsonObject = {
            "outcome": "refused",
            "code": "SOURCE_FAILED",
            "message": "tally.py:3 NameError",
            "detail": "Traceback",
        }
        await child.lines.send(encode_frame(answer))
        return ExitStatus(0, None)

    front.bench.children(refuse, front.bench.resolving)
    with trio.fail_after(10):
        peer = await front.connect()
        first = await peer.ask("run.start", START, key="k")
        again = await peer.ask("run.start", START, key="k")
        other = await peer.ask("run.start", START, key="another")
    assert first["outcome"] == "rejected"
    assert first["error"] == "tally.py:3 NameError"
    assert first["receipt"] == {"code": "SOURCE_FAILED", "detail": "Traceback"}
    kept: JsonObject = {"code": "SOURCE_FAILED"}
    assert again == {**first, "requestId": again["requestId"], "receipt": kept}, (
        "the traceback was for the first caller and is not stored"
    )
    assert other["outcome"] == "accepted"
    assert front.bench.services.processes.children() == ()


@pytest.mark.parametrize(
    "code",
    [
        "DEFINITION_INVALID",
        "INPUT_REJECTED",
        "NODE_CANNOT_RUN",
        "NOTIFY_NEEDS_SESSION",
        "NOT_JSON",
        "TITLE_TIMEOUT",
    ],
)
async def test_refused_start_leaves_its_receipt_and_no_run(
    autojump_clock: Clock, front: "Front", code: str
) -> None:
    """Case: B13, B38."""

    async def refuse(child: "RunnerEnd") -> ExitStatus:
        request = (await child.launch())["originSessionId"]
        assert request is None, "runs of local clients belong to no conversation"
        answer: JsonObject = {"outcome": "refused", "code": code, "message": "no"}
        await child.lines.send(encode_frame(answer))
        return ExitStatus(0, None)

    front.bench.children(refuse)
    with trio.fail_after(10):
        peer = await front.connect()
        refused = await peer.ask("run.start", START, key="k")
        listed = await peer.ask("run.list", {})
    assert (refused["outcome"], refused["receipt"]) == ("rejected", {"code": code})
    assert listed["receipt"]["items"] == []  # type: ignore[index, call-overload]


async def test_start_in_a_folder_that_does_not_exist_starts_no_process(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(10):
        peer = await front.connect()
        reply = await peer.ask("run.start", {**START, "projectPath": "/no/such/folder"})
    assert (reply["outcome"], reply["receipt"]) == ("rejected", {"code": "PAYLOAD_INVALID"})
    assert front.bench.spawner.spawned == []


@pytest.mark.parametrize("answer", [b"", b"nonsense\n", b'{"outcome":"resolved"}\n'])
async def test_resolver_that_fails_is_a_refusal_with_a_reason_and_is_not_stored(
    autojump_clock: Clock, front: "Front", answer: bytes
) -> None:
    async def fail(child: "RunnerEnd") -> ExitStatus:
        await child.launch()
        if answer:
            await child.lines.send(answer)
        return ExitStatus(1, None)

    front.bench.children(fail, front.bench.resolving)
    with trio.fail_after(10):
        peer = await front.connect()
        reply = await peer.ask("run.start", START, key="k")
        again = await peer.ask("run.start", START, key="k")
    assert reply["outcome"] == "rejected"
    assert reply["receipt"]["code"] == "RESOLVER_FAILED"  # type: ignore[index, call-overload]
    assert again["outcome"] == "accepted"


async def test_file_that_ends_the_interpreter_is_refused_as_the_files_failure(
    autojump_clock: Clock, front: "Front"
) -> None:
    async def exit_at_import(child: "RunnerEnd") -> ExitStatus:
        await child.launch()
        await child.lines.send(encode_frame({"outcome": "loading"}))
        return ExitStatus(3, None)

    front.bench.children(exit_at_import)
    with trio.fail_after(10):
        peer = await front.connect()
        reply = await peer.ask("run.start", START)
    assert reply["outcome"] == "rejected"
    assert reply["receipt"]["code"] == "SOURCE_FAILED"  # type: ignore[index, call-overload]
    assert (
        reply["error"] == "the workflow file ends the interpreter when it is loaded (exit code 3)."
    )
    assert front.bench.rows(RECEIPTS) == [("rejected",)]


async def test_resolver_that_cannot_be_started_is_unavailable_and_may_be_asked_for_again(
    autojump_clock: Clock, front: "Front"
) -> None:
    front.bench.children(front.bench.resolving)
    front.bench.spawner.refusals = 1
    with trio.fail_after(10):
        peer = await front.connect()
        reply = await peer.ask("run.start", START, key="k")
        again = await peer.ask("run.start", START, key="k")
    assert (reply["outcome"], reply["receipt"]) == ("unavailable", {"code": "RESOLVER_FAILED"})
    assert again["outcome"] == "accepted"


async def test_resolver_that_hangs_is_given_up_after_a_minute(
    autojump_clock: Clock, front: "Front"
) -> None:
    front.bench.children(front.bench.hanging)
    with trio.fail_after(100):
        peer = await front.connect()
        reply = await peer.ask("run.start", START)
        assert 60 <= trio.current_time() < 61
    assert (reply["outcome"], reply["receipt"]) == ("rejected", {"code": "RESOLVER_FAILED"})
    assert front.bench.spawner.living == 0
    assert front.bench.rows(RECEIPTS) == [], "a busy minute is not the last word on this key"


async def test_cancel_says_who_won(autojump_clock: Clock, front: "Front") -> None:
    with trio.fail_after(10):
        done, queued = await front.bench.create(), await front.bench.create()
        await front.bench.owner(done).run()
        peer = await front.connect()
        won = await peer.ask("run.cancel", {"reason": "not needed"}, run_id=queued)
        adopted = await peer.ask("run.cancel", {"reason": "not needed"}, run_id=queued)
        conflict = await peer.ask("run.cancel", {"reason": "other"}, run_id=queued)
        lost = await peer.ask("run.cancel", run_id=done)
        unknown = await peer.ask("run.cancel", run_id="run-0")
    assert won["outcome"] == "accepted"
    assert won["receipt"] == {
        "runId": queued,
        "verdict": "won",
        "status": "cancelled",
        "revision": won["revision"],
        "cutOff": {},
        "ambiguousEffects": [],
    }
    assert (adopted["outcome"], adopted["receipt"]) == ("adopted", won["receipt"])
    assert conflict["outcome"] == "conflict"
    assert lost["receipt"]["verdict"] == "lost"  # type: ignore[index, call-overload]
    assert lost["receipt"]["status"] == "completed"  # type: ignore[index, call-overload]
    assert unknown["outcome"] == "notFound"


async def test_cancel_with_a_stale_revision_is_a_conflict(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(10):
        run_id = await front.bench.create()
        peer = await front.connect()
        request = peer.request("run.cancel", run_id=run_id)
        stale = await peer.answer({**request, "expectedRevision": 7})
    assert stale["outcome"] == "conflict"
    assert front.bench.run_row(run_id).finished_at is None


async def test_stop_of_the_server_is_answered_before_it_begins(
    autojump_clock: Clock, front: "Front"
) -> None:
    with trio.fail_after(10):
        peer = await front.connect()
        reply = await peer.ask("server.stop")
        await front.stopping.wait()
    assert (reply["outcome"], reply["receipt"]) == ("accepted", {"stopping": True})


async def test_command_whose_commit_fails_is_unavailable_and_not_refused(
    autojump_clock: Clock, front: "Front"
) -> None:
    """What is not known is not stored either: the same request may be sent again."""
    with trio.fail_after(10):
        run_id = await front.bench.create()
        peer = await front.connect()
        front.bench.services.store.stop()
        reply = await peer.ask("run.cancel", run_id=run_id)
    assert (reply["outcome"], reply["receipt"]) == ("unavailable", {"code": "STORE_DOWN"})
    assert front.bench.rows(RECEIPTS) == []


async def test_request_in_hand_at_the_stop_is_unavailable_and_what_comes_after_it_too(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Its child is ended and nothing stored; what was done before is answered as done."""
    front.bench.children(front.bench.hanging)
    with trio.fail_after(10):
        peer = await front.connect()
        await peer.send(peer.request("run.start", START))
        await trio.testing.wait_all_tasks_blocked(0.01)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(front.gateway.drain)
            in_hand = await peer.receive()
            late = await peer.ask("server.status")
    for reply in (in_hand, late):
        assert reply is not None
        assert reply["outcome"] == "unavailable"
        assert reply["receipt"] == {"code": "SERVER_STOPPING"}
    assert front.bench.spawner.living == 0
    assert front.bench.rows(RECEIPTS) == []
