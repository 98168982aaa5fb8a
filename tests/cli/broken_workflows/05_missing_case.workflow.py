"""One decision leads nowhere."""

from enum import StrEnum

from pi_workflows import Route, Workflow


class Next(StrEnum):
    again = "again"
    enough = "enough"


wf = Workflow("missing_case")


@wf.compute()
def judge() -> Route[Next]:
    return Route(route=Next.again)


wf.route(judge, {Next.again: judge})
workflow = wf.build(start=judge)
