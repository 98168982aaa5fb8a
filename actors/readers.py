"""Bounded reads beside the writer: READONLY connections that never hold the write queue up."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from store.damage import StateDamaged
from store.database import Reader
from store.transaction import Reading


class Readers:
    """One read-only connection, used inline on the loop for queries of at most a few hundred rows.

    A block is synchronous: no other task runs meanwhile, so one connection serves all.
    """

    def __init__(self, reader: Reader, wall_ms: Callable[[], int]) -> None:
        """Take over an open read-only connection."""
        self._reader: Final = reader
        self._wall_ms: Final = wall_ms
        self._damage_found: Callable[[], None] = lambda: None

    def tell_damage(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a read finds the file damaged, before the reader is told."""
        self._damage_found = listener

    @contextmanager
    def reading(self) -> Generator[Reading]:
        """Give several queries one consistent view of what is committed. Do not await inside.

        Raises:
            StateDamaged: the file is damaged; the server is about to end over it.
        """
        try:
            with self._reader.snapshot() as connection:
                yield Reading(connection, self._wall_ms())
        except StateDamaged:
            self._damage_found()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()
