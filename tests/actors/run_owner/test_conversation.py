"""Behaviour of a run's owner towards its child: messages, refusals, farewells."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.ids import RunId
from pi_workflows.protocol.states import QueueStatus, RunStatus
from runtime.process import ExitStatus
from store import run_queue
from store.authority import Permit
from store.errors import NotClaimableError
from store.run_claiming import claim_run

if TYPE_CHECKING:
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock

WORKERS: Final = "SELECT status, exit_code, signal, finished_at IS NOT NULL FROM run_workers"
LEASE: Final = """
    SELECT l.generation, l.owner_id, l.expires_at
      FROM leases AS l JOIN resources AS r USING (resource_id)
     WHERE r.resource_type = 'run' AND r.aggregate_key = :run_id
"""
CRASH: Final = ExitStatus(1, None)


def lease(bench: "Bench", run_id: RunId) -> tuple[object, ...]:
    (row,) = bench.rows(LEASE, {"run_id": run_id})
    return row


async def test_run_is_served_to_its_end_and_nothing_is_left(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert bench.run_row(run_id).status is RunStatus.COMPLETED
    assert bench.queue_row(run_id).status is QueueStatus.DONE
    assert bench.rows(WORKERS) == [("exited", 0, None, 1)]
    assert lease(bench, run_id) == (1, None, None)
    assert bench.services.claims.count == 0
    assert bench.services.processes.children() == ()
    (spec,) = bench.spawner.specs
    assert spec.cwd == "/projects/one"
    assert bench.spawner.spawned[0].was_stopped


async def test_of_two_owners_one_gets_the_run_and_the_other_starts_nothing(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    results: list[bool] = []
    with trio.fail_after(60):
        run_id = await bench.create()

        async def own() -> None:
            results.append(await bench.owner(run_id).run())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(own)
            nursery.start_soon(own)
        assert not await bench.owner(RunId("no-such-run")).run()
    assert sorted(results) == [False, True]
    assert len(bench.spawner.spawned) == 1


@pytest.mark.parametrize("changed", [{"generation": 7}, {"runnerEpoch": "runner-of-yore"}])
async def test_stale_child_is_told_so_before_its_payload_is_looked_at(
    autojump_clock: Clock, bench: "Bench", changed: JsonObject
) -> None:
    """Case: C33."""
    replies: list[JsonObject] = []

    async def stale(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        frame = child.frame("run.advance", {"transitions": "this is no list"})
        replies.append(await child.send({**frame, **changed}))
        return await child.hang()

    bench.children(stale)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert replies == [{"messageId": "m2", "outcome": "claimLost"}]
    assert bench.rows(WORKERS) == [("claimLost", None, "15", 1)]
    assert bench.run_row(run_id).status is RunStatus.RUNNING


async def test_repeated_message_is_answered_from_the_store_and_a_changed_one_refused(
    autojump_clock: Clock,
    bench: "Bench",
) -> None:
    """Case: C34."""
    replies: list[JsonObject] = []

    async def repeat(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        frame = child.frame("run.advance", {"transitions": [child.started("first")]})
        replies.extend([await child.send(frame), await child.send(frame)])
        other: JsonObject = {**frame, "payload": {"transitions": [child.finished("first")]}}
        replies.append(await child.send(other))
        return CRASH

    bench.children(repeat)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    first, again, changed = replies
    assert first["outcome"] == "accepted"
    assert again == {**first, "outcome": "adopted"}
    assert changed["outcome"] == "rejected"
    assert bench.rows("SELECT status FROM node_attempts") == [("interrupted",)]


async def test_child_that_finds_a_changed_source_parks_the_run_and_ran_no_code(
    autojump_clock: Clock,
    bench: "Bench",
) -> None:
    async def refuse(child: "RunnerEnd") -> ExitStatus:
        await child.launch()
        payload: JsonObject = {"reason": "workflowSourceChanged", "detail": "the file differs"}
        assert (await child.ask("run.park", payload))["outcome"] == "accepted"
        return await child.leave("parked")

    bench.children(refuse)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
        assert bench.queue_row(run_id).error_code == "workflowSourceChanged"
        assert bench.read(run_queue.last_words, run_id) == "the file differs"
        assert not await bench.owner(run_id).run()
    assert bench.rows(WORKERS) == [("exited", 0, None, 1)]
    assert bench.rows("SELECT * FROM node_attempts") == []


async def test_child_that_lingers_after_the_end_of_its_run_is_stopped(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Its place is needed: the run has ended, whatever the process still wants."""

    async def linger(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        await child.advance(child.finished("first"), child.started("second"))
        await child.advance(child.finished("second"), {"type": "finishRun", "status": "completed"})
        return await child.hang()

    bench.children(linger)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
        assert trio.current_time() < 10
    assert bench.run_row(run_id).status is RunStatus.COMPLETED
    assert bench.spawner.living == 0


@pytest.mark.parametrize("reason", ["finished", "parked", "some new word"])
async def test_farewell_that_nothing_supports_is_a_crash(
    autojump_clock: Clock, bench: "Bench", reason: str
) -> None:
    """A run is never left in the middle because its child claims to be done."""

    async def lie(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        return await child.leave(reason)

    bench.children(lie)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    queued = bench.queue_row(run_id)
    assert (queued.status, queued.consecutive_errors) == (QueueStatus.PARKED, 1)


@pytest.mark.parametrize(
    "line",
    [b"no json\n", b'{"a": 1}\n', b"[]\n", b'{"schema":"pi-workflows.runner-message.v1"}\n'],
)
async def test_child_that_breaks_the_protocol_is_stopped(
    autojump_clock: Clock, bench: "Bench", line: bytes
) -> None:
    async def babble(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.lines.send(line)
        return await child.hang()

    bench.children(babble)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert bench.queue_row(run_id).status is QueueStatus.PARKED
    assert bench.spawner.living == 0


async def test_malformed_or_illegal_proposal_is_refused_and_the_child_may_go_on(
    autojump_clock: Clock,
    bench: "Bench",
) -> None:
    replies: list[JsonObject] = []

    async def err(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        replies.append(await child.advance({**child.started("first"), "secret": "value"}))
        replies.append(await child.advance(child.started("second")))
        replies.append(await child.ask("run.fly"))
        replies.append(await child.ask("run.state", {"fromNode": -1}))
        await child.advance(child.started("first"))
        await child.advance(child.finished("first"), child.started("second"))
        await child.advance(child.finished("second"), {"type": "finishRun", "status": "completed"})
        return await child.leave("finished")

    bench.children(err)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert [reply["outcome"] for reply in replies] == ["rejected"] * 4
    assert all(reply["error"] for reply in replies)
    assert "value" not in str(replies)
    assert bench.run_row(run_id).status is RunStatus.COMPLETED


async def test_effect_of_unknown_outcome_parks_the_run_for_a_person(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    replies: list[JsonObject] = []

    async def lose_sight(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        await child.advance(child.finished("first"), child.started("second", node_type="action"))
        reserve = child.reserve("second", "mail.send", "manual")
        grant = child.granted(await child.advance(reserve))
        settle = child.settled(grant, "ambiguous")
        replies.append(await child.advance(settle))
        return await child.hang()

    bench.children(lose_sight)
    with trio.fail_after(60):
        run_id = await bench.create_with_effect("mail.send", "manual")
        assert await bench.owner(run_id).run()
    assert [reply["outcome"] for reply in replies] == ["claimLost"]
    run, queued = bench.run_row(run_id), bench.queue_row(run_id)
    assert (run.status, run.finished_at) == (RunStatus.WAITING, None)
    assert (queued.status, queued.error_code) == (QueueStatus.PARKED, "effectAmbiguous")
    assert bench.rows(WORKERS) == [("cancelled", None, "15", 1)]


async def test_child_given_up_for_abandoned_code_is_replaced_at_once(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    async def abandon(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        await child.advance(child.finished("first"))
        return await child.leave("abandonedCode")

    bench.children(abandon, bench.working)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
        assert await bench.owner(run_id).run()
        assert trio.current_time() < 2
    assert bench.run_row(run_id).status is RunStatus.COMPLETED


async def test_run_that_nobody_may_claim_is_refused_by_the_command_itself(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    with trio.fail_after(60):
        run_id = await bench.create()
        await bench.alter("UPDATE runs SET paused = 1")
        identity = bench.services.identity
        with pytest.raises(NotClaimableError):
            await bench.services.store.do(claim_run, Permit(identity.host), run_id, identity.owner)
