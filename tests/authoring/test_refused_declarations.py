"""Every rule of a declaration that can be broken: one problem, of the node to blame, at its line.

What each rule says is shown beside the rest of its node; here it is that no rule is left out, and
that every text names workflow, place and line.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

import pytest

from pi_workflows import (
    After,
    Card,
    Choices,
    Command,
    DefinitionError,
    Problem,
    UpdateLines,
    Workflow,
    choice,
    idempotent,
    manual,
)


class Say(StrEnum):
    go = "go"


ANSWERS: Final = Choices(Say, {Say.go: choice("Go")})
SECRET: Final = "s3cret"  # noqa: S105 - a word to look for
Declare = Callable[[Any], object]


def work() -> int:
    return 1


def line() -> Command:
    return Command("true")


def number() -> int:
    return 2


def words() -> str:
    return "x"


def card() -> Card:
    return Card(title="x")


def found_in(declare: Declare) -> list[Problem]:
    """Return what `build()` says of a workflow with a sound node `work` and what is declared."""

    def build() -> None:
        wf: Workflow[Any] = Workflow("flow")
        first = wf.compute()(work)
        declare(wf)
        wf.build(start=first)

    with pytest.raises(DefinitionError) as caught:
        build()
    found = list(caught.value.problems)
    return [problem for problem in found if problem.code == "DEFINITION_INVALID"]


def shell(**options: Any) -> Declare:  # noqa: ANN401 - wrong on purpose
    return lambda wf: wf.shell(**{"effect": manual("x"), **options})(line)


def human(**options: Any) -> Declare:  # noqa: ANN401 - wrong on purpose
    return lambda wf: wf.human(**{"audience": "them", "choices": ANSWERS, **options})(card)


def after(delay: object, answer: object = Say.go) -> Declare:
    wanted: Any = After(timedelta(minutes=1), Say.go)
    object.__setattr__(wanted, "delay", delay)
    object.__setattr__(wanted, "choice", answer)
    return human(on_timeout=wanted)


NODES: Final[dict[str, tuple[Declare, str, str]]] = {
    "agent without prompt": (lambda wf: wf.agent()(number), "number", "returns the prompt"),
    "agent with an odd result": (lambda wf: wf.agent(expects=3)(words), "words", "expects is"),
    "reply with validate": (
        lambda wf: wf.assistant_message(validate=str)(words),
        "words",
        "no option validate",
    ),
    "reply without limit": (
        lambda wf: wf.assistant_message(max_chars=0)(words),
        "words",
        "max_chars is a whole number",
    ),
    "reply with an odd option": (
        lambda wf: wf.assistant_message(colour=SECRET)(words),
        "words",
        "no option colour",
    ),
    "a tool twice": (
        lambda wf: wf.agent(allowed_tools=["a", "a"])(words),
        "words",
        "names a tool twice",
    ),
    "the workflow tool": (
        lambda wf: wf.agent(allowed_tools=["workflow"])(words),
        "words",
        "take it out",
    ),
    "notify without message": (lambda wf: wf.notify()(number), "number", "returns the message"),
    "notify of an odd kind": (lambda wf: wf.notify(kind=SECRET)(words), "words", "kind is"),
    "action without effect": (lambda wf: wf.action()(words), "words", "declare effect="),
    "shell without effect": (shell(effect=None), "line", "declare effect="),
    "blank effect": (shell(effect=manual(" ")), "line", "effect's type"),
    "long effect": (shell(effect=idempotent("x" * 257)), "line", "effect's type"),
    "odd parse": (shell(parse=3), "line", "parse is a function"),
    "no stream": (shell(updates=UpdateLines(print, streams=())), "line", "streams is one or"),
    "odd stream": (shell(updates=UpdateLines(print, streams=("x",))), "line", "streams is one"),
    "no line parser": (
        shell(updates=UpdateLines(None)),  # type: ignore[arg-type]
        "line",
        "updates is a function",
    ),
    "odd summary": (lambda wf: wf.checkpoint(summary=3)(words), "words", "summary is text"),
    "no audience": (human(audience=None), "card", "audience is text"),
    "blank audience": (human(audience=" "), "card", "audience is blank"),
    "no choices": (human(choices=Choices(Say, {})), "card", "no choice for Say.go"),
    "human without card": (
        lambda wf: wf.human(audience="them", choices=ANSWERS)(number),
        "number",
        "returns the card",
    ),
    "no delay": (after(0), "card", "above 0"),
    "endless delay": (after(float("inf")), "card", "above 0"),
    "odd default": (after(60, "stop"), "card", "no member of Say"),
    "timeout of nothing": (lambda wf: wf.compute(timeout=0)(words), "words", "above 0"),
    "timeout of text": (lambda wf: wf.compute(timeout=SECRET)(words), "words", "not a str"),
    "odd status detail": (
        lambda wf: wf.compute(status_detail=3)(words),
        "words",
        "status_detail is text",
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_broken_rule_of_a_node_is_one_problem_of_that_node_at_its_line(name: str) -> None:
    """Case: B4, B5."""
    declare, node, says = NODES[name]
    (problem,) = found_in(declare)
    assert problem.subject == f'workflow "flow", node "{node}"'
    assert says in problem.message
    assert SECRET not in problem.text
    assert re.search(r" \(test_refused_declarations\.py:\d+\)$", problem.text)


@pytest.mark.parametrize(
    "decorate",
    [
        lambda wf: wf.compute(),
        lambda wf: wf.settings_route(),
        lambda wf: wf.action(effect=manual("x")),
        lambda wf: wf.shell(effect=manual("x")),
        lambda wf: wf.agent(),
        lambda wf: wf.choose(Say),
        lambda wf: wf.assistant_message(),
        lambda wf: wf.notify(),
        lambda wf: wf.checkpoint(),
        lambda wf: wf.human(audience="them", choices=ANSWERS),
    ],
    ids=range(10),
)
def test_node_of_any_kind_without_a_function_is_refused_at_once(decorate: Declare) -> None:
    """Case: B4."""
    (problem,) = found_in(lambda wf: decorate(wf)(SECRET))  # type: ignore[operator]
    assert "decorates a function, not a str." in problem.message
    assert SECRET not in problem.text


EDGES: Final[dict[str, tuple[Declare, str]]] = {
    "no source": (lambda wf: wf.edge(None, None), "the source of wf.edge is missing"),
    "no target": (lambda wf: wf.edge(wf.compute()(words), None), "target of wf.edge is missing"),
    "no cases": (lambda wf: wf.switch(wf.compute()(words), "$.x", {}), "wf.switch has no cases"),
    "no target of a case": (
        lambda wf: wf.switch(wf.compute()(words), "$.x", {"a": "words"}),
        "the target of wf.switch is of type str",
    ),
    "no root": (
        lambda wf: wf.switch(wf.compute()(words), SECRET, {"a": "words"}),
        'a path below "$."',
    ),
    "exit without a node": (lambda wf: wf.exit("done", None), 'wf.exit("done", ...) is missing'),
}


@pytest.mark.parametrize("name", EDGES)
def test_edge_or_exit_without_what_it_needs_is_refused_at_its_line(name: str) -> None:
    """Case: B7."""
    declare, says = EDGES[name]
    (problem,) = found_in(declare)
    assert problem.subject.startswith('workflow "flow"')
    assert says in problem.message
    assert SECRET not in problem.text
    assert "(test_refused_declarations.py:" in problem.text


def test_workflow_without_a_name_is_refused_like_one_with_a_wrong_name() -> None:
    nameless: Any = Workflow
    wf = nameless()
    first = wf.compute()(work)
    with pytest.raises(DefinitionError) as caught:
        wf.build(start=first)
    (problem,) = caught.value.problems
    assert (problem.code, problem.subject) == ("DEFINITION_INVALID", "workflow without a name")
    assert 'write Workflow("my-name", ...).' in problem.message
