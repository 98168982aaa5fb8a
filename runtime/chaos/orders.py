"""One order of a scenario: who goes on at each step, and what goes wrong there.

Every actor stands at its next request. A step picks a move: an actor whose request is carried
out and who then runs on to its next one, a jump of the clock, the death of an actor, a request
that arrives late. So an order is a function of its choices alone.
"""

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

from runtime.chaos.acting import Acting
from runtime.chaos.choices import Choices
from runtime.chaos.complaints import is_about_a_loop, one_line, one_line_with_place, place_of
from runtime.chaos.course import Course
from runtime.chaos.guard import Guard
from runtime.chaos.moves import CLOCK, KILL, LATE, Remaining, Way, enabled, next_wake_ms
from runtime.chaos.outcome import Moment, ScenarioRefused
from runtime.chaos.scenario import Handle, Plan, SimulatedTime
from runtime.chaos.seen import Seen
from runtime.chaos.subject import Answer, Asked, SteppedClock
from runtime.simulation.clock import START_MS

CLOCK_ON: Final = f"{CLOCK}on"
"""The move by which time passes until the first sleeper wakes; nobody else can go on."""

NOBODY: Final = "nobody"
_CHANGEABLE: Final = (list, dict, set)
STEPS_MAX: Final = 10_000
"""An order that has not ended by then is refused: some actor never ends."""

MakeHandle = Callable[[str, int, SimulatedTime, Choices], Handle]


@dataclass(frozen=True, slots=True)
class Stage:
    """What one scenario needs to be played.

    Attributes:
        declare: calls the scenario anew and returns what it declares.
        place: `FILE:LINE` of the scenario, for refusals.
    """

    declare: Callable[[], Plan[Any, Any]]
    handle: MakeHandle
    clock: SteppedClock
    guard: Guard
    place: str


@dataclass(frozen=True, slots=True)
class Broken(Exception):
    """An invariant does not hold, or an actor failed.

    Attributes:
        check: the invariant's or the actor's name.
        complaint: one line.
    """

    check: str
    complaint: str


class _Entry(NamedTuple):
    """A request that was dealt with, to be put into words when somebody wants to read it."""

    at_ms: int
    asked: Asked
    answer: Answer | None
    note: str


