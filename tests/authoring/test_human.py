"""Decisions of people: choices, defaults, answers, and the card that a person sees."""

from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import ValidationError

from pi_workflows import (
    After,
    Block,
    Card,
    CardRefused,
    Choices,
    Ctx,
    DefinitionError,
    HumanAnswer,
    Workflow,
    bullets,
    choice,
    fields,
    paragraph,
    preformatted,
    section,
    text_input,
)
from pi_workflows.authoring.codec import Codec
from pi_workflows.protocol.definition import SwitchEdge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_workflows.protocol.canonical import JsonObject


class Say(StrEnum):
    GO = "go"
    STOP = "stop"
    REPLAN = "replan"


class Other(StrEnum):
    GO = "go"


ANSWERS = Choices(
    Say,
    {
        Say.GO: choice("Go ahead"),
        Say.STOP: choice("Stop here"),
        Say.REPLAN: choice("Change it", text_input("notes", "What should change?")),
    },
)


def card() -> Card:
    return Card(title="Run this plan?")


def problems(**options: Any) -> list[str]:  # noqa: ANN401 - wrong on purpose
    """Return what `build()` says of a decision with these options."""
    wf = Workflow("flow")
    node = wf.human(**{"audience": "operator", "choices": ANSWERS, **options})(card)
    with pytest.raises(DefinitionError) as caught:
        wf.build(start=node)
    assert {problem.code for problem in caught.value.problems} == {"DEFINITION_INVALID"}
    return [problem.message for problem in caught.value.problems]


def test_a_decision_is_declared_compiled_and_routed_by_its_choice() -> None:
    wf = Workflow("flow", input=str)

    @wf.compute()
    def draft(ctx: Ctx[str]) -> str:
        before = ctx.get(ask)
        return ctx.input if before is None else before.input["notes"]

    @wf.human(
        audience="operator", choices=ANSWERS, on_timeout=After(timedelta(minutes=10), Say.GO)
    )
    def ask(ctx: Ctx[str]) -> Card:
        plan = ctx.output(draft)
        return Card(title="Run this plan?", subject={"plan": plan}, summary=plan)

    @wf.compute()
    def done(ctx: Ctx[str]) -> str:
        return f"{ctx.output(ask).choice}: {ctx.output(draft)}"

    wf.edge(draft, ask)
    wf.route(ask, {Say.GO: done, Say.STOP: done, Say.REPLAN: draft})
    definition = wf.build(start=draft)
    assert definition.edges["ask"] == SwitchEdge(
        "$.choice", {"go": "done", "stop": "done", "replan": "draft"}
    )
    stored = cast("Sequence[JsonObject]", definition.snapshot()["nodes"])[0]
    assert stored == {
        "id": "ask",
        "type": "human",
        "audience": "operator",
        "choices": [
            {"id": "go", "label": "Go ahead"},
            {"id": "stop", "label": "Stop here"},
            {
                "id": "replan",
                "label": "Change it",
                "input": {
                    "name": "notes",
                    "label": "What should change?",
                    "minLength": 1,
                    "maxLength": 4_000,
                },
            },
        ],
        "onTimeout": {"afterMs": 600_000, "response": {"choice": "go"}},
    }


def test_a_missing_case_of_a_decision_is_refused() -> None:
    """Case: B14."""
    wf = Workflow("flow")
    node = wf.human(audience="operator", choices=ANSWERS)(card)
    wf.route(node, {Say.GO: node, Say.STOP: node})
    with pytest.raises(DefinitionError, match=r"no case for Say\.REPLAN"):
        wf.build(start=node)


def test_an_audience_may_be_asked_for_and_leaves_a_mark() -> None:
    wf = Workflow("flow")
    node = wf.human(audience=lambda ctx: ctx.run_id, choices=ANSWERS)(card)
    (stored,) = cast("Sequence[JsonObject]", wf.build(start=node).snapshot()["nodes"])
    assert stored["audience"] == {"dynamic": True}


async def later(_ctx: Ctx[Any]) -> str:
    return "operator"


@pytest.mark.parametrize(
    ("audience", "says"),
    [
        (" ", "audience is blank"),
        (3, "audience is text or a function"),
        (None, "audience is text or a function"),
        (later, "audience is an ordinary function"),
    ],
)
def test_an_audience_that_nobody_is_is_refused(
    audience: Any,  # noqa: ANN401 - wrong on purpose
    says: str,
) -> None:
    (problem,) = problems(audience=audience)
    assert says in problem


