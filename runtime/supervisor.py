"""Supervision in OTP's vocabulary over a trio nursery: restart, back off, escalate.

Guarantees:

- Structured: leaving `async with` waits for every task; an error in the body or an escalation
  cancels them all.
- `trio.Cancelled` is never swallowed and never counts as a failure.
- An escalation leaves `async with` as itself, never wrapped in an exception group.

Source: Erlang/OTP, supervisor behaviour (restart types, intensity and period).
"""

import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Final, Self, final

import trio

from runtime.backoff import Backoff, Randomness
from runtime.errors import SupervisionFailed
from runtime.exception_groups import sole_error

DIAGNOSTIC_CHARS_MAX: Final = 2_048


class Restart(StrEnum):
    """When a task that has ended is started again."""

    PERMANENT = "permanent"
    """Always; its normal end is a failure too."""
    TRANSIENT = "transient"
    """After an error only."""
    TEMPORARY = "temporary"
    """Never: it fails alone, with one diagnostic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedTask:
    """What to run, and what its end means.

    Attributes:
        key: Unique among the supervisor's running tasks.
        run: Called once per start.
        restart: What happens after its end.
    """

    key: str
    run: Callable[[], Awaitable[None]]
    restart: Restart


@dataclass(frozen=True, slots=True, kw_only=True)
class Intensity:
    """More than `restarts_max` restarts within `window_s` seconds make the supervisor fail."""

    restarts_max: int = 5
    window_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """One failure of one task, fit for a log line.

    Attributes:
        key: The failed task.
        text: Type, message and innermost place of the error, at most 2,048 characters.
        error: The error itself, taken out of any group it was alone in.
        restart_in_ms: Delay until the next start; None when there is none.
    """

    key: str
    text: str
    error: BaseException
    restart_in_ms: int | None


@dataclass(slots=True, eq=False)
class _Entry:
    task: SupervisedTask
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    finished: trio.Event = field(default_factory=trio.Event)


@final
class Supervisor:
    """Keeps a set of tasks running; used as `async with Supervisor(...) as supervisor:`.

    Leaving the block waits until every task has ended, as a nursery does; tasks that are to end
    with the block are stopped with `stop_all`.
    """

    def __init__(
        self,
        *,
        randomness: Randomness,
        on_failure: Callable[[TaskFailure], None],
        intensity: Intensity | None = None,
        backoff: Backoff | None = None,
        fatal: tuple[type[Exception], ...] = (),
    ) -> None:
        """Describe the supervision.

        Args:
            randomness: Jitter of the restart delays.
            on_failure: Told once about every failure that does not escalate; must not raise.
            intensity: Bound of restarts of all tasks together; `restarts_max=0` means that the
                first failure of a permanent or transient task escalates.
            backoff: Delays between restarts; a task that ran a whole window starts afresh.
            fatal: Errors that escalate at once, as themselves, whatever the task's restart.
        """
        self._randomness = randomness
        self._on_failure = on_failure
        self._intensity = intensity or Intensity()
        self._backoff = backoff or Backoff(delay_ms_max=5_000)
        self._fatal = fatal
        self._entries: dict[str, _Entry] = {}
        self._restarted_at: deque[float] = deque()
        self._manager = trio.open_nursery(strict_exception_groups=True)
        self._nursery: trio.Nursery | None = None

    async def __aenter__(self) -> Self:
        """Open the supervisor; tasks can be started from now on."""
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Wait for every task.

        Raises:
            SupervisionFailed: A task failed too often; its last error is the cause.
            Exception: An error of a `fatal` type, as itself. Several different errors at once
                leave as one group.
        """
        try:
            return bool(await self._manager.__aexit__(kind, error, trace))
        except BaseExceptionGroup as group:
            sole = sole_error(group)
            if sole is error:
                return False
            raise sole from sole.__cause__

    def keys(self) -> frozenset[str]:
        """Return the keys of the tasks that run or wait for their restart."""
        return frozenset(self._entries)

    def start(self, task: SupervisedTask) -> None:
        """Start `task` at once; its key must not be running (`is_running` tells)."""
        assert self._nursery is not None, "the supervisor is not open"
        assert task.key not in self._entries, f"{task.key} is running already"
        entry = self._entries[task.key] = _Entry(task)
        self._nursery.start_soon(self._keep, entry, name=f"supervised {task.key}")

    def is_running(self, key: str) -> bool:
        """Tell whether the task runs or waits for its restart."""
        return key in self._entries

    async def stop(self, key: str) -> None:
        """Cancel the task and wait for its end; does nothing if it is not running.

        A cancelled call has still cancelled the task; it only no longer waits.
        """
        entry = self._entries.get(key)
        if entry is None:
            await trio.lowlevel.checkpoint()
            return
        entry.scope.cancel()
        await entry.finished.wait()

    async def stop_all(self) -> None:
        """Cancel every task, then wait for all of them."""
        entries = list(self._entries.values())
        for entry in entries:
            entry.scope.cancel()
        for entry in entries:
            await entry.finished.wait()
        await trio.lowlevel.checkpoint()

    async def _keep(self, entry: _Entry) -> None:
        try:
            with entry.scope:
                await self._run_with_restarts(entry.task)
        finally:
            del self._entries[entry.task.key]
            entry.finished.set()

    async def _run_with_restarts(self, task: SupervisedTask) -> None:
        failures = 0
        while True:
            started_at = trio.current_time()
            error = await self._run_once(task)
            if error is None and task.restart is not Restart.PERMANENT:
                return
            failure = error or SupervisionFailed(task.key, f"{task.key} ended unexpectedly")
            if task.restart is Restart.TEMPORARY:
                self._report(task, failure, restart_in_ms=None)
                return
            if trio.current_time() - started_at >= self._intensity.window_s:
                failures = 0
            failures += 1
            self._count_restart(task, failure)
            delay_ms = self._backoff.delay_ms(failures, self._randomness)
            self._report(task, failure, restart_in_ms=delay_ms)
            await trio.sleep(delay_ms / 1000)

    async def _run_once(self, task: SupervisedTask) -> Exception | None:
        """Run the task to its end; return its error, None for a normal end."""
        try:
            await task.run()
        except BaseExceptionGroup as group:
            cancelled, _ = group.split(trio.Cancelled)
            error = sole_error(group)
            if not isinstance(error, Exception):
                raise
            if isinstance(error, self._fatal):
                raise error from error.__cause__
            if cancelled is None:
                return error
            self._report(task, error, restart_in_ms=None)
            raise cancelled from None
        except Exception as error:  # the supervisor is where a task's failure is handled
            if isinstance(error, self._fatal):
                raise
            return error
        return None

    def _count_restart(self, task: SupervisedTask, error: Exception) -> None:
        now = trio.current_time()
        while self._restarted_at and now - self._restarted_at[0] >= self._intensity.window_s:
            self._restarted_at.popleft()
        self._restarted_at.append(now)
        if len(self._restarted_at) > self._intensity.restarts_max:
            raise SupervisionFailed(
                task.key, f"{task.key} failed for good: {describe_error(error)}"
            ) from error

    def _report(
        self, task: SupervisedTask, error: Exception, *, restart_in_ms: int | None
    ) -> None:
        self._on_failure(
            TaskFailure(
                key=task.key,
                text=describe_error(error),
                error=error,
                restart_in_ms=restart_in_ms,
            )
        )


def describe_error(error: BaseException) -> str:
    """Return type, message and innermost place of `error`, at most 2,048 characters."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    text = f"{type(error).__name__}: {error}"
    return text[: DIAGNOSTIC_CHARS_MAX - len(place)] + place
