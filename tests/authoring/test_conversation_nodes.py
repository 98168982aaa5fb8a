"""Nodes that talk: what is sound, how the rest is refused, what the snapshot says of them."""

from collections.abc import Callable, Sequence
from enum import Enum, StrEnum
from typing import Any, cast

import pytest
from pydantic import BaseModel

from pi_workflows import Ctx, DefinitionError, Node, Route, Workflow
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.definition import PlainEdge, SwitchEdge
from pi_workflows.protocol.states import NodeType


class Next(StrEnum):
    AGAIN = "again"
    ENOUGH = "enough"


class Verdict(BaseModel):
    sound: bool


class Numbers(Enum):
    ONE = 1


class Twice(StrEnum):
    A = "a"
    B = "a"


class Nothing(StrEnum):
    pass


def prompt() -> str:
    return "Look at it."


def refusals(build: Callable[[], object]) -> list[str]:
    """Return the texts of the problems that `build` raises; all are of one code."""
    with pytest.raises(DefinitionError) as caught:
        build()
    assert {problem.code for problem in caught.value.problems} == {"DEFINITION_INVALID"}
    return [problem.message for problem in caught.value.problems]


def snapshot_node(wf: Workflow[Any], node: Node[Any]) -> JsonObject:
    """Return what the snapshot says of the only node."""
    nodes = cast("Sequence[JsonObject]", wf.build(start=node).snapshot()["nodes"])
    return nodes[0]


def test_an_agent_is_declared_with_the_type_of_what_it_submits() -> None:
    wf = Workflow("flow")
    node = wf.agent(
        output=Verdict, expects="a verdict", allowed_tools=["read", "grep"], timeout=60
    )(prompt)
    assert snapshot_node(wf, node) == {
        "id": "prompt",
        "type": "agent",
        "expectedOutput": {"type": "submitted", "text": "a verdict"},
        "allowedTools": ["grep", "read"],
        "timeoutMs": 60_000,
    }
    assert wf._nodes["prompt"].codec({}, wf._problems).declared is Verdict


def test_all_tools_are_said_by_nothing_and_no_tool_by_an_empty_list() -> None:
    free, bound = Workflow("free"), Workflow("bound")
    assert "allowedTools" not in snapshot_node(free, free.agent()(prompt))
    assert snapshot_node(bound, bound.agent(allowed_tools=[])(prompt))["allowedTools"] == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"expects": 3}, "expects is text"),
        ({"expects": ""}, "expects is text"),
        ({"validate": 3}, "validate is a function"),
        ({"allowed_tools": "read"}, "allowed_tools is a list of names"),
        ({"allowed_tools": ["read", " "]}, "allowed_tools is a list of names"),
        ({"allowed_tools": ["read", "read"]}, "allowed_tools names a tool twice."),
        ({"allowed_tools": ["workflow"]}, 'allowed_tools has "workflow"'),
        ({"timeout": -1}, "above 0"),
        ({"status_detail": 3}, "status_detail is text."),
    ],
)
def test_an_agent_with_a_wrong_option_is_refused(options: dict[str, Any], says: str) -> None:
    """Case: B5."""
    wf = Workflow("flow")
    node = wf.agent(**options)(prompt)
    (problem,) = refusals(lambda: wf.build(start=node))
    assert says in problem


@pytest.mark.parametrize("kind", ["agent", "assistant_message", "choose", "notify"])
def test_a_function_that_returns_no_text_is_no_prompt(kind: str) -> None:
    wf = Workflow("flow")
    decorator: Any = wf.choose(Next) if kind == "choose" else getattr(wf, kind)()

    def unsaid() -> None: ...

    node = decorator(unsaid)
    with pytest.raises(DefinitionError) as caught:
        wf.build(start=node)
    said = [problem.message for problem in caught.value.problems]
    what = "the message" if kind == "notify" else "the prompt"
    assert f"its function returns {what}; annotate it: -> str." in said


@pytest.mark.parametrize("kind", ["agent", "assistant_message", "choose", "notify"])
def test_a_function_that_returns_nothing_anywhere_is_no_prompt(kind: str) -> None:
    wf = Workflow("flow")
    decorator: Any = wf.choose(Next) if kind == "choose" else getattr(wf, kind)()

    def unsaid(ctx):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        """Forget the text."""
        if ctx.visit > 1:
            return None  # noqa: RET501
        ctx.input()

    node = decorator(unsaid)
    with pytest.raises(DefinitionError) as caught:
        wf.build(start=node)
    said = [problem.message for problem in caught.value.problems]
    what = "the message" if kind == "notify" else "the prompt"
    assert f"its function returns nothing; return {what}." in said


