"""A bracket is never closed."""

from pi_workflows import Workflow

wf = Workflow("syntax"


@wf.compute()
def work() -> int:
    return 1
