"""Who takes care of processes that an author's code starts outside."""

from typing import Protocol


class Processes(Protocol):
    """Takes processes that have left the runner's session into the server's care."""

    def register(self, pid: int) -> None:
        """Have it end with the runner."""

    def unregister(self, pid: int) -> None:
        """Take it out of care."""
