"""It is built, under a name that nobody looks for."""

from pi_workflows import Workflow

wf = Workflow("no_binding")


@wf.compute()
def work() -> int:
    return 1


flow = wf.build(start=work)
