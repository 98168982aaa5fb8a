"""The context that a function is annotated to take, held against what its workflow declares."""

from typing import Annotated, Any, Protocol

import pytest
from pydantic import BaseModel

from pi_workflows import Ctx, DefinitionError, Settings, Workflow, idempotent


class Base(BaseModel):
    n: int = 0


class In(Base):
    text: str = ""


class Tune(BaseModel):
    lane: int = 1


class Other(BaseModel):
    lane: int = 1


class Numbered(Protocol):
    n: int


def found(
    context: object, *, input_type: object = None, settings: Settings[Any] | None = None
) -> list[str]:
    """What `build` says of a node whose function takes this context."""
    wf: Any = Workflow("flow", input=input_type, settings=settings)  # type: ignore[call-overload]

    def node(ctx: object) -> bool:
        return ctx is None

    node.__annotations__["ctx"] = context
    handle = wf.compute()(node)
    try:
        wf.build(start=handle)
    except DefinitionError as error:
        return [problem.message for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("declared", "context"),
    [
        (In, Ctx[In]),
        (In, Ctx[Base]),
        (In, Ctx[object]),
        (In, Ctx[Any]),
        (In, Ctx[Numbered]),
        (In, Ctx[In | None]),
        (In, Ctx[Annotated[In, "note"]]),
        (In, "Ctx[In]"),
        (In, "Ctx[Unheard]"),
        (In, int),
        (In | None, Ctx[Base | None]),
        (int, Ctx[float]),
        (list[int], Ctx[list[int]]),
        (list[int], Ctx[list[Any]]),
        (None, Ctx[None]),
        (None, Ctx[Any]),
    ],
    ids=str,
)
def test_a_context_that_may_be_meant_is_sound(declared: object, context: object) -> None:
    assert found(context, input_type=declared) == []


@pytest.mark.parametrize(
    ("declared", "context", "says"),
    [
        (None, Ctx[int], "input of type int, and the workflow declares none;"),
        (In, Ctx[str], "input of type str, and the workflow declares In;"),
        (In, "Ctx[str]", "input of type str, and the workflow declares In;"),
        (In, Ctx[None], "input of type None, and the workflow declares In;"),
        (Base, Ctx[In], "input of type In, and the workflow declares Base;"),
        (In | None, Ctx[In], "input of type In, and"),
        (list[int], Ctx[list[str]], "input of type list[str], and"),
    ],
    ids=str,
)
def test_a_context_with_another_input_is_refused(
    declared: object, context: object, says: str
) -> None:
    (message,) = found(context, input_type=declared)
    assert message.startswith(f"its context has {says}")
    assert message.endswith("Workflow(input=...) and Ctx[...] have to agree.")


def test_a_context_with_other_settings_is_refused() -> None:
    settings = Settings(Tune, initial=Tune())
    assert found(Ctx[None, Tune], settings=settings) == []
    (message,) = found(Ctx[None, Other], settings=settings)
    assert "settings of type Other, and the workflow declares Tune;" in message
    (message,) = found(Ctx[None, Tune])
    assert "settings of type Tune, and the workflow declares none;" in message
    assert len(found(Ctx[int, Other], settings=settings)) == 2


def test_every_function_of_a_node_is_looked_at() -> None:
    wf: Any = Workflow("flow", input=In)

    def seconds(ctx: Ctx[str]) -> int:
        return len(ctx.input)

    def asked(ctx: Ctx[str]) -> str:
        return ctx.input

    act = wf.action(effect=idempotent("x"), timeout=seconds, request=asked)(asked)
    with pytest.raises(DefinitionError) as caught:
        wf.build(start=act)
    assert [problem.subject for problem in caught.value.problems] == [
        'workflow "flow", node "asked"'
    ] * 3
