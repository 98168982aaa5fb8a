"""Who runs next is a choice of the simulation's: one task per round, from all that could run.

Stock trio steps every runnable task once per round, in an order that hides most interleavings.
Here trio's queue of runnable tasks is replaced by one that gives it a single chosen task each
time, so every interleaving of checkpoints can come about and a run is a function of the choices.

The same queue holds back the tasks of a process that is stopped or dead: stopped means that not
one instruction runs, dead means that none ever does, not even a `finally`.

It relies on two names inside trio (`GLOBAL_RUN_CONTEXT.runner.runq` and `Task._counter`); the
determinism tests fail if they change.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final, cast, final

import trio
from trio._core import _run  # The queue is no public name; see above.
from typing_extensions import override

Choose = Callable[[int], int]
"""Returns the index of the task to run, given how many could; tasks are sorted by their age."""


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

    def __init__(self, tasks: Iterator[trio.lowlevel.Task], choose: Choose) -> None:
        super().__init__(tasks)
        self._choose = choose
        self._chosen: trio.lowlevel.Task | None = None

    @override
    def __iter__(self) -> Iterator[trio.lowlevel.Task]:
        """Yield the chosen task alone; none if all that is runnable is held back."""
        tasks = self._let_through()
        if not tasks:
            self._chosen = None
            return iter(())
        if len(tasks) > 1:
            tasks.sort(key=_age)
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


def choose_tasks(choose: Choose) -> None:
    """Replace the queue of the current trio run, until its end."""
    runner = cast("Any", _run.GLOBAL_RUN_CONTEXT).runner
    runner.runq = ChosenQueue(iter(list(runner.runq)), choose)


def _queue() -> deque[trio.lowlevel.Task]:
    queue: deque[trio.lowlevel.Task] = _run.GLOBAL_RUN_CONTEXT.runner.runq
    return queue


def _age(task: trio.lowlevel.Task) -> int:
    return task._counter  # noqa: SLF001 - the only stable order of tasks
