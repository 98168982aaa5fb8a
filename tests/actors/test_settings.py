"""Settings through the server: a run whose chain of changes is broken does not go on."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from typing import TYPE_CHECKING, Final

import trio
import trio.testing

from actors.services import CONTROL
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.ids import RunId
from pi_workflows.protocol.sources import SourceIdentity, SourceKind
from pi_workflows.protocol.states import ActorType, ParkReason, WorkerStatus
from runtime.process import ExitStatus
from store import projection, settings_changing
from store.authority import Permit
from store.blobs import Blob
from store.resources import Actor
from store.run_creation import NewRun, create_run
from store.settings_changing import NewChange

if TYPE_CHECKING:
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock

RULES: Final[JsonObject] = {"paths": [{"path": "", "replace": ["human"]}]}
GRAPH: Final[JsonObject] = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": "tally",
    "startAt": "first",
    "maxSteps": 9,
    "nodes": [{"id": "first", "type": "compute"}],
    "edges": [],
    "mounts": [],
    "settings": RULES,
}
PATCH: Final[JsonValue] = [{"op": "replace", "path": "", "value": 2}]


async def create(bench: "Bench", run_id: str = "run-1") -> RunId:
    """Reserve a run with settings."""
    new = NewRun(
        run_id=RunId(run_id),
        workflow_name="tally",
        workflow_ref="tally",
        project_path="/projects/one",
        source=SourceIdentity(SourceKind.FILE, "/projects/one/tally.workflow.py", "ab" * 32),
        snapshot=Blob.of_json(GRAPH),
        run_input=Blob.of_json(None),
        launch_options=Blob.of_json({}),
        title=None,
        origin_session_id=None,
        settings=Blob.of_json(1),
    )
    await bench.services.store.do(create_run, Permit(CONTROL), new)
    return new.run_id


async def change(bench: "Bench", run_id: RunId, number: int) -> None:
    wanted = NewChange(
        run_id, None, f"r{number}", "cli", Blob.of_json(PATCH), number - 1, Blob.of_json(2)
    )
    permit = Permit(Actor(ActorType.HUMAN))
    await bench.services.store.do(settings_changing.change_settings, permit, wanted)


async def greet(child: "RunnerEnd") -> ExitStatus:
    """Say hello, hear the answer, and leave as the engine does after a refusal."""
    await child.launch()
    reply = await child.ask("runner.ready")
    if reply["outcome"] == "accepted":
        return await child.hang()
    assert "run-1:$root:1" in str(reply["error"])
    return await child.leave("rejected")


async def test_a_tampered_change_stops_the_resume(autojump_clock: Clock, bench: "Bench") -> None:
    """The runner is not told to go on; the run waits for a person, who is told what was found.

    Case: B77.
    """
    run_id = await create(bench)
    bench.children(greet)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.owner(run_id).run)
        await trio.sleep(1)
        for number in range(1, 40):
            await change(bench, run_id, number)
        nursery.cancel_scope.cancel()
    await bench.alter(
        "UPDATE workflow_setting_changes SET patch_hash = (SELECT initial_hash FROM"
        " workflow_settings) WHERE change_number = 37"
    )
    assert await bench.owner(run_id).run()
    assert bench.queue_row(run_id).error_code == ParkReason.SETTINGS_BROKEN
    outcomes = bench.rows("SELECT status FROM run_workers ORDER BY generation DESC LIMIT 1")
    assert outcomes == [(WorkerStatus.EXITED,)]
    display = bench.read(projection.run_state, run_id)["display"]
    assert isinstance(display, dict)
    assert display["code"] == "settingsChainBroken"
    assert str(display["reason"]).startswith("change 37 of the settings run-1:$root:1")


async def test_a_sound_chain_of_changes_lets_the_run_go_on(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    run_id = await create(bench)
    bench.children(greet)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.owner(run_id).run)
        await trio.sleep(1)
        for number in range(1, 33):
            await change(bench, run_id, number)
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.owner(run_id).run)
        await trio.sleep(1)
        assert bench.rows("SELECT status FROM run_queue") == [("running",)]
        nursery.cancel_scope.cancel()
