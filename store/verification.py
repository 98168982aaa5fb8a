"""`state verify`: is the file what it must be, and do its rows keep every promise.

Reads only and repairs nothing. The whole database is scanned, so a live server runs this away
from its loop. The caller holds one snapshot.
"""

from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from store import verification_records, verification_runs
from store.errors import StateIncompatibleError, StoreCorrupt
from store.schema import verify_schema
from store.transaction import Reading
from store.verification_rules import Rule, Violation

RULES: Final[tuple[Rule, ...]] = (*verification_runs.RULES, *verification_records.RULES)
"""Every invariant, in the order of the specification's table."""

VIOLATIONS_PER_CODE_MAX: Final = 64
"""Violations that one report lists of each code."""


@dataclass(frozen=True, slots=True)
class IntegrityRow:
    """One finding of the check; the single word `ok` when there is none."""

    integrity_check: str


@dataclass(frozen=True, slots=True)
class ForeignKeyRow:
    """One row whose parent is missing."""

    table: str
    rowid: int | None
    parent: str
    fkid: int


@dataclass(frozen=True, slots=True)
class NumberRow:
    """A number the file says of itself."""

    number: int


PRAGMA_INTEGRITY_CHECK: Final = "PRAGMA integrity_check"
PRAGMA_FOREIGN_KEY_CHECK: Final = "PRAGMA foreign_key_check"
PRAGMA_PAGE_COUNT: Final = "PRAGMA page_count"
PRAGMA_PAGE_SIZE: Final = "PRAGMA page_size"


def verify(reading: Reading) -> JsonObject:
    """Return `{ok, schema, integrity, foreignKeys, violations, databaseBytes}`.

    The first four are truth values; `ok` is true only if all is well. `violations` holds
    `{code, runId, detail}`, at most 64 of a code; it is empty when the file itself is damaged,
    for then no row proves anything.
    """
    schema = _has_schema(reading)
    integrity = schema and _has_integrity(reading)
    foreign_keys = integrity and not reading.many(ForeignKeyRow, PRAGMA_FOREIGN_KEY_CHECK, {})
    found = violations(reading) if integrity else []
    listed: list[JsonValue] = [
        {"code": violation.code, "runId": violation.run_id, "detail": violation.detail}
        for violation in found
    ]
    return {
        "ok": foreign_keys and not found,
        "schema": schema,
        "integrity": integrity,
        "foreignKeys": foreign_keys,
        "violations": listed,
        "databaseBytes": database_bytes(reading),
    }


def violations(reading: Reading) -> list[Violation]:
    """Return every broken invariant, in the order of `RULES`, at most 64 of a code."""
    return [
        violation for rule in RULES for violation in rule.check(reading, VIOLATIONS_PER_CODE_MAX)
    ]


def database_bytes(reading: Reading) -> int:
    """Return the size of the database, what only its log holds included."""
    return number(reading, PRAGMA_PAGE_COUNT) * number(reading, PRAGMA_PAGE_SIZE)


def _has_schema(reading: Reading) -> bool:
    try:
        verify_schema(reading.connection)
    except StateIncompatibleError:
        return False
    return True


def _has_integrity(reading: Reading) -> bool:
    try:
        found = reading.many(IntegrityRow, PRAGMA_INTEGRITY_CHECK, {})
    except StoreCorrupt:
        return False
    return found == [IntegrityRow("ok")]


def number(reading: Reading, pragma: str) -> int:
    """Return the number with which SQLite answers a pragma."""
    found = reading.one(NumberRow, pragma, {})
    assert found is not None, "SQLite answers with a number"
    return found.number
