"""Nobody drew the edge to the second node."""

from pi_workflows import Workflow

wf = Workflow("unreachable")


@wf.compute()
def first() -> int:
    return 1


@wf.compute()
def second() -> int:
    return 2


workflow = wf.build(start=first)
