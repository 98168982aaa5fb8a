"""Canonical JSON (RFC 8785) and strict parsing.

One value has one byte form, so digests, blob keys and request fingerprints can be compared.
`orjson` with sorted keys is used when a single pass finds only values on which it equals
RFC 8785; everything else goes through the `rfc8785` package (measured: 45 to 70 times slower).

Source: RFC 8785, JSON Canonicalization Scheme.
"""

import hashlib
import json
from typing import Final, NoReturn, TypeAlias, cast

import orjson

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]

INTEGER_MAX: Final = 2**53 - 1
DEPTH_MAX: Final = 128
_BMP_MAX: Final = "\uffff"

# Between these orjson and ECMAScript both write the shortest digits without an exponent; beyond
# them, and for whole doubles, they do not agree.
_PLAIN_MIN: Final = 1e-4
_PLAIN_MAX: Final = 1e15

# orjson reads a large double without a fraction as an integer. Such a number has 16 digits or
# more; the search costs a third of the parsing, a regular expression five times as much.
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * 16


class CanonicalError(ValueError):
    """A value or text has no canonical JSON form; the message names the place, not the value."""


def canonical_bytes(value: object) -> bytes:
    """Return the canonical UTF-8 bytes of a JSON value, without a newline.

    Raises:
        CanonicalError: a non-finite number, an integer beyond 2^53-1, a key that is no string, a
            lone surrogate, nesting deeper than 128, or any other type.
    """
    if _orjson_is_canonical(value, 0):
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except (TypeError, ValueError) as error:
            raise CanonicalError("a text holds a lone surrogate") from error
    return _slow_canonical_bytes(value)


def canonical_text(value: object) -> str:
    """Like `canonical_bytes`, as text."""
    return canonical_bytes(value).decode()


def digest(data: bytes) -> bytes:
    """Return the SHA-256 of the bytes (32 bytes)."""
    return hashlib.sha256(data).digest()


def digest_hex(data: bytes) -> str:
    """Return the SHA-256 of the bytes as 64 lowercase hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def parse_json(data: bytes | str) -> JsonValue:
    """Parse one JSON text strictly.

    A number is a double, as in ECMAScript: the canonical text of a large one has no fraction and
    reads back as the `float` that it was. An integer beyond 2^53-1 that is no such text stays an
    `int`, which has no canonical form.

    Raises:
        CanonicalError: not JSON, a duplicate key, NaN or infinity, nesting deeper than 128, or
            text that is not UTF-8.
    """
    try:
        value: JsonValue = json.loads(
            data,
            object_pairs_hook=_object_of_unique_keys,
            parse_constant=_refuse_constant,
            parse_int=_parse_integer,
        )
    except CanonicalError:
        raise
    except (ValueError, RecursionError) as error:
        raise CanonicalError(_parse_problem(error)) from error
    _check_depth(value, 0)
    return value


def may_hold_long_numbers(data: bytes) -> bool:
    """Say whether a text has 16 digits in a row: orjson may read such a number otherwise."""
    return _LONG_NUMBER in data.translate(_DIGITS_TO_ZERO)


def load_stored(data: bytes) -> JsonValue:
    """Parse bytes that this system wrote and checked before; fast, not strict."""
    if may_hold_long_numbers(data):
        return parse_json(data)
    value: JsonValue = orjson.loads(data)
    return value


def _orjson_is_canonical(value: object, depth: int) -> bool:
    """Say whether orjson's bytes of this value equal RFC 8785; refuse what has no form at all."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return _is_exact(cast("int", value))
    if kind is float:
        return _is_plain(cast("float", value))
    if depth >= DEPTH_MAX:
        raise CanonicalError(f"nesting is deeper than {DEPTH_MAX}")
    if kind is dict:
        return _members_are_canonical(cast("dict[object, object]", value), depth + 1)
    if kind is list:
        fast = True
        for item in cast("list[object]", value):
            fast = _orjson_is_canonical(item, depth + 1) and fast
        return fast
    raise CanonicalError(f"a {kind.__name__} is not a JSON value")


def _members_are_canonical(members: dict[object, object], depth: int) -> bool:
    """Look at keys and values; keys beyond the BMP sort otherwise in UTF-16 than in UTF-8."""
    fast = True
    for key, member in members.items():
        if type(key) is not str:
            raise CanonicalError("an object key is not a string")
        fast = (key.isascii() or max(key) <= _BMP_MAX) and fast
        fast = _orjson_is_canonical(member, depth) and fast
    return fast


def _is_plain(number: float) -> bool:
    """Say whether this double has the same text everywhere: a fraction and no exponent."""
    return _PLAIN_MIN <= abs(number) < _PLAIN_MAX and number % 1 != 0


def _is_exact(number: int) -> bool:
    if not -INTEGER_MAX <= number <= INTEGER_MAX:
        raise CanonicalError("an integer is beyond 2^53-1")
    return True


def _slow_canonical_bytes(value: object) -> bytes:
    # Late: pure Python and rare, only floats and keys outside the BMP come here.
    import rfc8785  # noqa: PLC0415

    try:
        return rfc8785.dumps(value)  # type: ignore[arg-type]
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise CanonicalError("a number is not finite or a text holds a lone surrogate") from error


def _object_of_unique_keys(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise CanonicalError("an object has a key twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise CanonicalError(f"{name} is not JSON")


def _parse_integer(text: str) -> int | float:
    number = int(text)
    if -INTEGER_MAX <= number <= INTEGER_MAX:
        return number
    try:
        double = float(number)
    except OverflowError:
        return number
    return double if _slow_canonical_bytes(double).decode() == text else number


def _parse_problem(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, RecursionError):
        return f"nesting is deeper than {DEPTH_MAX}"
    if isinstance(error, UnicodeDecodeError):
        return "not JSON: the text is not UTF-8"
    return "a number has too many digits"


def _check_depth(value: JsonValue, depth: int) -> None:
    if depth >= DEPTH_MAX and isinstance(value, dict | list):
        raise CanonicalError(f"nesting is deeper than {DEPTH_MAX}")
    if isinstance(value, dict):
        for member in value.values():
            _check_depth(member, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_depth(item, depth + 1)
