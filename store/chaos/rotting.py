"""What is still to be found in files whose bytes have changed by themselves.

SQLite keeps no checksum of a page. What it can find is a page that is no page any more, in a place
where somebody needs one; so that is what `tree_pages` is for: to spoil those and no others.
"""

from collections.abc import Mapping
from typing import Final

from store.chaos.recovered import NotRecoverable, Recoverer

PAGE_BYTES: Final = 4096
"""Of every database of ours."""

HEAD_BYTES: Final = 100
"""What stands before everything else in the first page."""

_TREE: Final = frozenset({2, 5, 10, 13})
"""First byte of a page of a table or index; nothing else begins so: numbers of pages are small."""

_FREE_LIST: Final = 32
"""Where the head names the first page of the list of free ones."""

_WORD: Final = 4


def tree_pages(database: bytes | bytearray) -> list[int]:
    """Return the offsets of the pages that belong to tables and indexes, without the first."""
    offsets = range(PAGE_BYTES, len(database), PAGE_BYTES)
    return [offset for offset in offsets if database[offset] in _TREE]


def as_found(
    recoverer: Recoverer, database: str, content: Mapping[str, bytes]
) -> bytes | bytearray | None:
    """Return what SQLite makes of these files, blank where nobody ever reads.

    Equal answers mean equal rows.

    Args:
        database: its name in `content`.
        content: of every file, by name.

    Returns:
        None when SQLite finds no database there.
    """
    try:
        found = recoverer.recovered(database, content)
    except NotRecoverable:
        return None
    return _without_free_pages(found)


def _without_free_pages(database: bytes | bytearray) -> bytearray:
    """Blank the leaves of the list of free pages; a list that leads nowhere ends there."""
    blank = bytearray(database)
    trunk, seen = _word(database, _FREE_LIST), set[int]()
    while trunk and trunk not in seen and trunk * PAGE_BYTES <= len(database):
        seen.add(trunk)
        start = (trunk - 1) * PAGE_BYTES
        count = min(_word(database, start + _WORD), PAGE_BYTES // _WORD - 2)
        for number in range(count):
            leaf = _word(database, start + (2 + number) * _WORD)
            if 0 < leaf <= len(database) // PAGE_BYTES:
                blank[(leaf - 1) * PAGE_BYTES : leaf * PAGE_BYTES] = bytes(PAGE_BYTES)
        trunk = _word(database, start)
    return blank


def _word(database: bytes | bytearray, offset: int) -> int:
    return int.from_bytes(database[offset : offset + _WORD], "big")
