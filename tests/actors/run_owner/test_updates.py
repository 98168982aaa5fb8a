"""Updates of a running node: taken, limited, refused by name, and never queued."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.progress import progress_data
from pi_workflows.protocol.updates import BURST
from runtime.process import ExitStatus
from store import updates

if TYPE_CHECKING:
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock


async def publish(
    child: "RunnerEnd",
    data: JsonValue = None,
    *,
    update_type: str = "probe",
    key: str = "k",
    attempt: str | None = None,
) -> JsonObject:
    return await child.ask(
        "run.publishUpdate",
        {
            "attemptId": attempt or child.attempt("first"),
            "type": update_type,
            "key": key,
            "data": {} if data is None else data,
        },
    )


async def test_update_is_taken_and_what_follows_builds_on_it(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    replies: list[JsonObject] = []

    async def tell(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        for count in (1, 2):
            data = progress_data(completed=count, total=2, unit="file")
            replies.append(await publish(child, data, update_type="progress", key="overall"))
        await child.go_on(child.finished("first"), child.started("second"))
        await child.go_on(child.finished("second"), {"type": "finishRun", "status": "completed"})
        return await child.leave("finished")

    bench.children(tell)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    first, second = replies
    assert first["outcome"] == second["outcome"] == "accepted"
    assert isinstance(second["result"], dict)
    assert second["result"]["seq"] == second["revision"]
    (shown,) = bench.read(updates.current, run_id)
    assert shown["data"] == progress_data(completed=2, total=2, unit="file")
    assert bench.rows("SELECT status FROM runs") == [("completed",)]


async def test_update_beyond_the_burst_is_refused_and_a_second_brings_twenty_more(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Nothing is queued: what was refused never comes.

    Case: B63.
    """
    outcomes: list[str] = []
    errors: set[str] = set()

    async def flood(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        for pause in (0, 1):
            await trio.sleep(pause)
            for _ in range(BURST + 1):
                reply = await publish(child)
                outcomes.append(str(reply["outcome"]))
                errors.add(str(reply.get("error")))
        return await child.leave("stopped")

    bench.children(flood)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert outcomes[: BURST + 1] == ["accepted"] * BURST + ["rejected"]
    assert outcomes[BURST + 1 :].count("accepted") == 20
    assert [error.partition(":")[0] for error in errors - {"None"}] == ["UPDATE_RATE"]
    assert bench.rows("SELECT count(*) FROM workflow_updates") == [(BURST + 20,)]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"update_type": "Bad"}, "UPDATE_INVALID: its type"),
        ({"key": ""}, "UPDATE_INVALID: its key"),
        ({"data": [1]}, "UPDATE_INVALID: its data is an object"),
        ({"data": {"n": "x" * 70_000}}, "UPDATE_INVALID: its data has"),
        (
            {"update_type": "progress", "data": {"percent": 5}},
            "UPDATE_INVALID: its data is no progress",
        ),
        ({"attempt": "attempt-old"}, "UPDATE_REFUSED: the attempt has ended"),
    ],
    ids=str,
)
async def test_wrong_or_late_update_is_refused_by_name_and_the_node_goes_on(
    autojump_clock: Clock, bench: "Bench", fields: dict[str, str], error: str
) -> None:
    replies: list[JsonObject] = []

    async def tell(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        replies.append(await publish(child, **fields))
        replies.append(await child.ask("run.publishUpdate", {"type": "probe"}))
        replies.append(await publish(child))
        return await child.leave("stopped")

    bench.children(tell)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    refused, incomplete, fine = replies
    assert refused["outcome"] == "rejected"
    assert str(refused["error"]).startswith(error)
    assert str(incomplete["error"]).startswith("UPDATE_INVALID: it has exactly")
    assert fine["outcome"] == "accepted"


async def test_child_of_a_cancelled_run_is_told_that_it_owns_nothing(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Case: B64."""
    replies: list[JsonObject] = []

    async def tell(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        await bench.alter("UPDATE leases SET generation = generation + 1")
        replies.append(await publish(child))
        return ExitStatus(0, None)

    bench.children(tell)
    with trio.fail_after(60):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    assert replies[0]["outcome"] == "claimLost"
    assert bench.rows("SELECT count(*) FROM workflow_updates") == [(0,)]
