"""Whether a path of a settings rule leads to a part that the settings can have.

Source: JSON Schema, draft 2020-12, as far as pydantic writes it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.settings_rules import Tokens

_BRANCHES: Final = ("anyOf", "oneOf", "allOf")
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean", "null"})
_REFERENCE: Final = "#/$defs/"
_END: Final = "-"


def leads_somewhere(schema: JsonObject, tokens: Tokens) -> bool:
    """Say whether a document of this schema can have the part; True when it is not known.

    Args:
        schema: with the definitions that it refers to.
        tokens: of a JSON Pointer; an index, or `-`, for an item of a list.
    """
    defs = cast("Mapping[str, JsonValue]", schema.get("$defs", {}))
    return _leads(schema, tokens, defs)


def _leads(schema: JsonValue, tokens: Sequence[str], defs: Mapping[str, JsonValue]) -> bool:
    if not isinstance(schema, dict) or not tokens:
        return schema is not False
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _leads(defs.get(reference.removeprefix(_REFERENCE), True), tokens, defs)
    for members in map(schema.get, _BRANCHES):
        if isinstance(members, list):
            return any(_leads(member, tokens, defs) for member in members)
    if schema.get("type") in _SCALARS or "enum" in schema or "const" in schema:
        return False
    inside = _inside_list if schema.get("type") == "array" else _inside_object
    return inside(schema, tokens, defs)


def _inside_list(schema: JsonObject, tokens: Sequence[str], defs: Mapping[str, JsonValue]) -> bool:
    token, rest = tokens[0], tokens[1:]
    if token != _END and not (token.isascii() and token.isdecimal()):
        return False
    first = schema.get("prefixItems")
    members = [*first] if isinstance(first, list) else []
    return any(_leads(member, rest, defs) for member in (*members, schema.get("items", True)))


def _inside_object(
    schema: JsonObject, tokens: Sequence[str], defs: Mapping[str, JsonValue]
) -> bool:
    token, rest = tokens[0], tokens[1:]
    known = schema.get("properties")
    if isinstance(known, dict) and token in known:
        return _leads(known[token], rest, defs)
    unknown = not isinstance(known, dict) or "patternProperties" in schema
    return _leads(schema.get("additionalProperties", unknown), rest, defs)
