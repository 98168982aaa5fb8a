"""What mypy makes of workflows: good ones pass, mistakes are reported at their line.

All snippets, and the examples, go through one run of mypy. A line that must be reported ends in
`# error: <code>`. The eight mistakes that a type checker has to find in a workflow are
`unknown_attribute_of_an_output`, `wrong_return_type`, `case_of_another_enum`,
`route_on_a_node_without_one`, `mapper_of_the_wrong_type`, `default_choice_of_another_enum`,
`text_as_target` and `context_of_another_input`.
"""

import re
from pathlib import Path
from typing import Final

import pytest
from mypy import api

from tests.authoring.context_snippets import CONTEXT_SNIPPETS

ROOT: Final = Path(__file__).parents[2]

HEAD: Final = """
from datetime import timedelta
from enum import StrEnum
from typing import Any
from pydantic import BaseModel
from pi_workflows import (
    After, Card, Choices, Command, Ctx, HumanAnswer, Node, Notified, Route, ShellResult,
    Settings, StepResult, Workflow, choice, idempotent, manual, text_input,
)

class In(BaseModel):
    text: str
    numbers: list[int]

class Elsewhere(BaseModel):
    text: str

class Next(StrEnum):
    again = "again"
    enough = "enough"

class Other(StrEnum):
    again = "again"

class Tune(BaseModel):
    lane: Next = Next.again

class Noted(Route[Next]):
    note: str

wf = Workflow("flow", input=In, title=lambda i: f"of {i.text}")

@wf.compute(timeout=60)
async def fan(ctx: Ctx[In]) -> list[int]:
    return [number + ctx.visit for number in ctx.input.numbers]

@wf.compute(timeout=lambda ctx: len(ctx.input.numbers))
def judge(ctx: Ctx[In]) -> Route[Next]:
    return Route(route=Next.enough if sum(ctx.output(fan)) > 3 else Next.again)

@wf.compute()
def total() -> int:
    return 1
"""

