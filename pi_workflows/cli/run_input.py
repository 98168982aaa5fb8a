"""Reads the input of a run: JSON text of the command line, of a file or of standard input."""

import math
import sys
from pathlib import Path
from typing import Final

from pi_workflows.cli.context import usage_problem
from pi_workflows.protocol.canonical import (
    INTEGER_MAX,
    CanonicalError,
    JsonValue,
    parse_json,
)
from pi_workflows.protocol.errors import ErrorCode

_SUFFIX: Final = ".py"
_JSON_BEGINNINGS: Final = '{["-0123456789'
_QUOTES_HINT: Final = """; a text needs its own quotes: --input '"Ada"'"""


def reference_of(workflow: str) -> str:
    """Return how a server is told of a workflow: a path as an absolute one, a name as it is.

    A file here whose name has a suffix is a path, too: what is wrong with it can then be said.
    """
    path = Path(workflow)
    if "/" in workflow or workflow.endswith(_SUFFIX) or (path.suffix and path.is_file()):
        return str(Path(workflow).expanduser().absolute())
    return workflow


def read_input(text: str | None, *, option: str = "--input") -> JsonValue:
    """Return the value that an option gives; None, which is null, when it was not said.

    Args:
        text: JSON, `@FILE`, or `-` for standard input.
        option: what errors call it.

    Raises:
        ClientError: the file cannot be read, or what is there has no canonical JSON form. The
            message says where it stands and repeats nothing of it.
    """
    if text is None:
        return None
    source, data = _source(text, option)
    try:
        value = parse_json(data)
    except CanonicalError as error:
        bare = source == "--input" and not text.lstrip().startswith(tuple(_JSON_BEGINNINGS))
        hint = _QUOTES_HINT if bare else ""
        cause = str(error).removeprefix("not JSON: ")
        message = f"{source} is not JSON: {cause}{hint}"
        raise usage_problem(message, ErrorCode.NOT_JSON) from error
    require_numbers(value, source)
    return value


def require_numbers(value: JsonValue, source: str) -> None:
    """Refuse a value with a number that no frame can carry.

    Args:
        source: what the error calls it.

    Raises:
        ClientError: there is one; the message names its place.
    """
    found = _too_big(value, "$")
    if found is not None:
        message = f"{source}: {found}; give it as a text"
        raise usage_problem(message, ErrorCode.PAYLOAD_INVALID)


def _source(text: str, option: str) -> tuple[str, bytes]:
    """Return what to call the source, and its bytes."""
    if text == "-":
        return "standard input", sys.stdin.buffer.read()
    if not text.startswith("@"):
        return option, text.encode(errors="surrogateescape")
    name = text[1:]
    try:
        return name, Path(name).expanduser().read_bytes()
    except (OSError, RuntimeError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise usage_problem(f"cannot read the input file {name}: {reason}") from error


def _too_big(value: JsonValue, path: str) -> str | None:
    """Say where the first number stands that no frame can carry; None without one."""
    if isinstance(value, int) and not -INTEGER_MAX <= value <= INTEGER_MAX:
        return f"the integer at {path} is beyond 2^53-1"
    if isinstance(value, float) and not math.isfinite(value):
        return f"the number at {path} is beyond a double"
    members: list[tuple[str, JsonValue]] = []
    if isinstance(value, dict):
        members = [(f"{path}.{name}", member) for name, member in value.items()]
    elif isinstance(value, list):
        members = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    return next((found for place, it in members if (found := _too_big(it, place))), None)
