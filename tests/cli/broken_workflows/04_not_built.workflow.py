"""It was never built."""

from pi_workflows import Workflow

workflow = Workflow("not_built")


@workflow.compute()
def work() -> int:
    return 1
