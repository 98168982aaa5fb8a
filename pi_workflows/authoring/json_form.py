"""The strict JSON rules of stored values, and places inside values."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from pydantic import BaseModel

from pi_workflows.protocol.canonical import DEPTH_MAX, INTEGER_MAX, JsonValue

_KEY_SHOWN_CHARS: Final = 64
_PATH_SHOWN_CHARS: Final = 256
_FLOAT_WITH_EXPONENT_MIN: Final = 1e21
"""From here on the canonical form of a float has an exponent; below it reads as an integer."""


class Mismatch(Exception):
    """A value breaks a rule at a path; `got` names the kind of value, never its text."""

    def __init__(self, path: str, got: str) -> None:
        super().__init__(path, got)
        self.path = path if len(path) <= _PATH_SHOWN_CHARS else f"{path[:_PATH_SHOWN_CHARS]}…"
        self.got = got


def child_path(path: str, key: object) -> str:
    """Return the path of a member: `$.name`, `$[2]`, or `$["odd key"]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    name = str(key)
    if name.isidentifier():
        return f"{path}.{name}"
    return f"{path}[{json.dumps(name[:_KEY_SHOWN_CHARS])}]"


def plain_json(value: object, path: str = "$", depth: int = 0) -> JsonValue:
    """Return a fresh copy of a JSON value, with -0 as 0 and subclasses of scalars made plain.

    Raises:
        Mismatch: anything that is not JSON: another type, a key that is no text, NaN or
            infinity, an integer beyond 2^53-1, a lone surrogate, nesting deeper than 128.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _plain_text(value, path)
    if isinstance(value, int | float):
        return _plain_number(value, path)
    if depth > DEPTH_MAX:
        raise Mismatch(path, f"nesting deeper than {DEPTH_MAX}")
    if type(value) is list:
        return [plain_json(m, f"{path}[{i}]", depth + 1) for i, m in enumerate(value)]
    if type(value) is dict:
        return {
            _plain_key(key, path): plain_json(member, child_path(path, key), depth + 1)
            for key, member in value.items()
        }
    raise Mismatch(path, type(value).__name__)


def _plain_text(text: str, path: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Mismatch(path, "text with a lone surrogate") from None
    return str.__str__(text)


def _plain_key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise Mismatch(path, f"a key of type {type(key).__name__}")
    return _plain_text(key, path)


def _plain_number(number: float, path: str) -> float:
    if isinstance(number, int):
        if abs(number) > INTEGER_MAX:
            raise Mismatch(path, "an integer beyond 2^53-1")
        return int(number)
    if not math.isfinite(number):
        raise Mismatch(path, kind_name(number))
    if number == 0:
        return 0
    if number.is_integer() and INTEGER_MAX < abs(number) < _FLOAT_WITH_EXPONENT_MIN:
        raise Mismatch(path, "an integer beyond 2^53-1")
    return float(number)


def kind_name(value: object) -> str:
    """Return the kind of a value for an error text: its type, or `NaN`, or `infinity`."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinity"
    return type(value).__name__


def difference(left: object, right: object, path: str = "$") -> tuple[str, object]:
    """Return the path of the first difference of two unequal values, and what `left` has there."""
    if type(left) is type(right):
        for key, member in _members(left):
            place = child_path(path, key)
            found, other = find_member(right, key)
            if not found:
                return place, member
            if member != other:
                return difference(member, other, place)
    return path, left


def _members(value: object) -> list[tuple[object, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    if isinstance(value, BaseModel):
        return list(value)
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    return []


def find_member(value: object, key: object) -> tuple[bool, Any]:
    """Return (found, member) of a container by key, index or attribute."""
    if isinstance(value, Mapping):
        return (True, value[key]) if key in value else (False, None)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        inside = isinstance(key, int) and key < len(value)
        return (True, value[key]) if isinstance(key, int) and inside else (False, None)
    if isinstance(key, str) and not key.startswith("_") and hasattr(value, key):
        return True, getattr(value, key)
    return False, None


def location_path(value: object, location: Sequence[str | int], *, missing: bool) -> str:
    """Return the path of a pydantic error location inside the value that was validated.

    pydantic mixes names of union branches and validators into locations; what is no place in
    `value` is left out.

    Args:
        missing: the last part names what is absent, so it is kept.
    """
    path, place = "$", value
    last = len(location) - 1
    for index, key in enumerate(location):
        found, member = find_member(place, key)
        if found:
            path, place = child_path(path, key), member
        elif (missing and index == last) or isinstance(place, set | frozenset):
            path = child_path(path, key)
    return path
