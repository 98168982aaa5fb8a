"""It includes itself."""

from pi_workflows import Workflow

wf = Workflow("cycle")


@wf.compute()
def look() -> int:
    return 1


again = wf.include("again", "./08_cycle.workflow.py")
wf.edge(look, again)
workflow = wf.build(start=look)
