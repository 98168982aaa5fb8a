"""Every way in which a runner can end, with its outcome and its class; none stands for another."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
import trio
import trio.testing

from pi_workflows.protocol.states import RunStatus, WorkerStatus
from runtime.process import ExitStatus

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock
Script = Callable[["RunnerEnd", "Bench"], Awaitable[ExitStatus]]

STOPPED: Final = (None, "15")


async def finish(child: "RunnerEnd") -> None:
    """Take the run to its end, without a goodbye."""
    await child.ready()
    await child.go_on(child.started("first"))
    await child.go_on(child.finished("first"), child.started("second"))
    await child.go_on(child.finished("second"), {"type": "finishRun", "status": "completed"})


async def well(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await finish(child)
    return await child.leave("finished")


async def failing(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.ready()
    await child.go_on(child.started("first"))
    failed: JsonObject = {
        **child.finished("first"),
        "outcome": "failed",
        "error": "no",
    }
    del failed["output"]
    end: JsonObject = {"type": "finishRun", "status": "failed", "error": "no"}
    await child.go_on(failed, end)
    return await child.leave("finished")


async def without_goodbye(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await finish(child)
    return ExitStatus(0, None)


async def goodbye_and_crash(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await finish(child)
    await child.leave("finished")
    return ExitStatus(7, None)


async def lingering(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await finish(child)
    return await child.hang()


async def silent(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    return await child.hang()


async def leaving_by_0(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.ready()
    return ExitStatus(0, None)


async def killed(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.ready()
    return ExitStatus(None, 9)


async def stopped_by_a_stranger(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.ready()
    return await child.leave("stopped")


async def not_loading(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.launch()
    return await child.leave("failed")


async def source_changed(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.launch()
    await child.ask("run.park", {"reason": "workflowSourceChanged", "detail": "it differs"})
    return await child.leave("parked")


async def babbling(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.ready()
    await child.lines.send(b'{"a": 1}\n')
    return await child.hang()


async def refused(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.ready()
    reply = await child.advance(child.started("second"))
    assert reply["outcome"] == "rejected"
    return await child.leave("rejected")


async def boasting(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.ready()
    return await child.leave("finished")


async def robbed(child: "RunnerEnd", bench: "Bench") -> ExitStatus:
    await child.ready()
    await bench.alter("UPDATE leases SET generation = generation + 1")
    await child.advance(child.started("first"))
    return ExitStatus(3, None)


async def stale(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.ready()
    await child.send({**child.frame("runner.progress", {}), "generation": 99})
    return ExitStatus(3, None)


async def out_of_sight(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.ready()
    await child.go_on(child.started("first"))
    await child.go_on(child.finished("first"), child.started("second", node_type="action"))
    grant = child.granted(await child.advance(child.reserve("second", "mail.send", "manual")))
    await child.advance(child.settled(grant, "ambiguous"))
    return ExitStatus(3, None)


async def abandoning(child: "RunnerEnd", _: "Bench") -> ExitStatus:
    await child.ready()
    await child.go_on(child.started("first"))
    await child.go_on(child.finished("first"))
    return await child.leave("abandonedCode")


@dataclass(frozen=True)
class End:
    """What a script has to end as.

    Attributes:
        parked: the class with which the run is parked; None when it is over or another's.
    """

    script: Script
    outcome: WorkerStatus
    exit: tuple[int | None, str | None]
    parked: str | None
    run: RunStatus = RunStatus.RUNNING


ENDS: Final = {
    "finished": End(well, WorkerStatus.EXITED, (0, None), None, RunStatus.COMPLETED),
    "nodeFailed": End(failing, WorkerStatus.EXITED, (0, None), None, RunStatus.FAILED),
    "no goodbye": End(without_goodbye, WorkerStatus.CRASHED, (0, None), None, RunStatus.COMPLETED),
    "goodbye and crash": End(
        goodbye_and_crash, WorkerStatus.CRASHED, (7, None), None, RunStatus.COMPLETED
    ),
    "lingering": End(lingering, WorkerStatus.CANCELLED, STOPPED, None, RunStatus.COMPLETED),
    "no hello": End(silent, WorkerStatus.TIMED_OUT, STOPPED, "runnerTimedOut"),
    "left by 0": End(leaving_by_0, WorkerStatus.CRASHED, (0, None), "runnerCrashed"),
    "killed": End(killed, WorkerStatus.CRASHED, (None, "9"), "runnerCrashed"),
    "stopped by a stranger": End(
        stopped_by_a_stranger, WorkerStatus.CRASHED, (0, None), "runnerCrashed"
    ),
    "not loading": End(not_loading, WorkerStatus.CRASHED, (0, None), "runnerCrashed"),
    "changed source": End(source_changed, WorkerStatus.EXITED, (0, None), "workflowSourceChanged"),
    "no frame": End(babbling, WorkerStatus.CRASHED, STOPPED, "protocolRejected"),
    "refused": End(refused, WorkerStatus.CRASHED, (0, None), "protocolRejected"),
    "boasting": End(boasting, WorkerStatus.CRASHED, (0, None), "protocolRejected"),
    "robbed": End(robbed, WorkerStatus.CLAIM_LOST, (3, None), None),
    "stale": End(stale, WorkerStatus.CLAIM_LOST, (3, None), "handoff"),
    "out of sight": End(
        out_of_sight, WorkerStatus.CANCELLED, (3, None), "effectAmbiguous", RunStatus.WAITING
    ),
    "abandoned code": End(abandoning, WorkerStatus.EXITED, (0, None), "handoff"),
}


async def outcome_of(bench: "Bench") -> tuple[object, ...]:
    (row,) = bench.rows("SELECT status, exit_code, signal FROM run_workers")
    return row


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_each_end_has_its_outcome_and_its_class(
    autojump_clock: Clock, bench: "Bench", end: End
) -> None:
    """Case: C32, C33, C41, C54."""

    async def follow(child: "RunnerEnd") -> ExitStatus:
        return await end.script(child, bench)

    bench.children(follow)
    with trio.fail_after(60):
        if end.script is out_of_sight:
            run_id = await bench.create_with_effect("mail.send", "manual")
        else:
            run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert await outcome_of(bench) == (end.outcome.value, *end.exit)
    assert bench.run_row(run_id).status is end.run
    assert bench.queue_row(run_id).error_code == end.parked


async def test_stop_of_the_server_is_a_handoff_and_no_crash(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    bench.children(bench.idling)
    with trio.fail_after(60):
        run_id = await bench.create()
        with trio.move_on_after(3):
            await bench.owner(run_id).run()
    assert await outcome_of(bench) == ("cancelled", *STOPPED)
    assert bench.queue_row(run_id).error_code == "handoff"


async def test_third_death_in_a_row_is_no_progress_whatever_the_deaths_were(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Case: C41."""
    scripts = [silent, babbling, killed]

    async def follow(child: "RunnerEnd") -> ExitStatus:
        return await scripts.pop(0)(child, bench)

    bench.children(follow)
    seen = []
    with trio.fail_after(600):
        run_id = await bench.create()
        for delay_s in (1, 2, 0):
            assert await bench.owner(run_id).run()
            seen.append(bench.queue_row(run_id).error_code)
            assert not await bench.owner(run_id).run(), "it is not due before its delay"
            await trio.sleep(delay_s)
    assert seen == ["runnerTimedOut", "protocolRejected", "runnerNoProgress"]
