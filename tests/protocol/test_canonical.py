"""Canonical JSON: one value has one byte form, and it is that of RFC 8785."""

import math
from typing import Any, Final, cast

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from pi_workflows.protocol import canonical
from pi_workflows.protocol.canonical import (
    DEPTH_MAX,
    INTEGER_MAX,
    CanonicalError,
    canonical_bytes,
    canonical_text,
    digest,
    digest_hex,
    parse_json,
)

INTEGERS: Final = st.integers(-INTEGER_MAX, INTEGER_MAX)
TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS: Final = st.none() | st.booleans() | INTEGERS | TEXTS
FLOATS: Final = st.floats(allow_nan=False, allow_infinity=False)


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Arbitrary JSON over these leaves."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ({"a": {"d": 1, "c": [3, 2]}, "": None}, '{"":null,"a":{"c":[3,2],"d":1}}'),
        (1.0, "1"),
        (1e-7, "1e-7"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (5e-324, "5e-324"),
        ({"emoji": "\U0001f600"}, '{"emoji":"\U0001f600"}'),
        ("é\u2028", '"é\u2028"'),
        ('"\\\b\f\n\r\t\x00\x1f\x7f/', '"\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\x7f/"'),
        (INTEGER_MAX, "9007199254740991"),
        (-INTEGER_MAX, "-9007199254740991"),
    ],
)
def test_value_has_its_one_form(value: object, text: str) -> None:
    """Sorted keys, no spaces, ECMAScript numbers, only what must be escaped is.

    Case: A11, C17.
    """
    assert canonical_text(value) == text
    assert canonical_bytes(value) == text.encode()
    assert canonical_bytes(parse_json(text)) == text.encode()


def test_keys_are_sorted_by_utf16_code_units() -> None:
    """An emoji's surrogates sort before U+FB33, its code point after it.

    Case: A11.
    """
    assert canonical_text({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        INTEGER_MAX + 1,
        -INTEGER_MAX - 1,
        {1: "one"},
        {None: 1},
        "\ud800",
        {"\ud800": 1},
        b"bytes",
        (1, 2),
        {1, 2},
        object(),
    ],
    ids=repr,
)
def test_value_without_a_canonical_form_is_refused(value: object) -> None:
    """Alone and deep inside, on the fast way and on the slow one.

    Case: A12.
    """
    for holder in (value, {"a": [1, value]}, {"a": [0.5, value]}):
        with pytest.raises(CanonicalError):
            canonical_bytes(holder)


def nested(depth: int, leaf: object) -> object:
    for _ in range(depth):
        leaf = [leaf]
    return leaf


@pytest.mark.parametrize("leaf", [1, 0.5])
def test_nesting_is_bounded(leaf: float) -> None:
    """The same bound for writing and for reading."""
    deepest = nested(DEPTH_MAX, leaf)
    text = canonical_text(deepest)
    assert parse_json(text) == deepest
    with pytest.raises(CanonicalError):
        canonical_bytes([deepest])
    with pytest.raises(CanonicalError):
        parse_json(f"[{text}]")
    with pytest.raises(CanonicalError):
        parse_json("[" * 100_000)


@given(trees(SCALARS))
def test_bytes_without_floats_equal_rfc_8785(value: object) -> None:
    """The fast way and the reference agree on everything that the one-pass check lets through.

    Case: A11.
    """
    assert canonical_bytes(value) == rfc8785.dumps(cast("Any", value))


@given(trees(SCALARS | FLOATS))
def test_bytes_with_floats_equal_rfc_8785(value: object) -> None:
    """Case: A11."""
    assert canonical_bytes(value) == rfc8785.dumps(cast("Any", value))


@given(trees(SCALARS | FLOATS))
def test_canonical_text_reads_back_as_itself(value: object) -> None:
    """Reading and writing again changes no byte, strictly read or not."""
    written = canonical_bytes(value)
    assert canonical_bytes(parse_json(written)) == written
    assert canonical_bytes(canonical.load_stored(written)) == written


@pytest.mark.parametrize("bound", [1e-7, 1e-6, 1e-5, 1e-4, 1e15, 1e16, 2.0**53, 1e21])
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_around_a_change_of_notation_equal_rfc_8785(bound: float, sign: int) -> None:
    """Also right where the fast way ends."""
    below = above = bound
    for _ in range(50):
        for value in (below, above):
            assert canonical_bytes([sign * value]) == rfc8785.dumps([sign * value])
        below, above = math.nextafter(below, 0), math.nextafter(above, math.inf)


@pytest.mark.parametrize("value", [2.0**53, -(2.0**53), 2.0**60, 1e20, 999999999999999900000.0])
def test_large_double_without_a_fraction_round_trips(value: float) -> None:
    """It is written without an exponent and is still the same number when it is read.

    Case: C17.
    """
    written = canonical_bytes({"a": [value]})
    assert b"." not in written
    assert b"e" not in written
    for read in (parse_json(written), canonical.load_stored(written)):
        assert read == {"a": [value]}
        assert canonical_bytes(read) == written


@pytest.mark.parametrize("text", ["9007199254740993", "1152921504606846976", "1" + "0" * 400])
def test_integer_that_is_no_double_keeps_its_digits_and_is_refused(text: str) -> None:
    """Nothing is rounded in silence: who wants to store it is told.

    Case: A12.
    """
    read = parse_json(text)
    assert read == int(text)
    with pytest.raises(CanonicalError):
        canonical_bytes(read)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"b":{"a":1,"a":1}}',
        "NaN",
        "[Infinity]",
        "-Infinity",
        "",
        "{",
        "{'a':1}",
        "[1,]",
        "1 2",
        b"\xff",
        b'"\xc3"',
    ],
)
def test_text_that_is_not_strict_json_is_refused(text: str | bytes) -> None:
    """Case: C17."""
    with pytest.raises(CanonicalError):
        parse_json(text)


def test_digest_is_sha_256_in_both_spellings() -> None:
    assert digest(b"").hex() == digest_hex(b"")
    assert digest_hex(b"").startswith("e3b0c44298fc1c14")
