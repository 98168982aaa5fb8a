"""The only way out of the command line: JSON and results to stdout, people's text to stderr.

Texts from a server may hold whatever an author or a program printed, so they lose their control
characters before they reach a terminal; JSON escapes them.
"""

import io
import json
import re
import sys
from typing import Final

import click

from pi_workflows.protocol.canonical import JsonValue

# C0 but tab and newline, DEL, C1, marks that reorder text, and what UTF-8 cannot carry.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def accept_every_character() -> None:
    """Make a stream of a narrow encoding show `?` for what it lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def safe_text(text: str) -> str:
    """Return the text without control characters; newlines and tabs stay."""
    return _UNSAFE.sub("", text)


def safe_line(text: str) -> str:
    """Return the text as one line without control characters."""
    return " ".join(safe_text(text).split())


def json_text(value: JsonValue, *, indent: int | None = None) -> str:
    """Return JSON whose unsafe characters are escaped, keys in their given order."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_json(value: JsonValue) -> None:
    """Print one JSON document as one line of standard output."""
    text = json_text(value)
    if (sys.stdout.encoding or "").lower() not in {"utf-8", "utf8"}:
        text = json.dumps(value)  # Escaped, so that no character can be lost.
    click.echo(text)


def print_text(text: str) -> None:
    """Print a result for a person to standard output."""
    click.echo(safe_text(text))


def print_error(code: str, message: str) -> None:
    """Print the JSON form of an error to standard output."""
    print_json({"error": {"code": str(code), "message": message}})


def tell(text: str) -> None:
    """Print a remark, progress or an error for a person to standard error."""
    click.echo(safe_text(text), err=True)
