"""Signals to this process as a port, so that a simulation can send its own."""

import signal
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from typing import Protocol, final

import trio


class Signals(Protocol):
    """Where requests to stop come from."""

    def receive(self, *numbers: signal.Signals) -> AbstractContextManager[AsyncIterator[int]]:
        """Yield each of these signals as it arrives, for the time of the block."""
        ...


@final
class ProcessSignals:
    """The operating system's signals; only in the main thread."""

    def receive(self, *numbers: signal.Signals) -> AbstractContextManager[AsyncIterator[int]]:
        """Catch these signals for the time of the block; others keep their effect."""
        return trio.open_signal_receiver(*numbers)
