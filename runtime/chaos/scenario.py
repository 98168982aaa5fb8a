"""A scenario: what exists, who acts, what may go wrong, and what must hold all the same.

A scenario is a function that is given a *plan* and declares on it. It is called anew for every
exploration, so its local variables begin afresh each time.
"""

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Final, Generic, Never, Protocol, TypeVar, final

from runtime.chaos.acting import Request, ask
from runtime.chaos.choices import Choices
from runtime.chaos.declaring import refuse, require_count, require_faults
from runtime.chaos.outcome import Misused

PlanT = TypeVar("PlanT")
HandleT = TypeVar("HandleT")
LookT = TypeVar("LookT")
ActorBody = Callable[[HandleT], Coroutine[Any, Any, None]]


class SimulatedTime(Protocol):
    """The clock of an exploration."""

    def wall_ms(self) -> int:
        """Return UTC epoch milliseconds as the actors are to see them."""
        ...


class Handle:
    """What an actor has of the world; awaiting it is the only way to act.

    Attributes:
        name: `worker-0`.
        number: 0, 1, … among the actors of its declaration.
    """

    def __init__(self, name: str, number: int, clock: SimulatedTime, choices: Choices) -> None:
        self.name: Final = name
        self.number: Final = number
        self._clock: Final = clock
        self._choices: Final = choices

    @property
    def now_ms(self) -> int:
        """The simulated wall clock, UTC epoch ms; it may jump."""
        return self._clock.wall_ms()

    def choose(self, what: str, *options: str) -> str:
        """Decide something the engine is to explore; the first option is the ordinary one."""
        return self._choices.pick(f"{self.name} {what}", options)

    async def sync(self, place: str) -> None:
        """Stand at a named place until the engine lets this actor go on."""
        await ask(Request(f"sync {place}"))

    async def sleep(self, for_s: float) -> None:
        """Wait until the simulated wall clock is `for_s` seconds further.

        Raises:
            Misused: it is no number of seconds, or below 0.
        """
        _require_seconds(for_s)
        await ask(Request("sleep", wake_at_ms=self._clock.wall_ms() + round(for_s * 1000)))


