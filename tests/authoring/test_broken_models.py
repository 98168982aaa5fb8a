"""What a model refuses is told with place and rule, and never with the value."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator

from pi_workflows.authoring.broken_models import told_without_values, traceback_text
from pi_workflows.authoring.codec import Codec, broken_rules

SECRET = "s3cret"  # noqa: S105 - a word to look for


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int

    @field_validator("lives")
    @classmethod
    def _few(cls, lives: int) -> int:
        if lives > 9:
            raise ValueError("a cat has nine")
        return lives


class Dog(BaseModel):
    kind: Literal["dog"]


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def refusal(declared: Any, value: object) -> ValidationError:  # noqa: ANN401 - a type form
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(declared).validate_python(value)
    return caught.value


def test_every_place_and_rule_is_told_in_one_line() -> None:
    error = refusal(dict[str, Cat], {"a": {"kind": SECRET}, "b": {"kind": "cat", "lives": 10}})
    assert SECRET in str(error), "pydantic repeats what it was given"
    assert told_without_values(error) == (
        "dict[str,Cat]: a.kind: Input should be 'cat'; a.lives: Field required; "
        "b.lives: Value error, a cat has nine"
    )
    assert told_without_values(refusal(int, SECRET)).startswith("int: Input should be a valid int")


def test_an_unknown_kind_is_told_by_the_known_ones() -> None:
    """The text that pydantic has for it names the value."""
    rule = "'kind' should be one of 'cat', 'dog'"
    ((path, told),) = broken_rules(Codec(Pet), {"kind": SECRET})
    assert (path, told) == ("input", rule)
    assert rule in told_without_values(refusal(Pet, {"kind": SECRET}))


def test_a_traceback_keeps_its_frames_and_loses_the_values() -> None:
    def work() -> None:
        try:
            Cat.model_validate({"kind": "cat", "lives": SECRET})
        except ValidationError as error:
            raise RuntimeError("no cat") from error

    with pytest.raises(RuntimeError) as caught:
        work()
    told = traceback_text(caught.value, caught.value.__traceback__)
    assert "in work" in told
    assert "ValidationError: Cat: lives: Input should be a valid integer" in told
    assert told.rstrip().endswith("RuntimeError: no cat")
    assert SECRET not in told.replace('"lives": SECRET', "")