def test_a_prompt_that_is_returned_in_one_of_two_ways_is_taken() -> None:
    wf = Workflow("flow")

    def sometimes(ctx):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        if ctx.visit > 1:
            return None
        return f"visit {ctx.visit}"

    assert "sometimes" in wf.build(start=wf.agent()(sometimes)).nodes


def test_a_prompt_without_annotation_or_from_async_code_is_taken() -> None:
    wf = Workflow("flow")

    async def later(ctx: Ctx[Any]) -> str:
        return ctx.run_id

    first = wf.agent()(cast("Any", lambda: "x"))
    assert first.node_id == "<lambda>"
    wf = Workflow("flow")
    node = wf.agent()(later)
    assert wf.build(start=node).nodes["later"].is_async


@pytest.mark.parametrize("kind", ["agent", "assistant_message", "checkpoint", "notify"])
def test_a_decorator_on_something_that_is_no_function_names_itself(kind: str) -> None:
    wf = Workflow("flow")
    (problem,) = refusals(lambda: getattr(wf, kind)()(None))
    assert problem == f"@wf.{kind}(...) decorates a function, not a NoneType."


def test_an_assistant_message_is_declared_with_its_bound() -> None:
    wf = Workflow("flow")
    node = wf.assistant_message(max_chars=280)(prompt)
    stored = snapshot_node(wf, node)
    assert stored["type"] == "agent"
    assert stored["expectedOutput"] == {"type": "assistant-message", "maxChars": 280}
    free = Workflow("free")
    unbound = snapshot_node(free, free.assistant_message()(prompt))
    assert unbound["expectedOutput"] == {"type": "assistant-message"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"validate": str.strip}, "an assistant message has no option validate: its answer"),
        ({"colour": "red"}, "an assistant message has no option colour."),
        ({"max_chars": 0}, "max_chars is a whole number of at least 1."),
        ({"max_chars": 1.5}, "max_chars is a whole number of at least 1."),
        ({"max_chars": True}, "max_chars is a whole number of at least 1."),
        ({"allowed_tools": ["workflow"]}, 'allowed_tools has "workflow"'),
    ],
)
def test_an_assistant_message_with_a_wrong_option_is_refused(
    options: dict[str, Any], says: str
) -> None:
    """Case: B5."""
    wf = Workflow("flow")
    node = wf.assistant_message(**options)(prompt)
    (problem,) = refusals(lambda: wf.build(start=node))
    assert says in problem


def chosen(field: str) -> tuple[Workflow[Any], Node[Route[Next]], Node[int]]:
    wf = Workflow("flow")
    node = wf.choose(Next, field=field)(prompt)

    @wf.compute()
    def over() -> int:
        return 1

    return wf, node, over


@pytest.mark.parametrize("field", ["route", "verdict"])
def test_a_choice_is_routed_by_its_field(field: str) -> None:
    wf, node, over = chosen(field)
    wf.route(node, {Next.AGAIN: node, Next.ENOUGH: over})
    definition = wf.build(start=node)
    assert definition.edges["prompt"] == SwitchEdge(
        f"$.{field}", {"again": "prompt", "enough": "over"}
    )
    stored = cast("Sequence[JsonObject]", definition.snapshot()["nodes"])[1]
    assert stored["decision"] == {"field": field, "choices": ["again", "enough"]}
    codec = definition.nodes["prompt"].codec
    output = codec.load({field: "enough"})
    assert output.route is Next.ENOUGH
    assert codec.dump(output, where="x") == {field: "enough"}
    assert definition.nodes["prompt"].node_type is NodeType.AGENT


@pytest.mark.parametrize("field", ["route", "verdict"])
def test_the_cases_of_a_choice_are_its_choices(field: str) -> None:
    """Case: B14."""
    wf, node, over = chosen(field)
    wf.route(node, {Next.ENOUGH: over})
    with pytest.raises(DefinitionError) as caught:
        wf.build(start=node)
    (problem,) = caught.value.problems
    assert (problem.code, problem.message) == ("EDGE_CASES", "no case for Next.AGAIN.")
    assert problem.fix == "Add it to wf.route(prompt, {...})."


