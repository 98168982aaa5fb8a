"""Turns values of a declared type into stored JSON and back (B §4.5)."""

import re
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails, PydanticSerializationError

from pi_workflows.authoring.broken_models import rule_text
from pi_workflows.authoring.errors import NotJsonError
from pi_workflows.authoring.json_form import (
    Mismatch,
    difference,
    find_member,
    kind_name,
    location_path,
    plain_json,
)
from pi_workflows.protocol.canonical import JsonObject, JsonValue, canonical_bytes

_UNTYPED: Final = (Any, object, JsonValue)
_RULES_OF_TYPE: Final = ("_type", "_parsing", "_required")
"""Endings of pydantic's rule names that say no more than the type does."""


class UndeclarableType(Exception):
    """pydantic knows no JSON form of a declared type; the text is one line."""


class Codec:
    """The JSON form of one declared type.

    Args:
        declared: any type that pydantic can validate; `Any` is JSON as it is, strictly checked.

    Raises:
        UndeclarableType: pydantic has no schema for the type.
    """

    def __init__(self, declared: Any) -> None:  # noqa: ANN401 - a type form, of any kind
        self.declared = declared
        self.label = type_label(declared)
        self._adapter: TypeAdapter[Any] | None = None
        if not any(declared == untyped for untyped in _UNTYPED):
            try:
                self._adapter = TypeAdapter(declared)
            except (PydanticUserError, NameError, TypeError) as error:
                raise UndeclarableType(str(error).partition("\n")[0]) from error

    def dump(self, value: object, *, where: str) -> JsonValue:
        """Validate by the declared type (lax) and return the JSON form of the validated value.

        Args:
            where: whose value this is, for the error, `node "fan" output`.

        Raises:
            NotJsonError: it does not fit the declared type, or would not read back equal.
        """
        try:
            return self._dump(value)
        except Mismatch as found:
            raise NotJsonError(
                where=where, path=found.path, got=found.got, declared=self.label
            ) from None

    def load(self, value: JsonValue) -> Any:  # noqa: ANN401 - of the declared type
        """Return a fresh value of the declared type.

        Raises:
            pydantic.ValidationError: the JSON does not fit; never after `dump` of this codec.
            CanonicalError: the value is not JSON.
        """
        if self._adapter is None:
            return plain_json(value)
        return self._adapter.validate_json(canonical_bytes(value))

    def schema(self) -> JsonObject | None:
        """Return the JSON Schema of the type; None when there is none to be had."""
        if self._adapter is None:
            return None
        try:
            return self._adapter.json_schema()
        except PydanticUserError:  # A type with a validator of its own, in the main.
            return None

    def stored_schema(self) -> JsonObject | None:
        """Return the JSON Schema of the stored form; None when there is none to be had."""
        if self._adapter is None:
            return None
        try:
            return self._adapter.json_schema(mode="serialization")
        except PydanticUserError:
            return None

    def _dump(self, value: object) -> JsonValue:
        if self._adapter is None:
            return plain_json(value)
        validated = _validated(self._adapter, value)
        stored = _serialised(self._adapter, validated)
        try:
            reloaded = self.load(stored)
        except ValidationError as error:
            raise _unreadable(stored, validated, error) from None
        if reloaded != validated:
            path, got = difference(validated, reloaded)
            raise Mismatch(path, kind_name(got))
        return stored


def broken_rules(codec: Codec, value: JsonValue, *, whole: str = "input") -> list[tuple[str, str]]:
    """Return (path, rule) for everything in a JSON value that the declared type refuses.

    The path is a field as pydantic names it (`items[0].name`), or `whole` for the whole value.
    """
    try:
        codec.load(value)
    except ValidationError as error:
        found = error.errors(include_url=False)
        return [_broken_rule(value, rule, whole) for rule in found]
    return []


def unfit(codec: Codec, made: object) -> list[tuple[str, str]]:
    """Return what `broken_rules` does, for a value that an author's code has made."""
    adapter = codec._adapter  # noqa: SLF001 - of a class of this module
    try:
        if adapter is not None:
            adapter.validate_python(made)
    except ValidationError as error:
        return [_broken_rule(made, found) for found in error.errors(include_url=False)]
    except UnicodeEncodeError:  # The text of the mismatch names the place.
        pass
    return []


def _broken_rule(value: object, found: ErrorDetails, whole: str = "input") -> tuple[str, str]:
    missing = found["type"] == "missing"
    path = location_path(value, found["loc"], missing=missing)
    return path.removeprefix("$").removeprefix(".") or whole, rule_text(found)


def _validated(adapter: TypeAdapter[Any], value: object) -> object:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise _mismatch(value, error) from None
    except UnicodeEncodeError:
        raise _surrogate(value) from None


def _serialised(adapter: TypeAdapter[Any], value: object) -> JsonValue:
    """Dump in JSON mode; what has no form becomes null, so that the comparison finds its path."""
    try:
        dumped = adapter.dump_python(
            value, mode="json", by_alias=True, warnings=False, fallback=lambda _unknown: None
        )
    except UnicodeEncodeError:
        raise _surrogate(value) from None
    except (PydanticSerializationError, UnicodeDecodeError):
        raise Mismatch("$", f"{type(value).__name__} without a JSON form") from None
    except (ValueError, RecursionError):
        raise Mismatch("$", f"{type(value).__name__} that contains itself") from None
    return plain_json(dumped)


def _surrogate(value: object) -> Mismatch:
    """Find the place of a lone surrogate as far as plain containers lead to it."""
    try:
        plain_json(value)
    except Mismatch as found:
        if "surrogate" in found.got:
            return found
    return Mismatch("$", "text with a lone surrogate")


def _mismatch(value: object, error: ValidationError) -> Mismatch:
    first = error.errors(include_url=False)[0]
    missing = first["type"] == "missing"
    path = location_path(value, first["loc"], missing=missing)
    return Mismatch(path, "nothing" if missing else _kind(first))


def _unreadable(stored: JsonValue, value: object, error: ValidationError) -> Mismatch:
    """Name what `value` has where its stored form does not read back."""
    location = error.errors(include_url=False)[0]["loc"]
    got = value
    for key in location:
        found, member = find_member(got, key)
        got = member if found else got
    path = location_path(stored, location, missing=True)
    return Mismatch(path, f"{kind_name(got)} that does not read back")


def _kind(error: ErrorDetails) -> str:
    """Name the offending value's type, and the rule when the type alone does not explain it."""
    got = type(error["input"]).__name__
    rule = error["type"]
    return got if rule.endswith(_RULES_OF_TYPE) else f"{got} ({rule})"


def type_label(declared: object) -> str:
    """Return a type as its author wrote it, without module names: `list[int]`."""
    if declared is None or declared is type(None):
        return "None"
    if get_origin(declared) is Annotated:
        return type_label(get_args(declared)[0])
    text = declared.__qualname__ if type(declared) is type else repr(declared)
    if isinstance(declared, type) and not hasattr(declared, "__origin__"):
        text = declared.__name__
    return re.sub(r"(?:[A-Za-z_]\w*\.|<locals>\.)+(?=\w)", "", text)


ANY_JSON: Final = Codec(Any)
"""Takes any JSON as it is."""
