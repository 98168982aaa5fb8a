"""What a switch can meet at a path, read from the declared output type."""

from enum import Enum
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel

from pi_workflows.authoring.codec import type_label
from pi_workflows.authoring.route import Route
from pi_workflows.protocol.definition import case_text

ROUTE_PATH: Final = "$.route"


def is_route(declared: object) -> bool:
    """Say whether a declared output type is a `Route` of an enum of texts, numbers or booleans."""
    named = isinstance(declared, type) and issubclass(declared, Route)
    return named and declared_choices(declared, ROUTE_PATH) is not None


def declared_choices(declared: object, path: str) -> dict[str, str] | None:
    """Return {case text: name for people} of a closed type at `path`; None when it is open.

    Closed are enums of text, numbers or booleans, and `Literal`. A path below `$result.` is open:
    outcomes have a rule of their own.
    """
    root, *names = path.split(".")
    if root == "$result":
        return None
    for name in names:
        declared = _member_type(declared, name)
    if isinstance(declared, type) and issubclass(declared, Enum):
        members = [(member.value, f"{declared.__name__}.{member.name}") for member in declared]
    elif get_origin(declared) is Literal:
        members = [(value, repr(value)) for value in get_args(declared)]
    else:
        return None
    if not all(isinstance(value, str | int | float) for value, _ in members):
        return None
    return {case_text(value): label for value, label in members}


def choices_label(declared: object, path: str) -> str:
    """Return the name of the closed type at `path`."""
    for name in path.split(".")[1:]:
        declared = _member_type(declared, name)
    return type_label(declared)


def _member_type(declared: object, name: str) -> Any:  # noqa: ANN401 - a type form
    if not isinstance(declared, type) or not issubclass(declared, BaseModel):
        return None
    for field_name, field in declared.model_fields.items():
        if (field.serialization_alias or field.alias or field_name) == name:
            return field.annotation
    return None
