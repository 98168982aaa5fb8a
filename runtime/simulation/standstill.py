"""Who waits for what when a simulation can go no further, and how such a simulation is ended.

Under a mock clock a loop in which nothing can run and no deadline is left turns for ever: its time
has nowhere to jump to. The run queue notices (`runtime.simulation.scheduling`); here is what is
said of it. The tasks that wait cannot be cancelled, for they wait shielded; so they are unwound
where they stand, and the trio run ends with an error.

It relies on two more names inside trio. What a task does while it is unwound has to happen in its
own name, or trio refuses to leave its scopes (`GLOBAL_RUN_CONTEXT.task`); and a nursery that is
forgotten complains of every child that it still knows (`Nursery._children`).
"""

import inspect
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

import trio
from trio._core import _run  # The running task has no public name to set it by.

from runtime.simulation.processes import ACTING, SimulatedProcess
from runtime.simulation.scheduling import GROUP, age, could_run

SHOWN_MAX: Final = 5
"""How many waits are told one by one."""

PLACES_MAX: Final = 4
"""How many calls of a wait are told, innermost first."""

STEPPED: Final = "coroutine"
"""The variable of a function that steps a coroutine by hand, where Python knows of no await."""

_WAITS_LEFT_MAX: Final = 1_000
"""How often a task is told that it is given up; each time it leaves the wait it stands in."""

_NURSERY_END: Final = "_nested_child_finished"
"""What a task stands in at the end of a nursery of its own; a name inside trio for words only."""

_TRIO: Final = str(Path(trio.__file__).parent)


class _GivenUp(BaseException):
    """Raised in a task where it waits; GeneratorExit would leave behind what waits meanwhile."""


def waits() -> str:
    """Return who waits where in the current trio run, in one line: names and places, no contents.

    First who could run, then who is of no process and so of the scenario, then the rest; of these
    the oldest. Left out is who only waits for tasks of its own: these are told themselves. Left
    out is also the task that asks.
    """
    runnable = set(could_run())
    asks = getattr(_run.GLOBAL_RUN_CONTEXT, "task", None)
    tasks = sorted(
        (task for task in _tasks_of(trio.lowlevel.current_root_task()) if task is not asks),
        key=lambda task: (task not in runnable, _process_of(task) is not None, age(task)),
    )
    told = Counter(filter(None, (_wait_of(task, is_runnable=task in runnable) for task in tasks)))
    lines = [wait if count == 1 else f"{wait} ({count} times)" for wait, count in told.items()]
    if len(lines) > SHOWN_MAX:
        lines[SHOWN_MAX:] = [f"and {len(lines) - SHOWN_MAX} more"]
    return "; ".join(lines) or "no task is left"


def give_up() -> None:
    """Unwind every task of the current trio run where it stands, the youngest first.

    The run has to be left with an error afterwards: nothing of it can go on. What the tasks
    raise while they are unwound is about a simulation that is over, and is not told.
    """
    context = cast("Any", _run.GLOBAL_RUN_CONTEXT)
    for task in sorted(context.runner.tasks, key=age, reverse=True):
        context.task = task
        with suppress(BaseException):
            for _ in range(_WAITS_LEFT_MAX):
                task.context.run(task.coro.throw, _GivenUp())
        del context.task
        if task.parent_nursery is not None:
            cast("Any", task.parent_nursery)._children.discard(task)  # noqa: SLF001 - see above


def _tasks_of(task: trio.lowlevel.Task | None) -> Iterator[trio.lowlevel.Task]:
    """Yield every task that a task has started, and what these have."""
    if task is not None:
        for nursery in task.child_nurseries:
            for child in nursery.child_tasks:
                yield child
                yield from _tasks_of(child)


def _wait_of(task: trio.lowlevel.Task, *, is_runnable: bool) -> str:
    """Return one wait; nothing for a task of trio's own, and for one that waits for its own."""
    frames = _frames_of(task)
    waits_for_own = any(frame.f_code.co_name == _NURSERY_END for frame in frames)
    own = [frame for frame in frames if not frame.f_code.co_filename.startswith(_TRIO)]
    if task.name.startswith("<") or (waits_for_own and not is_runnable):
        return ""
    process, group = _process_of(task), task.context.get(GROUP)
    does = "runs" if is_runnable else "waits"
    if group is not None and group.is_held:
        does = "is held back"
    who = task.name.rpartition(".<locals>.")[2] if process is None else process.name
    places = " < ".join(_place(frame) for frame in own[: -PLACES_MAX - 1 : -1])
    return f"{who} {does} in {places or 'trio'}"


def _frames_of(task: trio.lowlevel.Task) -> list[FrameType]:
    """Return where a task stands, outermost call first; also within what it steps by hand."""
    frames = [frame for frame, _ in task.iter_await_frames()]
    stepped = frames[-1].f_locals.get(STEPPED) if frames else None
    while inspect.iscoroutine(stepped) and stepped.cr_frame is not None:
        frames.append(stepped.cr_frame)
        stepped = stepped.cr_await
    return frames


def _process_of(task: trio.lowlevel.Task) -> SimulatedProcess | None:
    return task.context.get(ACTING)


def _place(frame: FrameType) -> str:
    code = frame.f_code
    name = code.co_qualname.rpartition(".<locals>.")[2]
    return f"{name} ({Path(code.co_filename).name}:{frame.f_lineno})"
