"""What a human decision may be answered with: its choices, their text inputs, and the default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar, Final, Generic

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from pi_workflows.authoring.route import Decision, K

INPUT_CHARS_MAX: Final = 4_000
"""Longest text that a choice takes when its author says nothing."""


@dataclass(frozen=True, slots=True)
class TextInput:
    """One text that goes with a choice.

    Attributes:
        name: key of the text in `HumanAnswer.input`.
        label: what is asked for.
        min_length: in characters, at least 0; 0 lets the text be left out.
        max_length: in characters, not below `min_length`.
    """

    name: str
    label: str
    min_length: int = 1
    max_length: int = INPUT_CHARS_MAX


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers.

    Attributes:
        label: what the person reads.
        input: the text that goes with it; None asks for none.
    """

    label: str
    input: TextInput | None = None


def text_input(
    name: str, label: str, *, min_length: int = 1, max_length: int = INPUT_CHARS_MAX
) -> TextInput:
    """Ask for a text with a choice.

    Args:
        name: letters, digits, `_` and `-`; the text is `answer.input[name]`.
        label: what is asked for.
        min_length: in characters; 0 lets it be left out.
        max_length: in characters.
    """
    return TextInput(name, label, min_length, max_length)


def choice(label: str, input: TextInput | None = None) -> Choice:  # noqa: A002 - the stored word
    """Describe one answer.

    Args:
        label: what the person reads.
        input: a text that goes with it; None asks for none.
    """
    return Choice(label, input)


@dataclass(frozen=True, slots=True, init=False)
class Choices(Generic[K]):
    """All answers of a human decision; `wf.human` finds out whether they are sound.

    Args:
        members: an enum of texts: the ids of the choices.
        choices: one per member.
    """

    members: type[K]
    choices: Mapping[K, Choice]

    def __init__(self, members: type[K], choices: Mapping[K, Choice]) -> None:
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "choices", choices)


class HumanAnswer(Decision[K], Generic[K]):
    """The output of a human decision; `wf.route` reads its choice.

    Attributes:
        choice: the member that was chosen.
        input: the text that went with it, by the input's name; empty when there was none.
    """

    decided_by: ClassVar[str] = "choice"

    choice: K
    input: dict[str, str] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _stored(self, stored: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an input that there is none of."""
        fields: dict[str, Any] = stored(self)
        return fields if self.input else {key: fields[key] for key in fields if key != "input"}


@dataclass(frozen=True, slots=True)
class After(Generic[K]):
    """The answer that counts when nobody has answered in time.

    Attributes:
        delay: seconds or a timedelta, above 0, from the moment the question is asked.
        choice: the member that is taken then.
        input: the text that goes with it, by the input's name.
    """

    delay: float | timedelta
    choice: K
    input: Mapping[str, str] = field(default_factory=dict)


def choice_id(member: Enum) -> str:
    """Return the stored id of a choice, which its rule has found to be text."""
    return str(member.value)
