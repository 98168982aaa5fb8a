"""The identity of the database: its DDL, its numbers, and the shape that proves it."""

import functools
from importlib import resources
from typing import Final, TypeAlias

import apsw

from pi_workflows.protocol.canonical import digest
from store.errors import StateIncompatibleError

SCHEMA_NAME: Final = "pi-workflows-state"
SCHEMA_VERSION: Final = 1
USER_VERSION: Final = 1
APPLICATION_ID: Final = 0x50495746
"""`PIWF` in ASCII; stands in the header of the file."""

APP_VERSION: Final = "1"
"""The line of programs that may write this file. Not the package's version: an upgrade must
never make a live database incompatible."""

DDL: Final = resources.files("store").joinpath("schema.sql").read_text(encoding="utf-8")
SCHEMA_DIGEST: Final = digest(DDL.encode())
"""SHA-256 of the DDL text, 32 bytes; stored in `schema_meta`."""

SELECT_SCHEMA_OBJECTS: Final = """
    SELECT type, name, tbl_name, sql
      FROM sqlite_schema
     WHERE substr(name, 1, 7) <> 'sqlite_'
     ORDER BY type, name
"""

SELECT_SCHEMA_META: Final = """
    SELECT id, schema_name, schema_version, schema_digest, app_version
      FROM schema_meta
"""

_EXPECTED_META: Final = [(1, SCHEMA_NAME, SCHEMA_VERSION, SCHEMA_DIGEST, APP_VERSION)]


Shape: TypeAlias = list[tuple[object, ...]]
"""Type, name, table and SQL of every object, in the order of the first two."""


def shape(connection: apsw.Connection) -> Shape:
    """Return every table, index, view and trigger, to the letter of its SQL."""
    return [*connection.execute(SELECT_SCHEMA_OBJECTS)]


@functools.cache
def expected_shape() -> Shape:
    """Return the shape that a database made from `schema.sql` has."""
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(DDL)
        return shape(connection)
    finally:
        connection.close()


def verify_schema_meta(connection: apsw.Connection) -> None:
    """Compare the one row that says which schema the file holds.

    Raises:
        StateIncompatibleError: no row, more than one, or a field differs.
    """
    if connection.execute(SELECT_SCHEMA_META).fetchall() != _EXPECTED_META:
        raise StateIncompatibleError("schema_meta")


def verify_schema(connection: apsw.Connection) -> None:
    """Prove that the open file is a database of exactly this schema. Reads only.

    Raises:
        StateIncompatibleError: it is anything else, a file that is no database included.
    """
    try:
        if connection.pragma("application_id") != APPLICATION_ID:
            raise StateIncompatibleError("application_id")
        if connection.pragma("user_version") != USER_VERSION:
            raise StateIncompatibleError("user_version")
        if shape(connection) != expected_shape():
            raise StateIncompatibleError("shape")
        verify_schema_meta(connection)
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError) as error:
        raise StateIncompatibleError("unreadable") from error