SNIPPETS: Final = {
    "good": """
a: Node[list[int]] = fan
b: Node[Route[Next]] = judge
c: Node[int] = total

def parse(result: ShellResult) -> int:
    return len(result.stdout)

@wf.shell(effect=idempotent("x"), parse=lambda r: r.stdout.strip(), timeout=timedelta(minutes=1))
def say(ctx: Ctx[In]) -> Command:
    return Command("printf", args=["%s", ctx.input.text])
d: Node[str] = say

@wf.shell(effect=manual("x"), parse=parse, timeout=None)
async def counted() -> Command:
    return Command("true")
e: Node[int] = counted

@wf.shell(effect=manual("x"))
def raw() -> Command:
    return Command("true")
f: Node[ShellResult] = raw

@wf.action(effect=idempotent("x"), request=lambda ctx: ctx.input.text)
async def act(ctx: Ctx[In]) -> str:
    before: int | None = ctx.get(total)
    result: StepResult | None = ctx.result(say)
    return f"{ctx.output(say).upper()} {before} {result} {ctx.effect.key}"
g: Node[str] = act

@wf.compute()
def noted() -> Noted:
    return Noted(route=Next.again, note="x")

wf.edge(fan, judge)
wf.route(judge, {Next.again: fan, Next.enough: total})
wf.route(noted, {Next.again: fan, Next.enough: total})
wf.switch(total, "$", {1: fan, "a": judge, True: total, Next.again: say})
wf.on_outcome(say, ok=counted, failed=raw, timed_out=act)
workflow = wf.build(start=fan)
name: str = workflow.name

untyped = Workflow("untyped", title=lambda i, name: name)
@untyped.compute()
def anything(ctx: Ctx[Any]) -> int:
    return len(ctx.input)

listed = Workflow("listed", input=list[int])
@listed.compute()
def first(ctx: Ctx[list[int]]) -> int:
    return ctx.input[0]
""",
    "composition": """
class RepairIn(BaseModel):
    issue: str

rf = Workflow("repair", input=RepairIn, source=__file__)

@rf.compute()
def summary(ctx: Ctx[RepairIn]) -> str:
    return ctx.input.issue
@rf.compute()
def reason() -> Route[Next]:
    return Route(route=Next.again)
rf.on_outcome(summary, ok=reason)
FIXED = rf.exit("fixed", summary, validate=lambda text: text.strip())
BLOCKED = rf.exit("blocked", reason)
repair = rf.build(start=summary)

@wf.compute()
def look(ctx: Ctx[In]) -> str:
    return f"{ctx.input.text} is broken"

fix = wf.include("fix", repair, input=lambda ctx: RepairIn(issue=ctx.output(look)))
def given(ctx: Ctx[In]) -> RepairIn:
    return RepairIn(issue=ctx.input.text)
named = wf.include("named", "repair", input=given, contract=repair)
loose = wf.include("loose", "builtin:monitor", input=lambda ctx: {"text": ctx.input.text})
alone = wf.include("alone", repair)

@wf.compute()
def report(ctx: Ctx[In]) -> str:
    entered: StepResult | None = ctx.result(fix)
    return ctx.exited(fix, FIXED) or f"still broken {entered}"

wf.edge(look, fix)
wf.edge(fix[FIXED], report)
wf.edge(loose["done"], alone)
wf.route(fix[BLOCKED], {Next.again: fix, Next.enough: report})
wf.switch(fix[FIXED], "$.output", {"x": fix})
wf.exit("over", fix[FIXED])
workflow = wf.build(start=look)
""",
    "conversation": """
class Say(StrEnum):
    go = "go"
    stop = "stop"
    replan = "replan"

answers = Choices(Say, {Say.go: choice("Go ahead"), Say.stop: choice("Stop here"),
    Say.replan: choice("Change it", text_input("notes", "What should change?"))})

@wf.compute()
def draft(ctx: Ctx[In]) -> str:
    before = ctx.get(ask)
    return ctx.input.text if before is None else before.input["notes"]

@wf.human(audience="operator", choices=answers,
          on_timeout=After(timedelta(minutes=10), Say.go))
def ask(ctx: Ctx[In]) -> Card:
    plan = ctx.output(draft)
    return Card(title="Run this plan?", subject={"plan": plan}, summary=plan)

@wf.compute()
def done(ctx: Ctx[In]) -> str:
    return f"{ctx.output(ask).choice}: {ctx.output(draft)}"

wf.edge(draft, ask)
wf.route(ask, {Say.go: done, Say.stop: done, Say.replan: draft})
a: Node[HumanAnswer[Say]] = ask

@wf.agent(output=Elsewhere, validate=lambda given: given, allowed_tools=["read"])
async def look(ctx: Ctx[In]) -> str:
    return ctx.input.text
b: Node[Elsewhere] = look

@wf.agent()
def loose() -> str:
    return "x"
c: Node[Any] = loose

@wf.choose(Next)
def pick(ctx: Ctx[In]) -> str:
    return ctx.input.text
d: Node[Route[Next]] = pick
wf.route(pick, {Next.again: look, Next.enough: total})

@wf.assistant_message(max_chars=280)
def say() -> str:
    return "x"
e: Node[str] = say

@wf.checkpoint(summary="?", answer=Elsewhere)
def wait() -> None: ...
f: Node[Elsewhere] = wait

@wf.notify(kind="final")
def tell(ctx: Ctx[In]) -> str:
    return ctx.output(look).text
g: Node[Notified] = tell
wf.human(audience=lambda ctx: ctx.input.text, choices=answers)
""",
    "default_choice_of_another_enum": """
class Ask(StrEnum):
    go = "go"
asked = Choices(Ask, {Ask.go: choice("Go")})
@wf.human(audience="x", choices=asked, on_timeout=After(1, Other.again))  # error: misc
def ask() -> Card:
    return Card(title="x")
""",
    "choices_and_answers_of_another_kind": """
asked = Choices(Next, {Next.again: choice("x"), Next.enough: choice("y")})
@wf.human(audience="x", choices=asked)  # error: arg-type
def ask() -> str:
    return "x"
@wf.agent(output=Elsewhere)  # error: arg-type
def prompt() -> int:
    return 1
wf.agent(output=Elsewhere, validate=lambda given: given.nope)  # error: attr-defined
wf.assistant_message(validate=str.strip)  # error: arg-type
@wf.choose(Next)
def pick() -> str:
    return "x"
wf.route(pick, {Other.again: total})  # error: misc
""",
    "mapper_of_the_wrong_type": """
child = Workflow("child", input=Elsewhere)
@child.compute()
def one() -> int:
    return 1
done = child.exit("done", one)
built = child.build(start=one)
def wrong(ctx: Ctx[In]) -> str:
    return ctx.input.text
wf.include("a", built, input=wrong)  # error: arg-type
wf.include("b", built, input=lambda ctx: Elsewhere(text=ctx.input.nope))  # error: attr-defined
wf.include("c", "x", input=wrong, contract=built)  # error: arg-type
def elsewhere(ctx: Ctx[Elsewhere]) -> Elsewhere:
    return ctx.input
wf.include("d", built, input=elsewhere)  # error: arg-type
""",
    "mount_where_it_does_not_belong": """
child = Workflow("child")
@child.compute()
def one() -> int:
    return 1
done = child.exit("done", one)
child.exit("text", one, validate=str)  # error: arg-type
mount = wf.include("mount", child.build(start=one))
wf.edge(mount, total)  # error: arg-type
wf.edge(total, mount[done])  # error: arg-type
left = mount[done]
wf.route(left, {Next.again: total})  # error: arg-type
@wf.compute()
def use(ctx: Ctx[In]) -> str:
    carried = ctx.exited(mount, done)
    return carried  # error: return-value
""",
    "unknown_attribute_of_an_output": """
@wf.compute()
def use(ctx: Ctx[In]) -> int:
    print(ctx.output(total).nope)  # error: attr-defined
    return 1
""",
    "wrong_return_type": """
@wf.compute()
def use(ctx: Ctx[In]) -> str:
    return ctx.output(total)  # error: return-value
""",
    "wrong_route_member": """
@wf.compute()
def decide() -> Route[Next]:
    return Route(route=Other.again)  # error: arg-type
""",
    "unknown_input_field": """
@wf.compute()
def use(ctx: Ctx[In]) -> int:
    print(ctx.input.nope)  # error: attr-defined
    return 1
""",
    "case_of_another_enum": """
wf.route(judge, {Next.enough: total, Other.again: fan})  # error: misc
""",
    "route_on_a_node_without_one": """
wf.route(total, {Next.again: fan})  # error: arg-type
""",
    "text_as_target": """
wf.edge(fan, "judge")  # error: arg-type
wf.route(judge, {Next.again: "fan", Next.enough: total})  # error: dict-item
wf.switch(fan, "$.x", {"a": "b"})  # error: dict-item
wf.on_outcome(fan, ok="judge")  # error: arg-type
wf.build(start="fan")  # error: arg-type
""",
    "shell_that_returns_no_command": """
@wf.shell(effect=manual("x"))  # error: arg-type
def run(ctx: Ctx[In]) -> str:
    return "true"
""",
    "effect_that_is_a_text": """
@wf.action(effect="x")  # error: arg-type
def act() -> None: ...
""",
    "output_of_something_else": """
@wf.compute()
def use(ctx: Ctx[In]) -> int:
    return len(ctx.output("total"))  # error: arg-type
""",
}

