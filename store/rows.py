"""Statements in, typed rows out: the only way that store code runs SQL.

A row type is a frozen, slotted dataclass whose fields stand in the order of the SELECT's columns.
Fields typed as an enum or as `bool` are converted; everything else is what SQLite returns.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import apsw

from store.errors import (
    ReadOnlyStateError,
    StateBusyError,
    StorageFault,
    StoreCorrupt,
    StoreError,
)

SqlValue: TypeAlias = str | int | float | bytes | None
Bindings: TypeAlias = Mapping[str, SqlValue]
RowT = TypeVar("RowT")
_Mapping: TypeAlias = Mapping[Any, Any]
_Decoder: TypeAlias = Callable[[tuple[Any, ...]], RowT]

_DECODERS: Final[dict[type[Any], Any]] = {}


def one(
    connection: apsw.Connection, row_type: type[RowT], sql: str, bindings: Bindings
) -> RowT | None:
    """Return the only row of a query, or None if it has none.

    Raises:
        StoreCorrupt: a value is no member of the field's enum.
        AssertionError: the query has more than one row.
    """
    found = many(connection, row_type, sql, bindings)
    assert len(found) <= 1, sql
    return found[0] if found else None


def many(
    connection: apsw.Connection, row_type: type[RowT], sql: str, bindings: Bindings
) -> list[RowT]:
    """Return all rows of a query, in its order.

    Raises:
        StoreCorrupt: a value is no member of the field's enum, or the file is damaged.
    """
    decode = _decoder(row_type)
    try:
        return [decode(row) for row in connection.execute(sql, bindings)]
    except apsw.Error as error:
        _raise_translated(connection, error)
    except KeyError as error:
        raise StoreCorrupt(f"{row_type.__name__} holds a word that no enum knows") from error


def scalar(connection: apsw.Connection, sql: str, bindings: Bindings) -> SqlValue:
    """Return the value of a query of one column and at most one row; None if it has no row."""
    try:
        found = connection.execute(sql, bindings).fetchall()
    except apsw.Error as error:
        _raise_translated(connection, error)
    assert len(found) <= 1, sql
    return found[0][0] if found else None


def execute(connection: apsw.Connection, sql: str, bindings: Bindings) -> int:
    """Run one INSERT, UPDATE or DELETE and return how many rows it changed, cascades aside.

    Raises:
        ReadOnlyStateError: the connection only reads.
        StorageFault: the disk is full or failing.
    """
    try:
        connection.execute(sql, bindings)
    except apsw.Error as error:
        _raise_translated(connection, error)
    return connection.changes()


def translated(error: apsw.Error) -> StoreError | None:
    """Return the store's own error for a failure of the world, None for what is a bug."""
    match error:
        case apsw.BusyError():
            return StateBusyError()
        case apsw.FullError() | apsw.IOError() | apsw.NoMemError() | apsw.CantOpenError():
            return StorageFault(type(error).__name__)
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt("SQLite found the file damaged")
        case _:
            return None


def _raise_translated(connection: apsw.Connection, error: apsw.Error) -> NoReturn:
    if isinstance(error, (apsw.AuthError, apsw.ReadOnlyError)) and connection.readonly("main"):
        raise ReadOnlyStateError from error
    known = translated(error)
    if known is None:
        raise error
    raise known from error


def _decoder(row_type: type[RowT]) -> _Decoder[RowT]:
    known: _Decoder[RowT] | None = _DECODERS.get(row_type)
    if known is None:
        known = _DECODERS[row_type] = _make_decoder(row_type)
    return known


def _make_decoder(row_type: type[RowT]) -> _Decoder[RowT]:
    assert dataclasses.is_dataclass(row_type), row_type
    hints = typing.get_type_hints(row_type)
    found = [_conversion(hints[field.name]) for field in dataclasses.fields(row_type)]
    conversions = [(index, mapping) for index, mapping in enumerate(found) if mapping is not None]
    if not conversions:
        return lambda row: row_type(*row)

    def decode(row: tuple[Any, ...]) -> RowT:
        values = list(row)
        for index, mapping in conversions:
            values[index] = mapping[values[index]]
        return row_type(*values)

    return decode


def _conversion(hint: Any) -> _Mapping | None:  # noqa: ANN401 - an annotation can be anything
    """Return the mapping from stored to typed values, or None if they are the same."""
    if isinstance(hint, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not types.NoneType]
        mapping = _conversion(members[0]) if len(members) == 1 else None
        return None if mapping is None else {**mapping, None: None}
    if hint is bool:
        return {0: False, 1: True}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {member.value: member for member in hint}
    return None
