"""The workflow files of the core scenarios, as an author would write them."""

from typing import Final

from pi_workflows.chaos.seen import Seen
from pi_workflows.chaos.stage import Stage

TALLY: Final = '''"""Two numbers, one of them noted outside."""

from pi_workflows import Ctx, Workflow, idempotent

wf = Workflow("tally")


@wf.compute()
def first() -> int:
    return 1


@wf.action(effect=idempotent("note"))
def note(ctx: Ctx[None]) -> int:
    return ctx.output(first) + 1


@wf.compute()
async def last(ctx: Ctx[None]) -> int:
    return ctx.output(note) + 1


wf.edge(first, note)
wf.edge(note, last)
workflow = wf.build(start=first)
'''

CHARGE: Final = '''"""A manual effect between two numbers: nobody may charge twice."""

import trio

from pi_workflows import Ctx, Workflow, manual
from pi_workflows.chaos.outside import outside

wf = Workflow("charge")


@wf.compute()
def price() -> int:
    return 1


@wf.action(effect=manual("card.charge"))
async def charge(ctx: Ctx[None]) -> int:
    outside().apply(ctx.effect.key)
    await trio.sleep(1)
    return ctx.output(price) + 1


@wf.compute()
def receipt(ctx: Ctx[None]) -> int:
    return ctx.output(charge) + 1


wf.edge(price, charge)
wf.edge(charge, receipt)
workflow = wf.build(start=price)
'''

PARCEL: Final = '''"""An effect that can be looked for before it is sent again."""

import trio

from pi_workflows import Ctx, Observation, Workflow, absent, applied, observe
from pi_workflows.chaos.outside import outside

wf = Workflow("parcel")


def look(ctx: Ctx[None]) -> Observation[int]:
    return applied(2) if outside().has(ctx.effect.key) else absent()


@wf.compute()
def pack() -> int:
    return 1


@wf.action(effect=observe("parcel.send", look))
async def send(ctx: Ctx[None]) -> int:
    outside().apply(ctx.effect.key)
    ctx.progress(label="on its way")
    await trio.sleep(1)
    return ctx.output(pack) + 1


@wf.compute()
def delivered(ctx: Ctx[None]) -> int:
    return ctx.output(send) + 1


wf.edge(pack, send)
wf.edge(send, delivered)
workflow = wf.build(start=pack)
'''

PATIENCE: Final = '''"""A step that is given half a second, tried until it is quick enough."""

from pi_workflows import Ctx, Workflow

wf = Workflow("patience")


@wf.compute(timeout=0.5)
def hurry() -> int:
    return 2


@wf.compute()
def breathe(ctx: Ctx[None]) -> int:
    return ctx.visit


@wf.compute()
def done(ctx: Ctx[None]) -> int:
    return ctx.output(hurry) + 1


wf.on_outcome(hurry, ok=done, timed_out=breathe)
wf.edge(breathe, hurry)
workflow = wf.build(start=hurry)
'''

STUBBORN: Final = '''"""A node that fails twice before it answers."""

from pi_workflows import Ctx, Retry, Workflow

wf = Workflow("stubborn")


@wf.compute(retry=Retry(attempts=4, backoff=1.5))
def third_time(ctx: Ctx[None]) -> int:
    if ctx.attempt < 3:
        raise RuntimeError("not yet")
    return 2


@wf.compute()
def done(ctx: Ctx[None]) -> int:
    return ctx.output(third_time) + 1


wf.edge(third_time, done)
workflow = wf.build(start=third_time)
'''

WORKFLOWS: Final = {
    "tally": TALLY,
    "charge": CHARGE,
    "parcel": PARCEL,
    "patience": PATIENCE,
    "stubborn": STUBBORN,
}
"""Source by name. Each completes with the output `OUTPUT`."""

OUTPUT: Final = 3


def core_workflows(s: Stage) -> None:
    """Have all of them on a stage."""
    for name, text in WORKFLOWS.items():
        s.source(name, text)


def all_added_up(seen: Seen) -> None:
    """Every run that has completed has done so with the right output."""
    for run in seen.runs:
        assert run.status != "completed" or run.output == OUTPUT, (
            f"{run.run_id} completed with {run.output}"
        )


def no_node_failed(seen: Seen) -> None:
    """Whatever became of children and claims: no node has failed by it."""
    failed = [event.resource_id for event in seen.events("node_failed")]
    assert not failed, f"P4: nodes of these have failed: {failed}"
