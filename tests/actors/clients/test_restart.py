"""Restarting through a connection: one child however often it is asked for, and it runs."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING, cast

import trio
import trio.testing

from pi_workflows.protocol.ids import RunId
from pi_workflows.protocol.states import RunStatus

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.actors.clients.conftest import Front, Peer
    from tests.actors.conftest import Bench

Clock = trio.testing.MockClock


async def ended(bench: "Bench") -> RunId:
    """Let a run come to its end."""
    run_id = await bench.create()
    assert await bench.owner(run_id).run()
    return run_id


async def revision_of(peer: "Peer", run_id: RunId) -> int:
    """Return the revision that a restart names."""
    view = cast("JsonObject", (await peer.ask("view.run.get", run_id=run_id))["receipt"])
    return cast("int", cast("JsonObject", view["view"])["runRevision"])


async def restart(
    peer: "Peer", run_id: str, revision: int, key: str | None = None
) -> "JsonObject":
    request = peer.request("run.restart", run_id=run_id, key=key)
    return await peer.answer({**request, "expectedRevision": revision})


async def test_restarted_run_is_a_new_run_that_starts_from_the_beginning(
    autojump_clock: Clock, front: "Front"
) -> None:
    """Case: B47."""
    bench = front.bench
    with trio.fail_after(60):
        run_id = await ended(bench)
        peer = await front.connect()
        answer = await restart(peer, run_id, await revision_of(peer, run_id))
        receipt = cast("JsonObject", answer["receipt"])
        child = RunId(str(receipt["runId"]))
        assert answer["outcome"] == "accepted"
        assert receipt == {
            "runId": child,
            "parentRunId": run_id,
            "restartNumber": 1,
            "status": "queued",
            "workflowName": "tally",
        }
        assert await bench.owner(child).run()
    assert bench.run_row(child).status is RunStatus.COMPLETED
    steps = "SELECT count(*) FROM run_steps WHERE run_id = :run_id"
    assert bench.rows(steps, {"run_id": child}) == bench.rows(steps, {"run_id": run_id}) == [(2,)]


async def test_restart_is_asked_for_again_and_adopts_the_one_child(
    autojump_clock: Clock, front: "Front"
) -> None:
    """A repeat with the same key, and anybody else's request, at once or later."""
    answers: list[JsonObject] = []

    async def ask(key: str) -> None:
        peer = await front.connect()
        answers.append(await restart(peer, run_id, revision, key))

    with trio.fail_after(60):
        run_id = await ended(front.bench)
        revision = await revision_of(await front.connect(), run_id)
        async with trio.open_nursery() as nursery:
            for key in ("one", "one", "two", "three"):
                nursery.start_soon(ask, key)
        await ask("one")
    outcomes = sorted(str(answer["outcome"]) for answer in answers)
    assert outcomes == ["accepted"] + ["adopted"] * 4
    assert len({str(cast("JsonObject", answer["receipt"])["runId"]) for answer in answers}) == 1
    assert len(front.bench.rows("SELECT run_id FROM runs")) == 2


async def test_refused_restart_says_why_with_a_code(autojump_clock: Clock, front: "Front") -> None:
    bench = front.bench
    with trio.fail_after(60):
        run_id, live = await ended(bench), await bench.create()
        peer = await front.connect()
        revision = await revision_of(peer, run_id)
        stale = await restart(peer, run_id, revision - 1)
        early = await restart(peer, live, 1)
        unknown = await restart(peer, "run-0", 1)
        without = await peer.ask("run.restart", run_id=run_id)
    told = [
        (answer["outcome"], cast("JsonObject", answer["receipt"])["code"])
        for answer in (stale, early, unknown, without)
    ]
    assert told == [
        ("conflict", "REVISION_STALE"),
        ("rejected", "RUN_NOT_ENDED"),
        ("notFound", "RUN_UNKNOWN"),
        ("rejected", "PAYLOAD_INVALID"),
    ]
    assert len(bench.rows("SELECT run_id FROM runs")) == 2
