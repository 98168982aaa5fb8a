"""Who takes care of the processes that an author's code starts or asks for."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_workflows.authoring.command_batch import BatchCommand, BatchKind, CommandBatchResult


class Processes(Protocol):
    """Takes processes that have left the runner's session into the server's care."""

    def register(self, pid: int) -> None:
        """Have it end with the runner."""

    def unregister(self, pid: int) -> None:
        """Take it out of care."""


class Batches(Protocol):
    """Runs many commands at once."""

    def __call__(
        self, commands: "Sequence[BatchCommand]", kind: "BatchKind", concurrency: int
    ) -> "CommandBatchResult":
        """Run them all and return what came of each, in their order."""
