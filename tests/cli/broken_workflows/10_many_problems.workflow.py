"""Four mistakes, all told at once."""

from pi_workflows import Command, Workflow, idempotent

wf = Workflow("status", max_steps=0)


@wf.compute(timeout=-1)
def first() -> int:
    return 1


@wf.shell(effect=idempotent(""))
def second() -> Command:
    return Command("true")


wf.edge(first, second)
workflow = wf.build(start=first)