@pytest.mark.parametrize("drawn", ["nothing", "edge", "outcome"])
def test_a_choice_that_nothing_follows_is_refused(drawn: str) -> None:
    wf, node, over = chosen("route")
    if drawn == "edge":
        wf.edge(node, over)
    elif drawn == "outcome":
        wf.on_outcome(node, ok=over)
    else:
        wf.edge(over, node)
    with pytest.raises(DefinitionError) as caught:
        wf.build(start=over if drawn == "nothing" else node)
    (problem,) = caught.value.problems
    assert (problem.code, problem.message) == ("EDGE_CASES", "nothing follows its choice.")
    assert problem.fix == "Add wf.route(prompt, {...}) with a case for each choice."


def test_a_choice_may_steer_a_loop_or_be_switched_on() -> None:
    wf, node, over = chosen("route")
    wf.control_loop(
        node,
        return_to=node,
        routes={
            Next.AGAIN: {"to": over, "returns": [over]},
            Next.ENOUGH: {"to": wf.compute()(lambda_named_end), "terminal": True},
        },
    )
    assert wf.build(start=node).edges["over"] == PlainEdge("prompt")
    wf, node, over = chosen("route")
    wf.switch(node, "$.route", {Next.AGAIN: node, Next.ENOUGH: over})
    wf.build(start=node)


def lambda_named_end() -> int:
    return 2


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        (Numbers, "the values of Numbers are texts that are not empty."),
        (Twice, "two members of Twice have one value."),
        (Nothing, "Nothing has no members; a choice needs one."),
        (["a", "b"], "its choices are an enum of texts"),
    ],
)
def test_choices_that_are_not_unique_texts_are_refused(
    choices: Any,  # noqa: ANN401 - wrong on purpose
    says: str,
) -> None:
    wf = Workflow("flow")
    node = wf.choose(choices)(prompt)
    assert any(says in problem for problem in refusals(lambda: wf.build(start=node)))


@pytest.mark.parametrize("field", ["", "a-b", "1a", 3])
def test_a_field_of_a_choice_is_named_like_a_field(field: Any) -> None:  # noqa: ANN401
    wf = Workflow("flow")
    node = wf.choose(Next, field=field)(prompt)
    with pytest.raises(DefinitionError) as caught:
        wf.build(start=node)
    assert "field is named by letters, digits and _" in caught.value.message


def test_a_checkpoint_asks_with_its_summary_and_declares_its_answer() -> None:
    wf = Workflow("flow")

    @wf.checkpoint(summary="Look at it", answer=Verdict)
    def look() -> None: ...

    definition = wf.build(start=look)
    assert definition.nodes["look"].codec.declared is Verdict
    (stored,) = cast("Sequence[JsonObject]", definition.snapshot()["nodes"])
    assert stored == {"id": "look", "type": "checkpoint", "summary": "Look at it"}


def test_a_checkpoint_whose_summary_is_no_text_is_refused() -> None:
    wf = Workflow("flow")
    node = wf.checkpoint(summary=cast("Any", 3))(prompt)
    assert refusals(lambda: wf.build(start=node)) == ["summary is text."]


def test_a_notification_is_progress_or_final() -> None:
    for kind in ("progress", "final"):
        wf = Workflow("flow")
        node = wf.notify(kind=kind)(prompt)
        assert snapshot_node(wf, node) == {"id": "prompt", "type": "notify", "kind": kind}
    wf = Workflow("flow")
    node = wf.notify(kind="loud")(prompt)
    assert refusals(lambda: wf.build(start=node)) == ['kind is "progress" or "final".']


def test_every_problem_of_a_node_is_reported_at_once() -> None:
    wf = Workflow("flow")
    node = wf.agent(expects=cast("Any", 3), allowed_tools=["workflow"], timeout=-1)(prompt)
    assert len(refusals(lambda: wf.build(start=node))) == 3


def test_what_is_declared_of_a_node_changes_the_digest() -> None:
    """A run is held to it."""
    digests = set()
    changes: list[dict[str, Any]] = [{}, {"allowed_tools": []}, {"expects": "x"}]
    for options in changes:
        wf = Workflow("flow")
        digests.add(wf.build(start=wf.agent(**options)(prompt)).digest())
    assert len(digests) == 3
