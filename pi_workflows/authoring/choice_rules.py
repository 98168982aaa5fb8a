"""Rules for the choices of models and people (B §2): each yields or returns what is broken."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

from pi_workflows.authoring.answers import After, Choice, Choices, TextInput
from pi_workflows.authoring.budgets import budget_ms
from pi_workflows.authoring.rules import node_name_rule

_ID_CHARS_MAX: Final = 128


def members_rule(members: object) -> str | None:
    """Check the enum of a choice."""
    if not isinstance(members, type) or not issubclass(members, Enum):
        return "its choices are an enum of texts: class Next(StrEnum): ..."
    if not list(members):
        return f"{members.__name__} has no members; a choice needs one."
    if len(members.__members__) != len(list(members)):
        return f"two members of {members.__name__} have one value."
    if not all(isinstance(member.value, str) and member.value for member in members):
        return f"the values of {members.__name__} are texts that are not empty."
    return None


def choices_rules(choices: object) -> Iterator[str]:
    """Check the choices of a human decision."""
    if not isinstance(choices, Choices):
        yield "choices is Choices(SomeEnum, {SomeEnum.yes: choice(...), ...})."
        return
    broken = members_rule(choices.members)
    if broken is not None:
        yield broken
        return
    enum: type[Enum] = choices.members
    yield from _described_rules(list(enum), enum.__name__, choices.choices)


def _described_rules(members: list[Enum], name: str, given: object) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield f"choices is Choices({name}, {{...}})."
        return
    missing = [f"{name}.{member.name}" for member in members if member not in given]
    if missing:
        yield f"no choice for {', '.join(missing)}."
    if any(member not in members for member in given):
        yield f"it has a choice that is no member of {name}."
    for member in members:
        label = f"{name}.{member.name}"
        if node_name_rule(member.value) or len(member.value) > _ID_CHARS_MAX:
            yield (
                f"the value of {label} is 1 to {_ID_CHARS_MAX} of letters, digits, _ and -, "
                "starting with a letter or _."
            )
        if member in given:
            yield from _choice_rules(label, given[member])


def _choice_rules(label: str, given: object) -> Iterator[str]:
    if not isinstance(given, Choice):
        yield f'{label} is described by choice("...").'
        return
    if _is_blank(given.label):
        yield f"the label of {label} is blank."
    if given.input is not None:
        yield from _input_rules(label, given.input)


def _input_rules(label: str, wanted: object) -> Iterator[str]:
    if not isinstance(wanted, TextInput):
        yield f'the input of {label} is text_input("name", "label").'
        return
    if node_name_rule(wanted.name):
        yield f"the input of {label} is named by letters, digits, _ and -."
    if _is_blank(wanted.label):
        yield f"the label of the input of {label} is blank."
    lengths = (wanted.min_length, wanted.max_length)
    whole = all(type(length) is int for length in lengths)
    if not whole or not 0 <= wanted.min_length <= wanted.max_length or not wanted.max_length:
        yield f"the lengths of the input of {label} are whole numbers, the least one first."


def default_rules(choices: Choices[Any], default: object) -> Iterator[str]:
    """Check the answer that a timeout gives, by choices that are sound."""
    if not isinstance(default, After):
        yield "on_timeout is After(timedelta(...), SomeEnum.member)."
        return
    try:
        bounded = budget_ms(default.delay) is not None
    except (TypeError, ValueError):
        bounded = False
    if not bounded:
        yield "on_timeout: the delay is a finite number of seconds above 0, or a timedelta."
    enum: type[Enum] = choices.members
    if default.choice not in list(enum):
        yield f"on_timeout: the choice is no member of {enum.__name__}."
        return
    problem = response_problem(choices.choices[default.choice], default.input)
    if problem is not None:
        yield f"on_timeout: {problem}."


def response_problem(chosen: Choice, given: object) -> str | None:
    """Return why a text does not go with a choice, or None; lengths count UTF-16 units.

    Args:
        given: the text by the input's name; empty for none.
    """
    if not isinstance(given, Mapping):
        return "the input is a mapping of name to text"
    wanted = chosen.input
    if wanted is None:
        return "this choice takes no input" if given else None
    if set(given) - {wanted.name}:
        return f'this choice takes "{wanted.name}" only'
    text = given.get(wanted.name, "")
    if not isinstance(text, str):
        return f'the input "{wanted.name}" is text'
    length = len(text.encode("utf-16-le", "surrogatepass")) // 2
    if not wanted.min_length <= length <= wanted.max_length:
        return (
            f'the input "{wanted.name}" has {wanted.min_length} to {wanted.max_length} characters'
        )
    return None


def _is_blank(text: object) -> bool:
    return not isinstance(text, str) or not text.strip()
