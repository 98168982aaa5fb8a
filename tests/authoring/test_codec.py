"""The JSON rule of stored values: load(dump(value)) equals the value, or NOT_JSON with a path."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from pi_workflows import NotJsonError, Route, ShellResult
from pi_workflows.authoring.codec import ANY_JSON, Codec, UndeclarableType, type_label
from pi_workflows.protocol.canonical import JsonValue, canonical_bytes, load_stored


class Next(StrEnum):
    again = "again"
    enough = "enough"


class Item(BaseModel):
    count: int


class Labelled(Item):
    label: str


class Basket(BaseModel):
    items: list[Item]
    owner: str | None = None


class Aliased(BaseModel):
    first_name: str = Field(alias="firstName")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    at: datetime
    names: set[str]


class Hidden(BaseModel):
    kept: int
    lost: int = Field(default=0, exclude=True)


@dataclass
class Point:
    x: int
    y: int


ODD: Any = ("q", 2)
NAN: Any = (math.nan, 2)


def refused(declared: Any, value: object) -> str:  # noqa: ANN401 - a type form
    with pytest.raises(NotJsonError) as caught:
        Codec(declared).dump(value, where='node "fan" output')
    assert caught.value.code == "NOT_JSON"
    return f"{caught.value.path}: {caught.value.got}"


@pytest.mark.parametrize(
    ("declared", "value", "stored"),
    [
        (list[int], ["1", 2], [1, 2]),
        (int, True, 1),
        (None, None, None),
        (str, "ä\U0001f600", "ä\U0001f600"),
        (Route[Next], Route(route=Next.again), {"route": "again"}),
        (Basket, {"items": [{"count": "3"}]}, {"items": [{"count": 3}], "owner": None}),
        (Aliased, Aliased(firstName="x"), {"firstName": "x"}),
        (Point, Point(1, 2), {"x": 1, "y": 2}),
        (set[int], {7}, [7]),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (dict[int, str], {1: "x"}, {"1": "x"}),
        (date, date(2026, 1, 2), "2026-01-02"),
        (datetime, datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (timedelta, timedelta(seconds=90), "PT1M30S"),
        (Decimal, Decimal("1.10"), "1.10"),
        (UUID, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath, PurePosixPath("/x"), "/x"),
        (Next, Next.again, "again"),
        (float, -0.0, 0),
        (Any, [-0.0, 1.5, None, True, {"a": "b"}], [0, 1.5, None, True, {"a": "b"}]),
        (Any, Next.again, "again"),
        (object, {"a": 1}, {"a": 1}),
        (JsonValue, [1], [1]),
        (Any, 2**53 - 1, 2**53 - 1),
        (Any, 1e300, 1e300),
    ],
)
def test_a_declared_value_is_stored_in_its_json_form(
    declared: Any,  # noqa: ANN401 - a type form
    value: object,
    stored: JsonValue,
) -> None:
    dumped = Codec(declared).dump(value, where="x")
    assert dumped == stored
    assert type(dumped) is type(stored)


def test_the_validated_value_replaces_the_returned_one() -> None:
    codec = Codec(Route[Next])
    loaded = codec.load(codec.dump(Route(route=Next.again), where="x"))
    assert type(loaded) is Route[Next]
    assert loaded.route is Next.again


def test_strict_models_read_back_from_json() -> None:
    codec = Codec(Strict)
    value = Strict(at=datetime(2026, 1, 2, tzinfo=UTC), names={"a"})
    assert codec.load(codec.dump(value, where="x")) == value


def test_the_error_names_node_path_found_and_declared_type() -> None:
    with pytest.raises(NotJsonError) as caught:
        Codec(list[int]).dump([1, 2, datetime.now(UTC)], where='node "fan" output')
    expected = (
        'NotJsonError [NOT_JSON] node "fan" output at $[2]: got datetime, declared list[int].'
    )
    assert str(caught.value) == expected
    assert caught.value.message == expected.removeprefix("NotJsonError [NOT_JSON] ")


@pytest.mark.parametrize(
    ("declared", "value", "finding"),
    [
        (float, math.nan, "$: NaN"),
        (list[float], [1.0, math.nan], "$[1]: NaN"),
        (float | None, math.inf, "$: infinity"),
        (Any, {"a": [-math.inf]}, "$.a[0]: infinity"),
        (int, 2**53, "$: an integer beyond 2^53-1"),
        (Any, {"n": -(2**60)}, "$.n: an integer beyond 2^53-1"),
        (Any, {1, 2}, "$: set"),
        (dict[str, Any], {"s": {1}}, "$.s: set"),
        (dict[str, Any], {"when": datetime.now(UTC)}, "$.when: datetime"),
        (Any, [datetime.now(UTC)], "$[0]: datetime"),
        (Item, Labelled(count=1, label="x"), "$: Labelled"),
        (Basket, Basket(items=[Labelled(count=1, label="x")]), "$.items[0]: Labelled"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_path(
    declared: Any,  # noqa: ANN401 - a type form
    value: object,
    finding: str,
) -> None:
    """Case: B49."""
    assert refused(declared, value) == finding


@pytest.mark.parametrize(
    ("declared", "value", "finding"),
    [
        (str, "\ud800", "$: text with a lone surrogate"),
        (Any, {"a": ["\udfff"]}, "$.a[0]: text with a lone surrogate"),
        (Any, {"\ud800": 1}, "$: text with a lone surrogate"),
        (dict[str, str], {"k": "\ud800"}, "$.k: text with a lone surrogate"),
        (Any, 1e17, "$: an integer beyond 2^53-1"),
        (Any, (1,), "$: tuple"),
        (Any, {1: 2}, "$: a key of type int"),
        (Any, {"odd key": object()}, '$["odd key"]: object'),
        (Any, b"x", "$: bytes"),
        (dict[str, Any], {"o": object()}, "$.o: object"),
        (bytes, b"\xff", "$: bytes without a JSON form"),
        (None, 3, "$: int"),
        (Basket, {"items": [{}]}, "$.items[0].count: nothing"),
        (Basket, {"items": [{"count": "q"}]}, "$.items[0].count: str"),
        (list[Item | int], [{"count": "q"}], "$[0].count: str"),
        (Next, "other", "$: str (enum)"),
        (Hidden, Hidden(kept=1, lost=2), "$.lost: int"),
        (Point, Point(*ODD), "$.x: str that does not read back"),
        (Point, Point(*NAN), "$.x: NaN that does not read back"),
    ],
)
def test_other_values_that_do_not_read_back_equal_are_refused(
    declared: Any,  # noqa: ANN401 - a type form
    value: object,
    finding: str,
) -> None:
    assert refused(declared, value) == finding


def test_a_list_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "nesting deeper than 128" in refused(Any, loop)
    assert refused(list[Any], loop) == "$: list that contains itself"


def test_a_loaded_value_is_a_fresh_copy() -> None:
    stored: JsonValue = {"a": [1]}
    loaded = ANY_JSON.load(stored)
    loaded["a"].append(2)
    assert stored == {"a": [1]}


def test_a_shell_result_is_stored_with_camel_case_names() -> None:
    result = ShellResult("out", "", 0, None, 12, stdout_truncated=True)
    codec = Codec(ShellResult)
    stored = codec.dump(result, where="x")
    assert stored == {
        "stdout": "out",
        "stderr": "",
        "exitCode": 0,
        "signal": None,
        "durationMs": 12,
        "stdoutTruncated": True,
        "stderrTruncated": False,
    }
    assert codec.load(stored) == result


def test_a_type_without_schema_is_refused_in_one_line() -> None:
    class Opaque:
        pass

    with pytest.raises(UndeclarableType) as caught:
        Codec(Opaque)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "label"),
    [
        (int, "int"),
        (None, "None"),
        (Any, "Any"),
        (list[Item], "list[Item]"),
        (dict[str, Any], "dict[str, Any]"),
        (Route[Next], "Route[Next]"),
        (Item | None, "Item | None"),
        (Annotated[list[Item], "note"], "list[Item]"),
        (Mapping[str, Item], "Mapping[str, Item]"),
    ],
)
def test_a_type_is_named_as_its_author_wrote_it(declared: object, label: str) -> None:
    assert type_label(declared) == label


_FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not 2**53 - 1 < abs(number) < 1e21 or not number.is_integer()
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | _FLOATS | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
)


@given(_JSON)
def test_any_json_is_kept_and_survives_storage(value: object) -> None:
    dumped = ANY_JSON.dump(value, where="x")
    assert dumped == value
    stored = canonical_bytes(dumped)
    assert canonical_bytes(load_stored(stored)) == stored
