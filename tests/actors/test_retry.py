"""A declared retry that waits: the child leaves, nothing sleeps, the scheduler comes back."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING, cast

import trio
import trio.testing

from actors.scheduler import Scheduler
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import ParkReason, RunStatus
from runtime.process import ExitStatus
from runtime.supervisor import Supervisor, TaskFailure
from store.projection import run_state

if TYPE_CHECKING:
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock

SNAPSHOT: JsonObject = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "tally",
    "startAt": "first",
    "maxSteps": 20,
    "nodes": [
        {
            "id": "first",
            "type": "compute",
            "retry": {
                "attempts": 6,
                "backoffMs": 100_000,
                "factor": 2,
                "maxBackoffMs": 3_600_000,
                "outcomes": ["failed"],
            },
        },
        {"id": "second", "type": "compute"},
    ],
    "edges": [{"from": "first", "to": "second"}],
    "mounts": [],
    "settings": None,
}
SUCCEEDS_AFTER = 5


async def flaky(child: "RunnerEnd") -> ExitStatus:
    """Fail until the try that succeeds; go by what the server says of earlier ones."""
    boundary = cast("JsonObject", (await child.ready())["boundary"])
    failed = cast("int", boundary.get("failedTries", 0))
    await child.go_on(child.started("first"))
    if failed < SUCCEEDS_AFTER:
        ended: JsonObject = {
            "type": "finishAttempt",
            "attemptId": child.attempt("first"),
            "nodeId": "first",
            "outcome": "failed",
            "error": f"no, not at try {failed + 1}",
            "retry": True,
        }
        await child.go_on(ended)
        raise AssertionError("a child whose run is parked is told so")
    await child.go_on(child.finished("first"), child.started("second"))
    await child.go_on(child.finished("second"), {"type": "finishRun", "status": "completed"})
    return await child.leave("finished")


async def test_backoff_parks_the_run_and_the_exact_timer_admits_it_again(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Five waits, doubled each time, are no deaths: the run completes at exactly their sum.

    Case: D18.
    """
    bench.children(flaky)
    failures: list[TaskFailure] = []
    supervised = Supervisor(randomness=bench.world.randomness, on_failure=failures.append)
    async with supervised as owners, trio.open_nursery() as nursery:
        await nursery.start(Scheduler(bench.services, owners).run)
        with trio.fail_after(10_000):
            run_id = await bench.create(snapshot=SNAPSHOT)
            await trio.sleep(50)
            parked = bench.queue_row(run_id)
            assert parked.error_code == ParkReason.RETRY_BACKOFF
            assert parked.consecutive_errors == 0
            shown = bench.read(run_state, run_id)
            assert shown["display"] == {
                "status": "queued",
                "retryAt": cast("JsonObject", shown["retrying"])["nextTryAt"],
                "controls": ["pause", "cancel", "resume"],
            }
            between = cast("JsonObject", shown["retrying"])
            assert (between["nodeId"], between["failedTries"]) == ("first", 1)
            assert between["error"] == "no, not at try 1"
            await trio.sleep(3_049)
            assert len(bench.spawner.spawned) == SUCCEEDS_AFTER
            await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert failures == []
    assert bench.run_row(run_id).status is RunStatus.COMPLETED
    steps = cast("list[JsonObject]", bench.read(run_state, run_id)["steps"])
    assert [step.get("failedTries") for step in steps] == [SUCCEEDS_AFTER, None]
    ends = {status for (status,) in bench.rows("SELECT status FROM run_workers")}
    assert ends == {"cancelled", "exited"}, "a child that is sent away has not crashed"