@final
class Order:
    """One order, from the first step to the last.

    Attributes:
        plan: what the scenario has declared for this order.
        steps: how many moves were made.
        remaining: the budgets, with what was spent of them.
    """

    def __init__(
        self,
        stage: Stage,
        course: Course,
        choices: Choices,
        seen: Seen,
        until: int | None = None,
    ) -> None:
        """Declare the scenario and stand before the first step; `run` makes it.

        Args:
            until: stop after so many entries of the timeline.

        Raises:
            ScenarioRefused: it declares no actor, or an actor does what it must not.
        """
        self._stage: Final = stage
        self._course: Final = course
        self._choices: Final = choices
        self._seen: Final = seen
        self._until: Final = until
        self.plan: Final = stage.declare()
        self.remaining: Final = Remaining(self.plan.budgets)
        self._log: Final[list[_Entry | Moment]] = []
        self._late: Final[list[Asked]] = []
        self._running: Acting | None = None
        self._family = "start"
        self._actors: Final[list[Acting]] = []
        self._by_name: Final[dict[str, Acting]] = {}
        self.steps = 0

    def run(self) -> None:
        """Make every step, hold every invariant.

        Raises:
            Broken: something does not hold.
            ScenarioRefused: the scenario cannot be played.
            MarksLost: play this order from scratch, on a subject without marks.
        """
        try:
            self._begin()
            while (moves := self._next_moves()) and not self._is_cut:
                self._go(self._choices.pick(self._family, moves))
                self.steps += 1
                if self.steps > STEPS_MAX:
                    raise ScenarioRefused(
                        f"{self._stage.place}: an order has not ended after {STEPS_MAX} steps;"
                        " let every actor end."
                    )
            if not self._is_cut:
                self._hold(self.plan.final_checks)
        finally:
            for actor in self._actors:
                actor.close()

    def timeline(self) -> tuple[Moment, ...]:
        """Return what happened, in order."""
        return tuple(self._moment(entry) for entry in self._log)

    def digest(self) -> str:
        """Return a digest of the timeline and of all that the subject keeps."""
        parts = [repr(moment) for moment in self.timeline()]
        parts.append(self._course.subject.fingerprint())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def _is_cut(self) -> bool:
        return self._until is not None and len(self._log) >= self._until

    @property
    def _is_known(self) -> bool:
        return len(self._choices.made) <= self._course.known

    def _begin(self) -> None:
        clock = self._stage.clock
        clock.now_ms = START_MS
        for planned in self.plan.actors:
            for number, name in enumerate(planned.names):
                handle = self._stage.handle(name, number, clock, self._choices)
                self._actors.append(Acting(name, planned.body(handle), self._stage.guard))
        if not self._actors:
            raise ScenarioRefused(f"{self._stage.place}: declare at least one actor.")
        self._actors.sort(key=lambda actor: actor.name)
        self._by_name.update((actor.name, actor) for actor in self._actors)
        for actor in self._actors:
            actor.start()
            self._require_sound(actor)

    def _next_moves(self) -> list[str]:
        """Return what can happen next; what was seen in the order before is not looked at anew."""
        moves = self._course.moves
        if self._is_known and self.steps < len(moves):
            return moves[self.steps]
        del moves[self.steps :]
        moves.append(self._moves())
        self._seen.note_standing(self._actors)
        return moves[-1]

    def _moves(self) -> list[str]:
        """Return what can happen next, the ordinary move first; nothing at the end."""
        living = [actor for actor in self._actors if actor.waiting is not None]
        if not living and not self._late:
            return []
        moves = [actor.name for actor in enabled(living, self._stage.clock.now_ms)]
        running = self._running
        if running is not None and running.name in moves:
            moves.remove(running.name)
            moves.insert(0, running.name)
        if not moves and living:
            moves.append(CLOCK_ON)
        if self._late:
            moves += dict.fromkeys(_arrival(each) for each in self._late)
        moves += self.remaining.jumps()
        if self.remaining.allows("kill"):
            moves += [f"{KILL}{actor.name}" for actor in living]
        return moves

    def _go(self, move: str) -> None:
        actor = self._by_name.get(move)
        if actor is not None:
            self._step(actor)
        elif move == CLOCK_ON:
            wakes_at = next_wake_ms(self._actors)
            assert wakes_at is not None, "whoever can neither go on nor sleeps has ended"
            self._move_clock(wakes_at - self._stage.clock.now_ms)
        elif move.startswith(CLOCK):
            self._move_clock(self.remaining.take_jump(move))
        elif move.startswith(KILL):
            self._kill(self._by_name[move.removeprefix(KILL)])
        else:
            self._arrive(move)

    def _move_clock(self, by_ms: int) -> None:
        self._stage.clock.now_ms += by_ms
        self._note(Moment(self._at_ms(), "clock", f"{by_ms / 1000:+g} s"))
        self._hold(self.plan.always_checks)

    def _kill(self, actor: Acting) -> None:
        self.remaining.take("kill")
        actor.kill()
        self._note(Moment(self._at_ms(), actor.name, "killed"))

    def _arrive(self, move: str) -> None:
        for asked in self._late:
            if move == _arrival(asked):
                self._late.remove(asked)
                [answer] = self._course.perform([asked], self._choices.made, is_deaf=True)
                self._note(_Entry(self._at_ms(), asked, answer, "late"))
                self._hold(self.plan.always_checks)
                return

    def _step(self, actor: Acting) -> None:
        """Let an actor's request be carried out, and the actor run on."""
        request = actor.waiting
        assert request is not None, "only an actor that waits is offered"
        if self._running is not None and self._running is not actor and self._running.waiting:
            self.remaining.spent["pause"] += 1
        self._running = actor
        self._family = f"{actor.name} after {request.point}"
        if request.work is None:
            self._note(Moment(self._at_ms(), actor.name, request.point))
            actor.answer(None)
            self._require_sound(actor)
            return
        asked = Asked(actor.name, request)
        way = self._way(asked)
        if way in {Way.LOST, Way.LATE}:
            if way is Way.LATE:
                self._late.append(asked)
            self._note(_Entry(self._at_ms(), asked, None, way.value))
            self._answer(actor, None)
            return
        if way is Way.TWICE:
            self._late.append(asked)
        neighbours = self._neighbours(actor)
        group = [asked, *(Asked(each.name, each.waiting) for each in neighbours if each.waiting)]
        answers = self._course.perform(group, self._choices.made, is_deaf=way is Way.ANSWER_LOST)
        note = "" if way is Way.AS_ASKED else way.value
        for member, answer in zip(group, answers, strict=True):
            self._note(_Entry(self._at_ms(), member, answer, note))
            note = "in the same batch"
        for each, answer in zip([actor, *neighbours], answers, strict=True):
            is_lost = way is Way.ANSWER_LOST and each is actor
            self._answer(each, None if is_lost else answer)
        self._hold(self.plan.always_checks)

    def _way(self, asked: Asked) -> Way:
        ways = self.remaining.ways()
        if len(ways) == 1 or not self._course.subject.may_fail(asked.request):
            return Way.AS_ASKED
        way = Way(self._choices.pick(f"{asked.actor} at {asked.request.point}", ways))
        if way.kind is not None:
            self.remaining.take(way.kind)
        return way

    def _neighbours(self, actor: Acting) -> list[Acting]:
        """Choose whose commands share the batch of an actor's."""
        subject = self._course.subject
        neighbours: list[Acting] = []
        if (
            not self.remaining.allows("shared_batch")
            or actor.waiting is None
            or not subject.may_share(actor.waiting)
        ):
            return neighbours
        while self.remaining.allows("shared_batch"):
            others = [
                each.name
                for each in enabled(self._actors, self._stage.clock.now_ms)
                if each is not actor
                and each not in neighbours
                and each.waiting is not None
                and subject.may_share(each.waiting)
            ]
            if not others:
                break
            family = f"beside {actor.name} at {actor.waiting.point}"
            picked = self._choices.pick(family, [NOBODY, *others])
            if picked == NOBODY:
                break
            self.remaining.take("shared_batch")
            neighbours.append(self._by_name[picked])
        return neighbours

    def _answer(self, actor: Acting, answer: Answer | None) -> None:
        """Hand an actor its answer; None is one that was lost."""
        error = self._course.subject.lost() if answer is None else answer.error
        if error is not None:
            raised_at = error.__traceback__
            actor.throw(error)
            try:
                self._require_sound(actor)
            finally:
                # The same object is raised once more in the next order that shares this step; it
                # must not hold the frames of this one.
                error.__traceback__ = raised_at
            return
        if answer is not None:
            result = answer.result
            # Orders share answers; what can be changed is each actor's own.
            actor.answer(copy.deepcopy(result) if isinstance(result, _CHANGEABLE) else result)
        self._require_sound(actor)

    def _require_sound(self, actor: Acting) -> None:
        failure = actor.failure
        if failure is None:
            return
        if self._course.subject.excuses(failure):
            self._note(Moment(self._at_ms(), actor.name, "gave up", one_line(failure)))
            return
        if is_about_a_loop(failure):
            raise ScenarioRefused(
                f"{place_of(failure)}: {actor.name} awaits something the harness cannot order;"
                " await only what its handle offers (do, sync, sleep, …)."
            )
        self._stage.guard.own.require_sound(failure, f"the actor {actor.name}")
        raise Broken(actor.name, f"{actor.name} failed: {one_line_with_place(failure)}")

    def _hold(self, checks: dict[str, Callable[[Any], None]]) -> None:
        """Hold invariants against the present state, unless that was done before."""
        if not checks or self._is_known:
            return
        look = self._course.subject.look()
        for name, check in checks.items():
            self._seen.checks[name] += 1
            try:
                answer: object = check(look)
                self._stage.guard.own.require_plain(name, check, answer)
            except AssertionError as error:
                raise Broken(name, f"{name}: {one_line(error)}") from error
            except Exception as error:
                raise self._stage.guard.own.refusal_of_check(name, error) from error

    def _note(self, entry: _Entry | Moment) -> None:
        self._log.append(entry)

    def _at_ms(self) -> int:
        return self._stage.clock.now_ms - START_MS

    def _moment(self, entry: _Entry | Moment) -> Moment:
        if isinstance(entry, Moment):
            return entry
        asked = entry.asked
        result, generation = "", None
        if entry.answer is not None:
            result, generation = self._course.subject.words(asked, entry.answer)
        said = ", ".join(filter(None, (result, entry.note)))
        return Moment(entry.at_ms, asked.actor, asked.request.point, said, generation)


def _arrival(asked: Asked) -> str:
    return f"{LATE}{asked.request.point} of {asked.actor}"
