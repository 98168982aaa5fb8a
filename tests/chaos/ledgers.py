"""A subject without a database, for the kernel of the orders: one number and a log."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from runtime.chaos.acting import Request, ask
from runtime.chaos.choices import Choices
from runtime.chaos.engine import Wanted
from runtime.chaos.explorer import Explorer, Playing
from runtime.chaos.guard import Guard
from runtime.chaos.orders import Stage
from runtime.chaos.outcome import Tally
from runtime.chaos.scenario import Handle, Plan, SimulatedTime
from runtime.chaos.subject import Answer, Asked, MarksLost, SteppedClock, Words

Change = Callable[[int], int]


class Lost(Exception):
    """An answer that was lost."""


class Actor(Handle):
    """What an actor has of a ledger."""

    async def change(self, change: Change, point: str = "change") -> int:
        """Replace the number; return the new one."""
        answer = await ask(Request(point, change))
        assert isinstance(answer, int)
        return answer

    async def listed(self) -> list[int]:
        """Return the number in a list of one's own."""
        answer = await ask(Request("list", lambda number: number))
        assert isinstance(answer, list)
        return answer


class Ledger:
    """One number; a change that raises LookupError takes back all that was ever done."""

    def __init__(self, *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self.number = 0
        self.log: list[str] = []
        self.told: list[str] = []
        self.batches: list[int] = []
        self.performed = 0
        self._marks: list[tuple[int, int, int, int]] = []

    def perform(self, group: Sequence[Asked]) -> list[Answer]:
        answers = []
        self.performed += 1
        for actor, request in group:
            change: Any = request.work
            try:
                self.number = change(self.number)
            except LookupError as gone:
                if self.is_shared:
                    self.back_to(0)
                    self._marks.clear()
                    raise MarksLost from gone
                answers.append(Answer(None, gone))
            else:
                answers.append(Answer([self.number] if request.point == "list" else self.number))
            self.log.append(f"{actor} {request.point}")
        self.batches.append(len(group))
        return answers

    def acknowledge(self, asked: Asked, answer: Answer) -> None:
        if answer.error is None:
            self.told.append(asked.actor)

    def look(self) -> "Ledger":
        return self

    def fingerprint(self) -> str:
        return repr((self.number, self.log, self.told, self.batches))

    def mark(self) -> None:
        self._marks.append((self.number, len(self.log), len(self.told), len(self.batches)))

    def back_to(self, mark: int) -> None:
        if mark < len(self._marks):
            del self._marks[mark + 1 :]
            self.number, logged, told, batches = self._marks[mark]
            del self.log[logged:], self.told[told:], self.batches[batches:]

    def may_fail(self, request: Request) -> bool:
        return request.work is not None

    def may_share(self, request: Request) -> bool:
        return request.work is not None

    def lost(self) -> Exception:
        return Lost("lost")

    def excuses(self, error: BaseException) -> bool:
        return isinstance(error, Lost)

    def words(self, _asked: Asked, answer: Answer) -> Words:
        return Words(str(answer.result if answer.error is None else answer.error), None)


Declaration = Plan[Actor, Ledger]
Body = Callable[[Declaration], None]


def playing(body: Body, ledgers: list[Ledger] | None = None) -> Playing:
    """Return a scenario on ledgers; those that were opened are appended to `ledgers`."""
    made: Final = [] if ledgers is None else ledgers

    def declare() -> Declaration:
        plan = Declaration()
        body(plan)
        return plan

    def handle(name: str, number: int, clock: SimulatedTime, choices: Choices) -> Actor:
        return Actor(name, number, clock, choices)

    def opened() -> Ledger:
        made.append(Ledger(is_shared=not made))
        return made[-1]

    @contextmanager
    def fresh() -> Generator[Ledger]:
        yield opened()

    stage = Stage(declare, handle, SteppedClock(), Guard(), "here.py:1")
    return Playing("ledger", "orders", (), stage, opened(), fresh, time.monotonic)


def explored(body: Body, wanted: Wanted | None = None) -> Tally:
    """Explore all orders of a scenario on a ledger, unless seeds are wanted."""
    return Explorer(playing(body), wanted or Wanted()).explore(is_all=True)