class Numbers(Enum):
    ONE = 1


class Odd(StrEnum):
    SPACED = "a b"


class Long(StrEnum):
    LONG = "x" * 129


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        (None, "choices is Choices(SomeEnum"),
        (Choices(Say, {}), "no choice for Say.GO, Say.STOP, Say.REPLAN."),
        (Choices(cast("Any", Numbers), {}), "the values of Numbers are texts"),
        (Choices(Odd, {Odd.SPACED: choice("x")}), "the value of Odd.SPACED is 1 to 128 of"),
        (Choices(Long, {Long.LONG: choice("x")}), "the value of Long.LONG is 1 to 128 of"),
        (Choices(Other, {Other.GO: choice(" ")}), "the label of Other.GO is blank."),
        (Choices(Other, cast("Any", {Other.GO: "x"})), 'Other.GO is described by choice("...")'),
        (Choices(Other, cast("Any", [])), "choices is Choices(Other, {...})."),
        (
            Choices(Other, cast("Any", {Other.GO: choice("x"), "y": choice("y")})),
            "it has a choice that is no member of Other.",
        ),
    ],
)
def test_choices_that_break_a_rule_are_refused(
    choices: Any,  # noqa: ANN401 - wrong on purpose
    says: str,
) -> None:
    (problem,) = problems(choices=choices)
    assert says in problem


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (text_input("a b", "x"), "is named by letters"),
        (text_input("a", " "), "the label of the input of Other.GO is blank."),
        (text_input("a", "x", min_length=-1), "the lengths"),
        (text_input("a", "x", min_length=5, max_length=4), "the lengths"),
        (text_input("a", "x", min_length=0, max_length=0), "the lengths"),
        (text_input("a", "x", max_length=cast("Any", 1.5)), "the lengths"),
        ("notes", 'is text_input("name", "label")'),
    ],
)
def test_a_text_input_that_breaks_a_rule_is_refused(
    wanted: Any,  # noqa: ANN401 - wrong on purpose
    says: str,
) -> None:
    (problem,) = problems(choices=Choices(Other, {Other.GO: choice("x", wanted)}))
    assert says in problem


@pytest.mark.parametrize(
    ("default", "says"),
    [
        ({"choice": "go"}, "on_timeout is After("),
        (After(0, Say.GO), "above 0"),
        (After(float("inf"), Say.GO), "above 0"),
        (After(float("nan"), Say.GO), "above 0"),
        (After(cast("Any", None), Say.GO), "above 0"),
        (After(1, cast("Any", "gone")), "the choice is no member of Say."),
        (After(1, Say.GO, {"notes": "x"}), "this choice takes no input"),
        (After(1, Say.REPLAN), 'the input "notes" has 1 to 4000 characters'),
        (After(1, Say.REPLAN, {"notes": "x" * 4_001}), 'the input "notes" has 1 to 4000'),
        (After(1, Say.REPLAN, {"notes": "\U0001f600" * 2_001}), 'the input "notes" has 1 to 4000'),
        (After(1, Say.REPLAN, {"other": "x"}), 'this choice takes "notes" only'),
        (After(1, Say.REPLAN, {"notes": cast("Any", 3)}), 'the input "notes" is text'),
        (After(1, Say.REPLAN, cast("Any", "x")), "the input is a mapping"),
    ],
)
def test_a_default_answer_that_does_not_fit_is_refused(
    default: Any,  # noqa: ANN401 - wrong on purpose
    says: str,
) -> None:
    (problem,) = problems(on_timeout=default)
    assert says in problem


def test_a_default_answer_may_carry_its_text() -> None:
    wf = Workflow("flow")
    default = After(1.5, Say.REPLAN, {"notes": "again"})
    node = wf.human(audience="operator", choices=ANSWERS, on_timeout=default)(card)
    (stored,) = cast("Sequence[JsonObject]", wf.build(start=node).snapshot()["nodes"])
    assert stored["onTimeout"] == {
        "afterMs": 1_500,
        "response": {"choice": "replan", "input": {"notes": "again"}},
    }


