"""An exclusive advisory lock on a file that is never removed."""

import fcntl
import os
from pathlib import Path
from typing import Final, final

import trio

from runtime.private_files import open_private

_POLL_S: Final = 0.05


@final
class FileLock:
    """The lock itself; held until `release` or the end of this process, however it ends.

    The descriptor is closed on exec, so no child keeps the lock alive. The file stays: removing it
    would let two processes lock two files of the same name.
    """

    def __init__(self, path: Path) -> None:
        """Name the file, whose directory exists; nothing is locked yet."""
        self._path = path
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def try_acquire(self) -> bool:
        """Take the lock now; False if another open file holds it.

        Raises:
            OSError: The file cannot be made or opened.
        """
        if self._descriptor is not None:
            return True
        descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    async def acquire(self, within_s: float) -> bool:
        """Take the lock, trying every 50 ms for `within_s` seconds; False if it stayed held.

        Polls because a blocking flock cannot be cancelled. A cancelled call holds nothing.
        """
        with trio.move_on_after(within_s):
            while not self.try_acquire():  # noqa: ASYNC110 - flock has no event to wait for
                await trio.sleep(_POLL_S)
        return self.is_held

    def release(self) -> None:
        """Give the lock up; does nothing if it is not held."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)
