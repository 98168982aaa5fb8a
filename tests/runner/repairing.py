"""A child that repairs and a parent that lets it, for tests of the engine loop."""

from typing import Any

from pydantic import BaseModel

from pi_workflows import Ctx, Definition, Exit, Route, Workflow, idempotent
from tests.authoring.test_graph import Next


class RepairIn(BaseModel):
    issue: str
    tries: int = 2


class Repair(BaseModel):
    """What the child carries out."""

    issue: str
    visits: int
    seen: list[str]


def child(*, max_steps: int = 100) -> tuple[Definition[RepairIn], Exit[Repair], Exit[str]]:
    """`repair` loops until it has tried often enough, then says what it saw of its world."""
    wf = Workflow("repair", input=RepairIn, max_steps=max_steps)

    @wf.compute()
    def attempt(ctx: Ctx[RepairIn]) -> Route[Next]:
        if ctx.visit == 1:
            assert [ctx.result(node) for node in (attempt, tool, summary)] == [None] * 3
            assert ctx.get(summary) is None
        done = ctx.visit >= ctx.input.tries
        return Route(route=Next.enough if done else Next.again)

    @wf.action(effect=idempotent("repair.tool"))
    def tool(ctx: Ctx[RepairIn]) -> str:
        return ctx.effect.key

    @wf.compute()
    def summary(ctx: Ctx[RepairIn]) -> Repair:
        seen = [name for name, node in (("attempt", attempt), ("tool", tool)) if ctx.result(node)]
        before = ctx.result(attempt)
        assert before is not None
        assert before.node_id == "attempt"
        return Repair(issue=ctx.input.issue, visits=ctx.visit, seen=seen)

    @wf.compute()
    def never() -> str:
        return ""

    wf.route(attempt, {Next.again: tool, Next.enough: summary})
    wf.on_outcome(tool, ok=attempt, failed=never)
    fixed = wf.exit("fixed", summary)
    blocked = wf.exit("blocked", never, validate=str.upper)
    return wf.build(start=attempt), fixed, blocked


def parent(*, rounds: int = 1, child_steps: int = 100, max_steps: int = 100) -> Definition[Any]:
    """`look`, then the child `rounds` times, then `report`."""
    built, fixed, blocked = child(max_steps=child_steps)
    wf = Workflow("parent", max_steps=max_steps)

    @wf.compute()
    def look(ctx: Ctx[Any]) -> str:
        return f"bug {ctx.visit}"

    def given(ctx: Ctx[Any]) -> RepairIn:
        return RepairIn(issue=ctx.output(look), tries=ctx.input or 2)

    fix = wf.include("fix", built, input=given)

    @wf.compute()
    def judge(ctx: Ctx[Any]) -> Route[Next]:
        return Route(route=Next.again if ctx.visit < rounds else Next.enough)

    @wf.compute()
    def report(ctx: Ctx[Any]) -> list[Any]:
        left = ctx.exited(fix, fixed)
        result = ctx.result(fix)
        assert result is not None
        assert ctx.exited(fix, blocked) is None
        return [left and left.model_dump(), result.node_id, ctx.get(look)]

    wf.edge(look, fix)
    wf.edge(fix[fixed], judge)
    wf.edge(fix[blocked], report)
    wf.route(judge, {Next.again: look, Next.enough: report})
    return wf.build(start=look)
