"""Resumes, updates and presentations in one loop, in many orders.

A simulation runs under trio's MockClock: its pauses take no time.
"""

from typing import Any, Final, cast

import pytest
import trio

from pi_workflows.chaos.installation import Installation
from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.simulate import simulate
from pi_workflows.chaos.simulated_client import SimulatedClient
from pi_workflows.chaos.simulated_world import SimulatedWorld
from pi_workflows.client.errors import Refused

TELLING: Final = """
from pi_workflows import Ctx, Workflow, idempotent

wf = Workflow("telling", presentation_prompt=lambda given, output: f"Say {output}.")

@wf.action(effect=idempotent("tell"))
def tell(ctx: Ctx[None]) -> int:
    for done in range(4):
        ctx.progress(completed=done, total=3, unit="part")
    ctx.publish_update("try", str(ctx.effect.attempt_number), {})
    return 1

@wf.action(effect=idempotent("then"))
def then(ctx: Ctx[None]) -> int:
    ctx.publish_update("try", "then", {})
    return 2

wf.edge(tell, then)
workflow = wf.build(start=tell)
"""
INSTALLATION: Final = Installation(workflows={"telling": TELLING}, capacity=1)

SEEDS: Final = 8


async def kill_a_runner(world: SimulatedWorld) -> None:
    """Kill the next runner as soon as it is there."""
    for _ in range(10_000):
        await trio.sleep(0.01)
        if world.runners():
            world.machine.kill(world.runners()[0])
            await trio.sleep(0.01)
            return
    raise InvariantBroken("no runner comes any more")


async def state_of(client: SimulatedClient, run_id: str) -> dict[str, Any]:
    receipt = (await client.call("run.status", run_id=run_id)).receipt
    return cast("dict[str, Any]", receipt["state"])


async def park_by_deaths(world: SimulatedWorld, client: SimulatedClient, run_id: str) -> None:
    for _ in range(3):
        await kill_a_runner(world)
    for _ in range(1_000):
        await trio.sleep(0.1)
        if (await state_of(client, run_id))["display"].get("code") == "runnerNoProgress":
            return
    raise InvariantBroken("three deaths have not parked the run")


async def tells_and_dies(world: SimulatedWorld) -> None:
    """A runner dies somewhere; what its successor says replaces what it said itself."""
    server, client = world.start_server(), world.client()
    run_id = await world.start_run(client, "telling")
    await trio.sleep(world.chance.random() * 3)
    if world.runners():
        world.machine.kill(world.runners()[0])
    await world.await_end(client, run_id)
    await trio.sleep(60)  # The presentation comes after the end.
    state = await state_of(client, run_id)
    updates = {it["key"]: it["data"] for it in state["updates"]}
    if state["status"] != "completed" or updates["overall"]["completed"] != 3:
        raise InvariantBroken(f"it is {state['status']}, with {updates}")
    if state.get("presentationPrompt") not in {"Say 2.", None}:
        raise InvariantBroken(f"presented as {state['presentationPrompt']}")
    await server.stop()


async def ask(world: SimulatedWorld, operation: str, run_id: str, answers: list[str]) -> None:
    client = world.client()
    await trio.sleep(world.chance.random() * 0.05)
    try:
        receipt = (await client.call(operation, {}, run_id=run_id)).receipt
    except Refused as refused:
        answers.append(refused.code)
    else:
        answers.append(str(receipt["verdict"]))


async def resumed_and_cancelled(world: SimulatedWorld) -> None:
    """Parked after three deaths, then three resumes and perhaps a cancel in any order."""
    server, client = world.start_server(), world.client()
    run_id = await world.start_run(client, "telling")
    await park_by_deaths(world, client, run_id)
    answers: list[str] = []
    cancels = world.chance.random() < 0.5
    async with trio.open_nursery() as nursery:
        for operation in ["run.resume"] * 3 + ["run.cancel"] * cancels:
            nursery.start_soon(ask, world, operation, run_id, answers)
    view = await world.await_end(client, run_id)
    status = cast("dict[str, Any]", view["display"])["status"]
    if status != ("cancelled" if "won" in answers else "completed"):
        raise InvariantBroken(f"it is {status} after {answers}")
    if not cancels and not {"resumable"} <= set(answers) <= {"resumable", "alreadyRunning"}:
        raise InvariantBroken(f"resumes were told {answers}")
    await server.stop()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_updates_and_presentation_hold_in_this_order(seed: int) -> None:
    simulated = simulate(tells_and_dies, seed, INSTALLATION)
    published = [what for _, who, what, _ in simulated.trace.entries if what == "update_published"]
    assert len(published) >= 6


@pytest.mark.parametrize("seed", range(SEEDS))
def test_resumes_and_a_cancel_hold_in_this_order(seed: int) -> None:
    """However they fall, one resume moves the run, or none when the cancel came first."""
    simulated = simulate(resumed_and_cancelled, seed, INSTALLATION)
    events = [what for _, who, what, _ in simulated.trace.entries if who == "database"]
    assert events.count("run.resume_requested") <= 1
    assert events.count("run.worker_no_progress") == 1
