"""Connections under a harness: readers that announce each query, and closes that only close.

An error that a file system written in Python meets while SQLite closes a file comes out of the
close, though SQLite has no use for it: with a file system of its own a close never fails.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, final

import apsw
from typing_extensions import override

from store.database import Reader, Writer


@final
class WatchedReader(Reader):
    """Takes the place of the reader whose connection it takes over."""

    def __init__(
        self, reader: Reader, watching: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """`watching` is entered for each query."""
        super().__init__(reader.connection)
        self._watching: Final = watching

    @override
    @contextmanager
    def snapshot(self) -> Generator[apsw.Connection]:
        """Let several queries see the same state; see `Reader.snapshot`."""
        with self._watching(), super().snapshot() as connection:
            yield connection

    @override
    def close(self) -> None:
        """Close the connection, whatever the file system says meanwhile."""
        with suppress(apsw.Error):
            super().close()


@final
class WatchedWriter(Writer):
    """Takes the place of the writer whose connection it takes over."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer.connection)

    @override
    def close(self) -> None:
        """Close the file, whatever the file system says meanwhile."""
        with suppress(apsw.Error):
            super().close()
