"""Who runs next is a choice of the simulation's: one task per round, from all that could run.

Stock trio steps every runnable task once per round, in an order that hides most interleavings.
Here trio's queue of runnable tasks is replaced by one that gives it a single chosen task each
time, so every interleaving of checkpoints can come about and a run is a function of the choices.

The same queue holds back the tasks of a process that is stopped or dead: stopped means that not
one instruction runs, dead means that none ever does, not even a `finally`.

Nothing else sees every round, so the queue is also what notices that a simulation goes nowhere:
nothing can run and no deadline is left, or tasks run on and on and time stands still. Both are
counted in rounds, so the same seed is found out at the same round everywhere.

It relies on two names inside trio (`GLOBAL_RUN_CONTEXT.runner.runq` and `Task._counter`); the
determinism tests fail if they change.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final, cast, final

import trio
from trio._core import _run  # The queue is no public name; see above.
from typing_extensions import override

Choose = Callable[[int], int]
"""Returns the index of the task to run, given how many could; tasks are sorted by their age."""

GiveUp = Callable[[str], BaseException]
"""Told why the simulation goes nowhere; returns the error that the trio run ends with."""

STEPS_MAX: Final = 100_000
"""Steps of all tasks at one instant of virtual time; shipped scenarios need a thousand."""

_EMPTY_MAX: Final = 2
"""Rounds without a task in a row, with no deadline left. The first may have put aside a task of
a group that is held; only the next one wakes who waits until all tasks are blocked."""


@final
class Group:
    """Tasks that are held back together: those of one simulated process.

    Attributes:
        is_held: nothing of the group runs while this is true.
    """

    def __init__(self) -> None:
        self.is_held = False
        self._waiting: list[trio.lowlevel.Task] = []

    def hold(self) -> None:
        """Let none of its tasks take another step, the running one not beyond its next await."""
        self.is_held = True

    def let_go(self) -> None:
        """Let its tasks run again, from where they stand."""
        self.is_held = False
        waiting, self._waiting = self._waiting, []
        _queue().extend(waiting)

    def put_aside(self, task: trio.lowlevel.Task) -> None:
        """Keep a runnable task until `let_go`."""
        self._waiting.append(task)


GROUP: Final[ContextVar[Group | None]] = ContextVar("simulated process", default=None)
"""The group of a task; inherited by every task it starts."""


@final
class ChosenQueue(deque[trio.lowlevel.Task]):
    """Trio's run queue, giving out one chosen task per round."""

    def __init__(
        self, tasks: Iterator[trio.lowlevel.Task], choose: Choose, give_up: GiveUp
    ) -> None:
        super().__init__(tasks)
        self._choose = choose
        self._give_up = give_up
        self._chosen: trio.lowlevel.Task | None = None
        self._steps = 0
        self._empty = 0
        self._alarms: list[tuple[float, Callable[[], None]]] = []
        self._end: str | None = None

    def at(self, instant: float, call: Callable[[], None]) -> None:
        """Call once when virtual time comes to an instant, before it wakes any task.

        No task does it: it shifts no choice.
        """
        self._alarms.append((instant, call))
        self._alarms.sort(key=_instant)

    def end(self, why: str) -> None:
        """Give up in the next round."""
        self._end = why

    @override
    def __iter__(self) -> Iterator[trio.lowlevel.Task]:
        """Yield the chosen task alone; none if all that is runnable is held back."""
        if self._end is not None:
            raise self._give_up(self._end)
        tasks = self._let_through()
        if not tasks:
            self._chosen = None
            self._note_empty()
            return iter(())
        self._empty = 0
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise self._give_up(f"time stands still for {STEPS_MAX:,} steps")
        if len(tasks) > 1:
            tasks.sort(key=age)
            self._chosen = tasks[self._choose(len(tasks))]
        else:
            self._chosen = tasks[0]
        return iter((self._chosen,))

    @override
    def clear(self) -> None:
        """Remove the chosen task only: trio has just copied it."""
        if self._chosen is not None:
            self.remove(self._chosen)
            self._chosen = None

    def _note_empty(self) -> None:
        """Give up if no time will ever bring anything; time moves in an empty round only."""
        self._steps = 0
        self._empty += 1
        while self._alarms and trio.current_time() >= self._alarms[0][0]:
            self._alarms.pop(0)[1]()
        if self._empty < _EMPTY_MAX:
            return
        counts = trio.lowlevel.current_statistics()
        if counts.seconds_to_next_deadline == math.inf and not counts.run_sync_soon_queue_size:
            raise self._give_up("nothing can go on any more")

    def _let_through(self) -> list[trio.lowlevel.Task]:
        tasks = []
        for task in list(super().__iter__()):
            group = task.context.get(GROUP)
            if group is not None and group.is_held:
                self.remove(task)
                group.put_aside(task)
            else:
                tasks.append(task)
        return tasks


def choose_tasks(choose: Choose, give_up: GiveUp) -> ChosenQueue:
    """Replace the queue of the current trio run, until its end, and return it.

    Args:
        choose: decides who goes next.
        give_up: called when the run goes nowhere; trio ends with `TrioInternalError`, whose cause
            is what this returns.
    """
    runner = cast("Any", _run.GLOBAL_RUN_CONTEXT).runner
    queue = ChosenQueue(iter(list(runner.runq)), choose, give_up)
    runner.runq = queue
    return queue


def could_run() -> list[trio.lowlevel.Task]:
    """Return the tasks of the current trio run that wait for nothing but their turn."""
    return list(deque.__iter__(_queue()))


def _queue() -> deque[trio.lowlevel.Task]:
    queue: deque[trio.lowlevel.Task] = _run.GLOBAL_RUN_CONTEXT.runner.runq
    return queue


def age(task: trio.lowlevel.Task) -> int:
    """Return what sorts tasks by when they were started."""
    return task._counter  # noqa: SLF001 - the only stable order of tasks


def _instant(alarm: tuple[float, Callable[[], None]]) -> float:
    return alarm[0]
