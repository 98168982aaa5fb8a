"""What a switch can meet at a path, read from the declared output type."""

from enum import Enum
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pi_workflows.authoring.codec import type_label
from pi_workflows.authoring.route import Decision
from pi_workflows.protocol.definition import case_text


def route_path(declared: object) -> str | None:
    """Return the path at which a declared output decides the way, `$.route` for a `Route`.

    None for an output that is no decision between texts, numbers or booleans of one enum.
    """
    if not isinstance(declared, type) or not issubclass(declared, Decision):
        return None
    field = declared.model_fields.get(declared.decided_by)
    if field is None:
        return None
    path = f"$.{_stored_name(declared.decided_by, field)}"
    return None if declared_choices(declared, path) is None else path


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
        if _stored_name(field_name, field) == name:
            return field.annotation
    return None


def _stored_name(name: str, field: FieldInfo) -> str:
    return field.serialization_alias or field.alias or name