EXAMPLES: Final = {
    path.name.removesuffix(".py").replace(".", "_"): path.read_text()
    for path in sorted((ROOT / "examples").glob("*.py"))
}
SNIPPED: Final = {name: HEAD + text for name, text in (SNIPPETS | CONTEXT_SNIPPETS).items()}
TEXTS: Final = SNIPPED | EXAMPLES

REPORTED: Final = re.compile(r"(\w+)\.py:(\d+): error: .*\[([a-z-]+)\]$")


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[int, str]]]:
    """Run mypy once; return (line, code) of its errors by snippet."""
    folder = tmp_path_factory.mktemp("snippets")
    for name, text in TEXTS.items():
        (folder / f"{name}.py").write_text(text)
    settings = folder / "mypy.ini"
    settings.write_text(f"[mypy]\nstrict = True\nmypy_path = {ROOT}\nfollow_imports = silent\n")
    cache = ROOT / ".mypy_cache" / "snippets"
    arguments = ["--config-file", str(settings), "--cache-dir", str(cache), "--no-pretty"]
    output, complaints, _ = api.run([*arguments, "--no-error-summary", str(folder)])
    assert not complaints
    found: dict[str, set[tuple[int, str]]] = {name: set() for name in TEXTS}
    for line in output.splitlines():
        match = REPORTED.search(line)
        if match is not None:
            found[match[1]].add((int(match[2]), match[3]))
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_mypy_reports_exactly_the_marked_lines(
    name: str, reported: dict[str, set[tuple[int, str]]]
) -> None:
    lines = enumerate(TEXTS[name].splitlines(), start=1)
    marked = {
        (number, line.partition("# error: ")[2]) for number, line in lines if "# error:" in line
    }
    assert reported[name] == marked
