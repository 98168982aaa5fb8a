"""Statements in, typed rows out."""

import enum
from dataclasses import dataclass
from typing import NamedTuple

import apsw
import pytest

from store.errors import StorageFault, StoreCorrupt
from store.rows import column_names, execute, many, one, scalar


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class PaintRow:
    name: str
    colour: Colour
    undercoat: Colour | None
    dry: bool
    litres: int | None


SELECT_PAINT = "SELECT name, colour, undercoat, dry, litres FROM paint WHERE name >= :least"


@pytest.fixture
def connection() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(
        "CREATE TABLE paint (name TEXT, colour TEXT, undercoat TEXT, dry INTEGER, litres INTEGER)"
        " STRICT"
    )
    connection.execute("INSERT INTO paint VALUES ('a', 'red', NULL, 1, NULL)")
    connection.execute("INSERT INTO paint VALUES ('b', 'blue', 'red', 0, 7)")
    return connection


def test_rows_are_typed_by_their_fields(connection: apsw.Connection) -> None:
    """Enums and truth values come back as themselves, nulls stay null."""
    assert many(connection, PaintRow, SELECT_PAINT, {"least": "a"}) == [
        PaintRow("a", Colour.RED, None, dry=True, litres=None),
        PaintRow("b", Colour.BLUE, Colour.RED, dry=False, litres=7),
    ]
    found = one(connection, PaintRow, SELECT_PAINT, {"least": "b"})
    assert found is not None
    assert found.colour is Colour.BLUE
    assert found.dry is False


def test_absent_row_is_none(connection: apsw.Connection) -> None:
    assert one(connection, PaintRow, SELECT_PAINT, {"least": "z"}) is None
    assert scalar(connection, "SELECT litres FROM paint WHERE name = :name", {"name": "z"}) is None


def test_second_row_where_one_is_promised_is_a_bug(connection: apsw.Connection) -> None:
    with pytest.raises(AssertionError):
        one(connection, PaintRow, SELECT_PAINT, {"least": "a"})


def test_word_that_no_enum_knows_is_corruption(connection: apsw.Connection) -> None:
    connection.execute("UPDATE paint SET colour = 'mauve'")
    with pytest.raises(StoreCorrupt, match="PaintRow"):
        many(connection, PaintRow, SELECT_PAINT, {"least": "a"})


def test_forgotten_binding_is_a_bug_and_not_null(connection: apsw.Connection) -> None:
    with pytest.raises(KeyError):
        execute(connection, "UPDATE paint SET litres = :litres", {})


def test_changes_are_counted_per_statement(connection: apsw.Connection) -> None:
    assert execute(connection, "UPDATE paint SET litres = :litres", {"litres": 1}) == 2
    assert execute(connection, "DELETE FROM paint WHERE name = :name", {"name": "z"}) == 0


def test_full_disk_is_a_fault_of_the_world(connection: apsw.Connection) -> None:
    connection.pragma("max_page_count", 2)
    with pytest.raises(StorageFault, match="FullError"):
        execute(
            connection,
            "INSERT INTO paint VALUES (:name, 'red', NULL, 0, 0)",
            {"name": "x" * 100_000},
        )


def test_broken_constraint_stays_visible_as_the_bug_it_is(connection: apsw.Connection) -> None:
    with pytest.raises(apsw.ConstraintError):
        execute(connection, "INSERT INTO paint VALUES (:name, 1, 2, 'x', 'y')", {"name": "c"})


class Wall(NamedTuple):
    name: str
    colour: Colour


class Litres(NamedTuple):
    litres: int


class Room(NamedTuple):
    wall: Wall
    other: Wall | None
    litres: Litres | None


def test_named_tuples_are_rows_too(connection: apsw.Connection) -> None:
    found = many(connection, Wall, "SELECT name, colour FROM paint", {})
    assert found == [Wall("a", Colour.RED), Wall("b", Colour.BLUE)]
    assert found[1].colour is Colour.BLUE


def test_join_is_one_row_after_the_other_and_an_absent_one_is_none(
    connection: apsw.Connection,
) -> None:
    """A LEFT JOIN that found nothing leaves nulls; the first column of each row is never null."""
    select = (
        "SELECT p.name, p.colour, o.name, o.colour, o.litres FROM paint AS p"
        " LEFT JOIN paint AS o ON o.name > p.name WHERE p.name = :name"
    )
    assert column_names(Room) == ("name", "colour", "name", "colour", "litres")
    assert one(connection, Room, select, {"name": "a"}) == Room(
        Wall("a", Colour.RED), Wall("b", Colour.BLUE), Litres(7)
    )
    assert one(connection, Room, select, {"name": "b"}) == Room(Wall("b", Colour.BLUE), None, None)


def test_word_that_no_enum_knows_is_corruption_in_a_join_too(
    connection: apsw.Connection,
) -> None:
    connection.execute("UPDATE paint SET colour = 'mauve'")
    with pytest.raises(StoreCorrupt, match="Wall"):
        one(connection, Wall, "SELECT name, colour FROM paint LIMIT 1", {})
