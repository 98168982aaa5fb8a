"""Look at a file after an unclean stop, before it is served (README 18)."""

from dataclasses import dataclass
from typing import Final

from store.transaction import Reading

QUICK_CHECK_BYTES_MAX: Final = 64 * 1024 * 1024
"""Above this the check would hold a start up for too long."""


@dataclass(frozen=True, slots=True)
class FindingRow:
    """One line of what SQLite found."""

    finding: str


@dataclass(frozen=True, slots=True)
class OrphanRow:
    """One row whose parent is missing."""

    table: str
    rowid: int | None
    parent: str
    key: int


PRAGMA_QUICK_CHECK: Final = "PRAGMA quick_check"
PRAGMA_FOREIGN_KEYS: Final = "PRAGMA foreign_key_check"


def is_sound(reading: Reading) -> bool:
    """Say whether `quick_check` and `foreign_key_check` find nothing.

    Raises:
        StoreCorrupt: the file cannot even be read through.
    """
    findings = reading.many(FindingRow, PRAGMA_QUICK_CHECK, {})
    return findings == [FindingRow("ok")] and not reading.many(OrphanRow, PRAGMA_FOREIGN_KEYS, {})
