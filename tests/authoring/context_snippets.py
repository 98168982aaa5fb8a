"""Workflows whose nodes take contexts, for `test_typing`: mypy reports the marked lines."""

from typing import Final

CONTEXT_SNIPPETS: Final = {
    "context_of_another_input": """
@wf.compute()  # error: arg-type
def use(ctx: Ctx[Elsewhere]) -> int:
    return 1

@wf.shell(effect=manual("x"))  # error: arg-type
def run(ctx: Ctx[Elsewhere]) -> Command:
    return Command("true")
""",
    "context_of_a_workflow_without_input": """
bare = Workflow("bare")
@bare.compute()
def nothing(ctx: Ctx[None]) -> int:
    return 1
@bare.compute()
def anything(ctx: Ctx[Any]) -> int:
    return len(ctx.input)
@bare.compute()
def whatever(ctx: Ctx[object]) -> int:
    return 1
@bare.compute()  # error: arg-type
def number(ctx: Ctx[int]) -> int:
    return ctx.input
@bare.compute()  # error: arg-type
def tuned(ctx: Ctx[None, Tune]) -> int:
    return 1
""",
    "context_of_other_settings": """
class Unrelated(BaseModel):
    lane: int = 1
tuned = Workflow("tuned", input=In, settings=Settings(Tune, initial=Tune()))
@tuned.settings_route()
def pick(ctx: Ctx[In, Tune]) -> Route[Next]:
    return Route(route=ctx.settings.lane)
@tuned.compute(timeout=lambda ctx: len(ctx.settings.lane))
def unread(ctx: Ctx[In]) -> int:
    return 1
@tuned.compute()  # error: arg-type
def other(ctx: Ctx[In, Unrelated]) -> int:
    return ctx.settings.lane
@tuned.shell(effect=manual("x"))  # error: arg-type
def run(ctx: Ctx[In, Unrelated]) -> Command:
    return Command("true")
@tuned.compute(timeout=lambda ctx: ctx.settings.nope)  # error: attr-defined
def late() -> int:
    return 1
alone = Workflow("alone", settings=Settings(Tune, initial=Tune()))
@alone.compute()
def mine(ctx: Ctx[None, Tune]) -> str:
    return ctx.settings.lane
@alone.agent(output=Elsewhere)  # error: arg-type
def prompt(ctx: Ctx[None, Unrelated]) -> str:
    return "x"
""",
}
