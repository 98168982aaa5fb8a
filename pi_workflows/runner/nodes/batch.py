"""A command batch: many commands of one action, some at a time, each in its own group."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pi_workflows.authoring.command_batch import (
    ERROR_CHARS_MAX,
    BatchCommand,
    BatchItemResult,
    BatchKind,
    BatchOutcome,
    CommandBatchResult,
    check_batch,
)
from pi_workflows.authoring.errors import UpdateRefused
from pi_workflows.authoring.shell import Command
from pi_workflows.authoring.updates import Update
from pi_workflows.protocol.frames import FrameError
from pi_workflows.protocol.version import COMMAND_BATCH_ITEM
from pi_workflows.runner.cancellation import Cancellation
from pi_workflows.runner.messages import bounded_text
from pi_workflows.runner.nodes.command import EndedCommand, Limits, run_command
from pi_workflows.runner.nodes.command_words import how_it_ended, not_started
from pi_workflows.runner.shell_groups import ShellGroups

ITEM_UPDATE: Final = "command-batch.item"

_UNSTARTED: Final = "it was not started: the node is to stop"
_STOPPED: Final = "it was ended: the node is to stop"


class CommandBatches:
    """Runs the batches of one try.

    Args:
        groups: where the commands' process groups are entered.
        cancellation: ends the commands at work and keeps the others from starting.
        publish: takes an update per command that has ended; None publishes none.
        term_grace_ms: from SIGTERM to SIGKILL.
    """

    def __init__(
        self,
        groups: ShellGroups,
        cancellation: Cancellation,
        publish: Callable[[Update], None] | None,
        *,
        term_grace_ms: int,
    ) -> None:
        self._groups: Final = groups
        self._cancellation: Final = cancellation
        self._publish: Final = publish
        self._term_grace_ms: Final = term_grace_ms

    def __call__(
        self, commands: Sequence[BatchCommand], kind: BatchKind, concurrency: int
    ) -> CommandBatchResult:
        """Run all commands; see `Ctx.command_batch`.

        Raises:
            BatchRefused: one of them or an option breaks a rule; nothing has started.
        """
        check_batch(commands, kind, concurrency)
        batch = _Batch(tuple(commands), BatchKind(kind), self._run_one, self._publish)
        helpers = []
        with suppress(RuntimeError):  # Where no more threads can be had, fewer run at a time.
            for number in range(1, min(concurrency, len(commands))):
                helper = threading.Thread(
                    target=batch.work, name=f"runner-batch-{number}", daemon=True
                )
                helper.start()
                helpers.append(helper)
        batch.work()
        for helper in helpers:
            helper.join()
        return CommandBatchResult(items=tuple(batch.results()))

    def _run_one(self, item: BatchCommand) -> BatchItemResult:
        if self._cancellation.is_cancelled():
            return BatchItemResult(id=item.id, outcome=BatchOutcome.CANCELLED, error=_UNSTARTED)
        started = time.monotonic()
        try:
            command = Command(item.command, item.args, cwd=item.cwd)
            limits = Limits(item.max_output_chars, self._term_grace_ms, item.timeout_ms)
        except Exception as error:  # noqa: BLE001 - no command makes its batch raise
            return _failed(item, str(error), started)
        try:
            ended = run_command(command, limits, self._groups, self._cancellation)
        except Exception as error:  # noqa: BLE001 - no command makes its batch raise
            return _failed(item, not_started(command, error), started)
        return self._told(item, command, ended)

    def _told(self, item: BatchCommand, command: Command, ended: EndedCommand) -> BatchItemResult:
        result = ended.result
        outcome, error = BatchOutcome.SUCCEEDED, None
        if ended.timed_out:
            outcome, error = BatchOutcome.TIMED_OUT, how_it_ended(command, ended)
        elif result.exit_code != 0 and self._cancellation.is_cancelled():
            outcome, error = BatchOutcome.CANCELLED, _STOPPED
        elif result.exit_code != 0:
            outcome, error = BatchOutcome.FAILED, how_it_ended(command, ended)
        return BatchItemResult(
            id=item.id,
            outcome=outcome,
            exit_code=result.exit_code,
            signal=result.signal,
            duration_ms=result.duration_ms,
            stdout=result.stdout,
            stderr=result.stderr,
            stdout_truncated=result.stdout_truncated,
            stderr_truncated=result.stderr_truncated,
            error=None if error is None else bounded_text(error, ERROR_CHARS_MAX),
        )


class _Batch:
    """What the threads of one batch share: the next command, and the results so far."""

    def __init__(
        self,
        commands: tuple[BatchCommand, ...],
        kind: BatchKind,
        run_one: Callable[[BatchCommand], BatchItemResult],
        publish: Callable[[Update], None] | None,
    ) -> None:
        self._kind = kind
        self._run_one = run_one
        self._publish = publish
        self._lock = threading.Lock()
        self._waiting: Iterator[tuple[int, BatchCommand]] = iter(enumerate(commands))
        self._results: list[BatchItemResult | None] = [None] * len(commands)
        self._completed = 0

    def work(self) -> None:
        """Run commands until none is left."""
        while True:
            with self._lock:
                place, command = next(self._waiting, (0, None))
            if command is None:
                return
            result = self._run_one(command)
            with self._lock:
                self._results[place] = result
                self._completed += 1
                self._say(result)

    def results(self) -> Iterator[BatchItemResult]:
        """Yield the results in the order of the commands."""
        for result in self._results:
            assert result is not None, "every thread runs to its end"
            yield result

    def _say(self, result: BatchItemResult) -> None:
        """Publish the end of a command, in order; the result counts, not the update."""
        if self._publish is None:
            return
        data = {
            "schema": COMMAND_BATCH_ITEM,
            "batchKind": self._kind.value,
            "itemId": result.id,
            "outcome": result.outcome.value,
            "completed": self._completed,
            "total": len(self._results),
        }
        with suppress(UpdateRefused, OSError, FrameError):  # A lost channel ends the process.
            self._publish(Update(ITEM_UPDATE, f"{self._kind.value}/{result.id}", data))


def _failed(item: BatchCommand, error: str, started: float) -> BatchItemResult:
    """Return the result of a command that never ran."""
    failed = BatchItemResult(id=item.id, outcome=BatchOutcome.FAILED)
    return replace(
        failed,
        duration_ms=round((time.monotonic() - started) * 1000),
        error=bounded_text(error, ERROR_CHARS_MAX),
    )
