"""Results of commands as JSON and back: what a process tells its controller of an answer.

Only plain facts pass: numbers, texts, bytes, collections, enums, and rows and dataclasses of them.
Nothing is run on reading but the lookup of a class by its name.
"""

import dataclasses
import importlib
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Any, Final, cast

from pi_workflows.protocol.canonical import JsonValue
from runtime.chaos.outcome import ScenarioRefused

_COLLECTIONS: Final[dict[str, Callable[[list[object]], object]]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}


def told(result: object) -> JsonValue:
    """Return a result as JSON.

    Raises:
        ScenarioRefused: it holds something that another process could not understand.
    """
    kind = type(result)
    if result is None or kind in {bool, int, float, str}:
        return cast("JsonValue", result)
    if isinstance(result, bytes):
        return {"bytes": result.hex()}
    if isinstance(result, Enum):
        return {"enum": _class_name(kind), "name": result.name}
    if isinstance(result, dict):
        return {"dict": [[told(key), told(value)] for key, value in result.items()]}
    if kind.__name__ in _COLLECTIONS and kind.__module__ == "builtins":
        items = sorted(result, key=repr) if isinstance(result, set | frozenset) else result
        return {kind.__name__: [told(item) for item in cast("list[object]", items)]}
    fields = _fields(result)
    return {"row": _class_name(kind), "fields": {name: told(fields[name]) for name in fields}}


def understood(message: JsonValue) -> Any:  # noqa: ANN401 - whatever was told
    """Return what `told` was given, as an equal object."""
    if not isinstance(message, dict):
        return message
    if "row" in message:
        return _row(message)
    kind, value = next(iter(message.items()))
    if kind == "bytes":
        return bytes.fromhex(cast("str", value))
    if kind == "enum":
        return _class_of(value)[message["name"]]
    items = [understood(item) for item in cast("list[JsonValue]", value)] if kind != "dict" else []
    if kind == "dict":
        pairs = cast("list[list[JsonValue]]", value)
        return {understood(key): understood(held) for key, held in pairs}
    return _COLLECTIONS[kind](items)


def _row(message: dict[str, JsonValue]) -> object:
    row_class = _class_of(message["row"])
    fields = cast("dict[str, JsonValue]", message["fields"])
    values = {name: understood(value) for name, value in fields.items()}
    if issubclass(row_class, tuple):
        return row_class(**values)
    row = object.__new__(row_class)
    for name, value in values.items():
        object.__setattr__(row, name, value)
    return row


def _fields(result: object) -> dict[str, object]:
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {each.name: getattr(result, each.name) for each in dataclasses.fields(result)}
    if isinstance(result, tuple) and hasattr(result, "_asdict"):
        return cast("dict[str, object]", result._asdict())
    raise ScenarioRefused(
        f"a command returns a {type(result).__qualname__}, which one process cannot tell another;"
        " let it return numbers, texts, or a dataclass of them."
    )


def _class_name(kind: type) -> str:
    if "<locals>" in kind.__qualname__:
        raise ScenarioRefused(
            f"a command returns a {kind.__qualname__}, which another process does not find;"
            " define that class at the top of its module."
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_of(name: JsonValue) -> Any:  # noqa: ANN401 - a class of any kind
    module, _, path = cast("str", name).partition(":")
    return attrgetter(path)(importlib.import_module(module))
