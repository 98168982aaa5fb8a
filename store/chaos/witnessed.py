"""A writer whose every commit is seen by somebody."""

from collections.abc import Callable
from contextlib import suppress
from typing import final

import apsw
from typing_extensions import override

from store.database import Writer


def _nobody() -> None:
    """See nothing."""


@final
class WitnessedWriter(Writer):
    """The writing connection, watched as it commits."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Take over a connection that `open_writer` has made."""
        super().__init__(connection)
        self._about_to: Callable[[], None] = _nobody
        self._committed: Callable[[], None] = _nobody

    def witness(self, about_to: Callable[[], None], committed: Callable[[], None]) -> None:
        """Call `about_to` before each COMMIT, and `committed` after it has returned."""
        self._about_to = about_to
        self._committed = committed

    @override
    def commit(self) -> None:
        """Make the transaction durable; see `Writer.commit`."""
        self._about_to()
        super().commit()
        self._committed()

    @override
    def close(self) -> None:
        """Close the file; see `Writer.close`.

        SQLite says nothing of what fails while it closes. A file system in Python does: whatever
        is raised in one of its methods leaves the call that was made of SQLite.
        """
        with suppress(apsw.IOError, apsw.FullError, apsw.CantOpenError):
            super().close()
