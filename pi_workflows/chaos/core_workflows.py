"""The workflow files of the core scenarios, as an author would write them."""

from typing import Final

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

from pi_workflows import Ctx, Workflow, manual

wf = Workflow("charge")


@wf.compute()
def price() -> int:
    return 1


@wf.action(effect=manual("card.charge"))
def charge(ctx: Ctx[None]) -> int:
    return ctx.output(price) + 1


@wf.compute()
def receipt(ctx: Ctx[None]) -> int:
    return ctx.output(charge) + 1


wf.edge(price, charge)
wf.edge(charge, receipt)
workflow = wf.build(start=price)
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

WORKFLOWS: Final = {"tally": TALLY, "charge": CHARGE, "patience": PATIENCE}
"""Source by name. Each completes with the output `OUTPUT`."""

OUTPUT: Final = 3