def _require_seconds(for_s: object) -> None:
    if not isinstance(for_s, int | float) or not for_s >= 0:
        raise Misused(f"sleep takes seconds, not {for_s!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """How often each fault may happen in one exploration; nothing happens unless declared.

    Attributes:
        clock_jump: jumps of the wall clock in seconds, forward or back, each at most once.
        kill: actors ended with SIGKILL.
        pause: actors stopped and let go on later (SIGSTOP, SIGCONT).
        sleep: times in seconds for which the machine sleeps, each at most once; its timers count
            them or stand still.
        power_cut: the machine dies and starts again from what its disk has kept.
        disk_full: a write that finds no room.
        io_error: a read or write that fails.
        fsync_failure: a flush that fails, after which its pages count as clean.
        rot: bytes of the database that change by themselves, until no page is there any more; not
            together with `power_cut`.
        drop: an answer that is lost; whoever asked does not know what came of it.
        duplicate: a request that is carried out twice.
        delay: a request that arrives after later ones.
        shared_batch: commands that are carried out as neighbours of another in one batch.
        cancel: callers inside a process that stop waiting for what they have asked.
    """

    clock_jump: tuple[float, ...] = ()
    kill: int = 0
    pause: int = 0
    sleep: tuple[float, ...] = ()
    power_cut: int = 0
    disk_full: int = 0
    io_error: int = 0
    fsync_failure: int = 0
    rot: int = 0
    drop: int = 0
    duplicate: int = 0
    delay: int = 0
    shared_batch: int = 0
    cancel: int = 0

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that may happen at all."""
        return frozenset(each.name for each in fields(self) if getattr(self, each.name))


@dataclass(frozen=True, slots=True)
class ActorPlan(Generic[HandleT]):
    """Actors of one declaration.

    Attributes:
        name: of the function; actors are `NAME-0`, `NAME-1`, …; one alone is `NAME`.
    """

    name: str
    count: int
    body: ActorBody[HandleT]

    @property
    def names(self) -> list[str]:
        """Return the names of the actors."""
        if self.count == 1:
            return [self.name]
        return [f"{self.name}-{number}" for number in range(self.count)]


@dataclass(slots=True)
class Plan(Generic[HandleT, LookT]):
    """What one call of a scenario has declared."""

    actors: list[ActorPlan[HandleT]] = field(default_factory=list)
    budgets: Budgets = field(default_factory=Budgets)
    always_checks: dict[str, Callable[[LookT], None]] = field(default_factory=dict)
    final_checks: dict[str, Callable[[LookT], None]] = field(default_factory=dict)

    def actor(self, count: int = 1) -> Callable[[ActorBody[HandleT]], ActorBody[HandleT]]:
        """Declare `count` actors that run the decorated async function at once."""
        require_count("count", count, "actor of a kind")
        # Not a nested function: its annotations would be made anew for every exploration.
        return partial(self._declare, count)

    def faults(  # noqa: PLR0913 - one word for each kind of fault
        self,
        *,
        clock_jump: tuple[float, ...] = (),
        kill: int = 0,
        pause: int = 0,
        sleep: tuple[float, ...] = (),
        power_cut: int = 0,
        disk_full: int = 0,
        io_error: int = 0,
        fsync_failure: int = 0,
        rot: int = 0,
        drop: int = 0,
        duplicate: int = 0,
        delay: int = 0,
        shared_batch: int = 0,
        cancel: int = 0,
        **misspelt: Never,
    ) -> None:
        """Say what may go wrong in one exploration, and how often; see `Budgets`.

        Raises:
            ScenarioRefused: there is no such fault, or it is none that could happen so often.
        """
        counts = {
            "kill": kill,
            "pause": pause,
            "power_cut": power_cut,
            "disk_full": disk_full,
            "io_error": io_error,
            "fsync_failure": fsync_failure,
            "rot": rot,
            "drop": drop,
            "duplicate": duplicate,
            "delay": delay,
            "shared_batch": shared_batch,
            "cancel": cancel,
        }
        require_faults(misspelt, counts, {"clock_jump": clock_jump, "sleep": sleep})
        self.budgets = Budgets(clock_jump=tuple(clock_jump), sleep=tuple(sleep), **counts)

    def _declare(self, count: int, body: ActorBody[HandleT]) -> ActorBody[HandleT]:
        name: str = getattr(body, "__name__", "actor")
        if any(plan.name == name for plan in self.actors):
            refuse(f"two actors are called {name}; give one of them another name.")
        if not inspect.iscoroutinefunction(body):
            refuse(f"the actor {name} is no async function; write `async def {name}(…)`.")
        self.actors.append(ActorPlan(name, count, body))
        return body

    def always(self, check: Callable[[LookT], None]) -> Callable[[LookT], None]:
        """Declare what must hold after every step; it raises `AssertionError` if not.

        A check judges one state by itself and keeps nothing: an engine does not repeat it for
        steps that one exploration shares with another.
        """
        self._require_check(check)
        self.always_checks[check.__name__] = check
        return check

    def finally_(self, check: Callable[[LookT], None]) -> Callable[[LookT], None]:
        """Declare what must hold when every actor has ended."""
        self._require_check(check)
        self.final_checks[check.__name__] = check
        return check

    def _require_check(self, check: Callable[[LookT], None]) -> None:
        name = check.__name__
        if inspect.iscoroutinefunction(check):
            refuse(f"the invariant {name} is async, so it would never run; write `def {name}(…)`.")
        if name in self.always_checks or name in self.final_checks:
            refuse(f"two invariants are called {name}; give one of them another name.")


@final
@dataclass(frozen=True, slots=True)
class Scenario(Generic[PlanT]):
    """A named scenario.

    Attributes:
        promises: of `docs/guarantees.md`: "P3"; () for a user's own.
        engines: names of the engines it is made for, the first is the default.
        summary: first line of its docstring.
        place: `FILE:LINE`.
        ref: `NAME` of a shipped one, `FILE::NAME` of one that was loaded from a file.
        core: whether every one of its orders is explored at each change.
    """

    name: str
    body: Callable[[PlanT], None]
    promises: tuple[str, ...]
    engines: tuple[str, ...]
    summary: str
    place: str
    ref: str
    core: bool = False


def scenario_of(
    body: Callable[[PlanT], None],
    *,
    promises: tuple[str, ...],
    engines: tuple[str, ...],
    core: bool = False,
) -> Scenario[PlanT]:
    """Return the scenario that a function is."""
    code = body.__code__ if inspect.isfunction(body) else None
    doc = inspect.getdoc(body) or ""
    name: str = getattr(body, "__name__", "scenario")
    return Scenario(
        name,
        body,
        promises,
        engines,
        doc.split("\n", 1)[0],
        f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "?",
        name,
        core,
    )
