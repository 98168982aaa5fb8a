"""What the watching thread sleeps on: an instant, a poke, a signal, the end of the stream."""

import os
import select
import time
from contextlib import suppress
from typing import Final

from pi_workflows.runner.connection import ChannelLost

_READ_BYTES: Final = 4_096
_POLL_MS_MAX: Final = 3_600_000
_WAKE: Final = b"\0"


class Alarm:
    """Sleeps without the interpreter's lock; `wake` and the signal's C handler end the sleep.

    Args:
        watched: descriptor of a stream socket. It is never read: bytes that wait in it do not
            wake anybody, only its end does.
    """

    def __init__(self, watched: int) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self.writer, False)
        self._watched = watched
        self._poll = select.poll()
        self._poll.register(watched, 0)  # A hang-up and an error are reported all the same.
        self._poll.register(self._reader, select.POLLIN)

    def sleep(self, until: float | None) -> bytes:
        """Sleep to a monotonic instant in seconds, None for ever, and return what woke it.

        Returns:
            The numbers of the signals that came and a zero for each poke, mixed; empty at the
            instant.

        Raises:
            ChannelLost: the other side has closed the stream.
            OSError: foreign code has closed a descriptor.
        """
        wait_ms = None
        if until is not None:
            # poll counts whole milliseconds and rounds down: one more, or it would spin at the
            # end. It takes no more than 31 bits; waking early only plans again.
            left_ms = int((until - time.monotonic()) * 1000) + 1
            wait_ms = min(max(0, left_ms), _POLL_MS_MAX)
        ready = {descriptor for descriptor, _ in self._poll.poll(wait_ms)}
        if self._watched in ready:
            raise ChannelLost("the server closed the stream")
        return os.read(self._reader, _READ_BYTES) if self._reader in ready else b""

    def wake(self, what: bytes = _WAKE) -> None:
        """End the sleep, or the next one; from any thread and from a signal handler."""
        with suppress(BlockingIOError):  # A full pipe wakes just as well.
            os.write(self.writer, what)

    def close(self) -> None:
        """Give the pipe back: in a forked child, whose signals are not the runner's."""
        os.close(self._reader)
        os.close(self.writer)