def test_a_decision_without_a_function_or_with_one_that_gives_no_card_is_refused() -> None:
    wf = Workflow("flow")
    with pytest.raises(DefinitionError, match=r"@wf\.human\(\.\.\.\) decorates a function"):
        wf.human(audience="operator", choices=ANSWERS)(cast("Any", None))
    wf = Workflow("flow")

    def text() -> str:
        return "x"

    node = wf.human(audience="operator", choices=ANSWERS)(cast("Any", text))
    with pytest.raises(DefinitionError, match=r"returns the card; annotate it: -> Card\."):
        wf.build(start=node)


def test_an_answer_is_stored_without_an_input_that_it_has_not() -> None:
    codec = Codec(HumanAnswer[Say])
    plain, noted = (
        codec.load({"choice": "go"}),
        codec.load({"choice": "replan", "input": {"notes": "x"}}),
    )
    assert (plain.choice, plain.input) == (Say.GO, {})
    assert codec.dump(plain, where="x") == {"choice": "go"}
    assert codec.dump(noted, where="x") == {"choice": "replan", "input": {"notes": "x"}}
    with pytest.raises(ValidationError):
        codec.load({"choice": "away"})
    with pytest.raises(ValidationError):
        codec.load({"choice": "go", "more": 1})


def test_a_card_becomes_a_presentation() -> None:
    shown = Card(
        title="Run it?",
        subject={"plan": [1, 2]},
        summary="The plan",
        blocks=[
            section("Details"),
            paragraph("Two\nlines"),
            bullets(["a", "b"]),
            fields({"cost": "3"}),
            preformatted("\t+x"),
        ],
        expires_at=datetime(2027, 1, 1, tzinfo=UTC),
    )
    assert shown.presentation() == {
        "schema": "pi-workflows.decision-presentation.v1",
        "blocks": [
            {"type": "paragraph", "text": "The plan"},
            {"type": "section", "text": "Details"},
            {"type": "paragraph", "text": "Two\nlines"},
            {"type": "bullets", "items": ["a", "b"]},
            {"type": "fields", "items": [{"label": "cost", "value": "3"}]},
            {"type": "preformatted", "text": "\t+x"},
        ],
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"title": " "}, "title is text that is not blank"),
        ({"title": "a\nb"}, "title has a control character"),
        ({"title": None}, "title is text that is not blank"),
        ({"summary": "a\x1b[31m"}, "block 1: a text has a control character"),
        ({"blocks": [section("a\nb")]}, "block 1: a text has a control character"),
        ({"blocks": [paragraph("x" * 16_001)]}, "16001 characters; at most 16000"),
        ({"blocks": [paragraph("\U0001f600" * 8_001)]}, "16002 characters; at most 16000"),
        ({"blocks": [paragraph("x" * 16_000)] * 4 + [paragraph("x")]}, "64001 characters"),
        ({"blocks": [paragraph("x")] * 257}, "257 blocks; at most 256"),
        ({"summary": "x", "blocks": [paragraph("x")] * 256}, "257 blocks; at most 256"),
        ({"blocks": [bullets(["x"] * 257)]}, "block 1: at most 256 items"),
        ({"blocks": [bullets([""])]}, "block 1: a text is text that is not blank"),
        ({"blocks": [fields({"a": " "})]}, "block 1: a text is text that is not blank"),
        ({"blocks": ["text"]}, "block 1: it is made by"),
        ({"blocks": [Block("section")]}, "block 1: a text is text that is not blank"),
        ({"revision": 0}, "revision is a whole number"),
        ({"revision": True}, "revision is a whole number"),
        ({"expires_at": datetime(2027, 1, 1)}, "expires_at is a datetime with"),  # noqa: DTZ001
        ({"subject": {"a": object()}}, "subject at $.a: object is no JSON"),
    ],
)
def test_a_card_that_breaks_a_rule_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(CardRefused) as caught:
        Card(**{"title": "x", **options})
    assert says in str(caught.value)
    assert str(caught.value).startswith("CardRefused [CARD_REFUSED] ")


def test_a_card_takes_as_much_as_is_allowed() -> None:
    Card(title="x", blocks=[paragraph("x" * 16_000)] * 4)
    Card(title="x", blocks=[paragraph("x")] * 256)
    Card(title="x", blocks=[bullets(["x"] * 256)])
