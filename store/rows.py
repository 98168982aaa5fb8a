"""Statements in, typed rows out: the only way that store code runs SQL.

A row type is a frozen, slotted dataclass whose fields stand in the order of the SELECT's columns,
or a named tuple: what every step of every run reads is one, for it is made in 0.2 us and not in 2.
Fields typed as an enum or as `bool` are converted; everything else is what SQLite returns. A named
tuple whose fields are named tuples takes the columns of a join, one row after the other.
"""

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import apsw

from store.damage import StateDamaged
from store.errors import (
    ReadOnlyStateError,
    StateBusyError,
    StorageFault,
    StoreCorrupt,
    StoreError,
)

SqlValue: TypeAlias = str | int | float | bytes | None
Bindings: TypeAlias = Mapping[str, SqlValue]
Executor: TypeAlias = apsw.Connection | apsw.Cursor
RowT = TypeVar("RowT")
_Mapping: TypeAlias = Mapping[Any, Any]
_Decoder: TypeAlias = Callable[[tuple[Any, ...]], RowT]

_DECODERS: Final[dict[type[Any], Any]] = {}
_NONE: Final = types.NoneType


def one(executor: Executor, row_type: type[RowT], sql: str, bindings: Bindings) -> RowT | None:
    """Return the only row of a query, or None if it has none.

    Raises:
        StoreCorrupt: a value is no member of the field's enum.
        AssertionError: the query has more than one row.
    """
    found = _fetch(executor, sql, bindings)
    if not found:
        return None
    assert len(found) == 1, sql
    decode = _DECODERS.get(row_type) or _decoder(row_type)
    try:
        decoded: RowT = decode(found[0])
    except KeyError as error:
        raise _unknown_word(row_type) from error
    return decoded


def many(executor: Executor, row_type: type[RowT], sql: str, bindings: Bindings) -> list[RowT]:
    """Return all rows of a query, in its order.

    Raises:
        StoreCorrupt: a value is no member of the field's enum, or the file is damaged.
    """
    found = _fetch(executor, sql, bindings)
    decode = _decoder(row_type)
    try:
        return [decode(row) for row in found]
    except KeyError as error:
        raise _unknown_word(row_type) from error


def _fetch(executor: Executor, sql: str, bindings: Bindings) -> list[Any]:
    try:
        return executor.execute(sql, bindings).fetchall()
    except apsw.Error as error:
        raise_translated(executor, error)


def _unknown_word(row_type: type[RowT]) -> StoreCorrupt:
    return StoreCorrupt(f"{row_type.__name__} holds a word that no enum knows")


def scalar(connection: apsw.Connection, sql: str, bindings: Bindings) -> SqlValue:
    """Return the value of a query of one column and at most one row; None if it has no row."""
    try:
        found = connection.execute(sql, bindings).fetchall()
    except apsw.Error as error:
        raise_translated(connection, error)
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
        raise_translated(connection, error)
    return connection.changes()


def translated(error: apsw.Error) -> StoreError | None:
    """Return the store's own error for a failure of the world, None for what is a bug."""
    match error:
        case apsw.BusyError():
            return StateBusyError()
        case apsw.FullError() | apsw.IOError() | apsw.NoMemError() | apsw.CantOpenError():
            return StorageFault(type(error).__name__)
        case apsw.CorruptError() | apsw.NotADBError():
            return StateDamaged()
        case _:
            return None


def raise_translated(executor: Executor, error: apsw.Error) -> NoReturn:
    """Raise the store's own error for `error`, or itself where it is a bug."""
    connection = executor if isinstance(executor, apsw.Connection) else executor.connection
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
    parts = _parts(row_type)
    if parts:
        return _join_decoder(row_type, parts)
    hints = typing.get_type_hints(row_type)
    found = [_conversion(hints[name]) for name in column_names(row_type)]
    conversions = [(index, mapping) for index, mapping in enumerate(found) if mapping is not None]
    make = _maker(row_type)
    if not conversions:
        return make

    def decode(row: tuple[Any, ...]) -> RowT:
        values = list(row)
        for index, mapping in conversions:
            values[index] = mapping[values[index]]
        return make(values)

    return decode


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """One row type inside another, and which of its columns are that row.

    Attributes:
        optional: the row is absent where its first column is null, as a LEFT JOIN leaves it.
    """

    row_type: type[Any]
    columns: slice
    optional: bool


def _join_decoder(row_type: type[RowT], parts: list[_Part]) -> _Decoder[RowT]:
    make = _maker(row_type)
    decoders = [(part.columns, part.optional, _decoder(part.row_type)) for part in parts]

    def decode(row: tuple[Any, ...]) -> RowT:
        return make(
            [
                None if optional and row[columns.start] is None else decode_part(row[columns])
                for columns, optional, decode_part in decoders
            ]
        )

    return decode


def _parts(row_type: type[Any]) -> list[_Part]:
    """Return the rows that a row type consists of; empty if its fields are columns."""
    parts: list[_Part] = []
    width = 0
    for hint in typing.get_type_hints(row_type).values():
        members = [member for member in typing.get_args(hint) or (hint,) if member is not _NONE]
        member = members[0]
        if not (isinstance(member, type) and hasattr(member, "_fields")):
            return []
        first, width = width, width + len(column_names(member))
        parts.append(_Part(member, slice(first, width), optional=member is not hint))
    return parts


def column_names(row_type: type[Any]) -> tuple[str, ...]:
    """Return the names of the columns that make a row type, in the order of the SELECT."""
    parts = _parts(row_type)
    if parts:
        return tuple(name for part in parts for name in column_names(part.row_type))
    if issubclass(row_type, tuple):
        names: tuple[str, ...] = row_type._fields  # type: ignore[attr-defined]
        return names
    return tuple(field.name for field in dataclasses.fields(row_type))


def _maker(row_type: type[RowT]) -> Callable[[Sequence[Any]], RowT]:
    """Return what makes a row of its values; for a named tuple that is one call in C."""
    if issubclass(row_type, tuple):
        return functools.partial(tuple.__new__, row_type)
    return lambda values: row_type(*values)


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
