"""It includes a built-in that does not exist."""

from pi_workflows import Workflow

wf = Workflow("unknown_child")


@wf.compute()
def look() -> int:
    return 1


child = wf.include("child", "builtin:monitr")
wf.edge(look, child)
workflow = wf.build(start=look)
