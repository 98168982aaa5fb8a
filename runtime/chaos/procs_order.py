"""One order of real processes: who goes next, until all have ended, and what came of it.

A process stands at a point until it is let go on, and only one goes at a time. Whoever finds the
database locked stands at "busy", and is not let go on before somebody has given a lock back: so
no order rests on a wait, and none of its verdicts on a clock.

Faults are moves like any other: a kill takes effect where its process stands, be it inside a
transaction; a stopped process is not let go on before it is resumed.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Final, Protocol, cast, final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from runtime.chaos.choices import Choices
from runtime.chaos.outcome import Moment, PromiseBroken, ScenarioRefused
from runtime.chaos.procs_pool import Pool, PoolBroken, PooledProcess
from runtime.chaos.procs_sampling import Skipped
from runtime.chaos.procs_wire import PeerGone
from runtime.chaos.scenario import Budgets
from runtime.simulation.clock import START_MS

STEPS_MAX: Final = 10_000
"""An order that has not ended by then is refused: some actor never ends."""

REPLY_POINT: Final = " after_commit"
"""How the name of a point ends at which an answer is ready and can be lost."""


_Moves = dict[str, Callable[[], None]]


class World(Protocol):
    """What the actors share, as the controller sees it; one for each order."""

    def acknowledged(self, actor: str, facts: JsonObject) -> None:
        """Take note of what an actor was told to be done."""
        ...

    def outside(self, actor: str, facts: JsonObject) -> JsonValue:
        """Do something outside; return the answer."""
        ...

    def check(self, now_ms: int, *, is_final: bool) -> None:
        """Look at what is durable now.

        Raises:
            CheckFailed: one does not hold.
        """
        ...


@dataclass(slots=True)
class _Seat:
    """One actor of the order, and the process that plays it."""

    name: str
    process: PooledProcess
    place: str = ""
    is_busy: bool = False
    is_over: bool = False
    wake_at_ms: int = 0

    def can_go(self, now_ms: int) -> bool:
        return not (
            self.is_over or self.is_busy or self.process.is_stopped or self.wake_at_ms > now_ms
        )


@dataclass(slots=True)
class Played:
    """What an order came to.

    Attributes:
        complaint: what was broken, in the invariant's own words; None if everything held.
        promise: the name of the invariant; "" without a complaint.
        timeline: one entry for each move, answer and fault.
        faults: how often each kind happened.
        pairs: places where two actors stood at once, "A at p | B at q".
    """

    timeline: list[Moment] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    pairs: set[str] = field(default_factory=set)
    complaint: str | None = None
    promise: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of all that happened, as hexadecimal text; the words of a complaint aside."""
        story = repr([*self.timeline, self.promise])
        return hashlib.sha256(story.encode()).hexdigest()


class CheckFailed(PromiseBroken):
    """An invariant does not hold; `invariant` is its name."""

    def __init__(self, complaint: str, invariant: str) -> None:
        super().__init__(complaint)
        self.invariant: Final = invariant


@final
class Order:
    """Plays one order.

    Attributes:
        played: what has happened so far.
    """

    def __init__(
        self,
        pool: Pool,
        seats: Mapping[str, PooledProcess],
        budgets: Budgets,
        choices: Choices,
        world: World,
    ) -> None:
        """Prepare to play.

        Args:
            seats: the process of each actor by its name; the processes are idle.
            budgets: what may go wrong.
        """
        self._pool: Final = pool
        self._seats: Final = {
            name: _Seat(name, process) for name, process in sorted(seats.items())
        }
        self._choices: Final = choices
        self._world: Final = world
        self._now_ms = START_MS
        self._jumps: Final = list(budgets.clock_jump)
        self._left: Final = Counter(
            kill=budgets.kill,
            pause=budgets.pause,
            drop=budgets.drop,
            duplicate=budgets.duplicate,
        )
        self._is_to_check = False
        self.played: Final = Played()

    def play(self, until: int | None = None) -> Played:
        """Play to the end, or to a broken promise; the processes that live are idle again.

        Args:
            until: give up after so many entries of the timeline; None plays on.

        Raises:
            ScenarioRefused: an actor did what none may do.
            PoolBroken: a process ended by itself, or the harness failed in it.
            Skipped: passed on from the choices; the order was given up.
        """
        try:
            if self._play(until):
                self._world.check(self._now_ms, is_final=True)
        except CheckFailed as broken:
            self.played.complaint = str(broken)
            self.played.promise = broken.invariant
            self._entry("check", broken.invariant, "broken")
        except Skipped:
            self._give_up()
            raise
        self._give_up()
        if until is not None:
            del self.played.timeline[until:]
        return self.played

    def _play(self, until: int | None) -> bool:
        """Play; return False when it was given up before the end."""
        for seat in self._seats.values():
            self._tell(seat, act=seat.name)
        for seat in self._seats.values():
            self._hear(seat)
        last: _Seat | None = None
        family, steps = "start", 0
        while until is None or len(self.played.timeline) < until:
            self._note_pairs()
            moves = self._moves(last)
            if not moves:
                if not self._pass_time():
                    return True
                continue
            name = self._choices.pick(family, list(moves))
            moves[name]()
            if name in self._seats:
                last = self._seats[name]
                family = f"{name} after {last.place}"
            steps += 1
            if steps > STEPS_MAX:
                raise ScenarioRefused(
                    f"an order has not ended after {STEPS_MAX} steps; let every actor end."
                )
        return False

    def _moves(self, last: _Seat | None) -> _Moves:
        """Return every move by its name: the ordinary ones first, then the faults."""
        seats = [seat for seat in self._seats.values() if not seat.is_over]
        able = [seat for seat in seats if seat.can_go(self._now_ms)]
        able.sort(key=lambda seat: seat is not last)
        moves: _Moves = {seat.name: partial(self._go, seat) for seat in able}
        for seat in seats:
            if seat.process.is_stopped:
                moves[f"resume {seat.name}"] = partial(self._resume, seat)
        if moves:
            self._add_faults(moves, seats)
        return moves

    def _add_faults(self, moves: _Moves, seats: Sequence[_Seat]) -> None:
        for jump_s in self._jumps:
            moves[f"clock {jump_s:+g} s"] = partial(self._jump, jump_s)
        if self._left["kill"]:
            moves.update((f"kill {seat.name}", partial(self._kill, seat)) for seat in seats)
        if self._left["pause"]:
            moves.update(
                (f"pause {seat.name}", partial(self._pause, seat))
                for seat in seats
                if not seat.process.is_stopped
            )
        for kind in ("drop", "duplicate"):
            if self._left[kind]:
                moves.update(
                    (f"{kind} {seat.name}", partial(self._go, seat, kind))
                    for seat in seats
                    if seat.place.endswith(REPLY_POINT) and seat.can_go(self._now_ms)
                )

    def _go(self, seat: _Seat, how: str = "go") -> None:
        """Let a process go on to its next point."""
        if how != "go":
            self._spend(how)
            self._entry(seat.name, how, f"at {seat.place}")
        entries = len(self.played.timeline)
        self._tell(seat, how=how)
        self._hear(seat)
        if len(self.played.timeline) == entries:
            self._entry(seat.name, "ends" if seat.is_over else seat.place)
        if self._is_to_check:
            self._check()

    def _kill(self, seat: _Seat) -> None:
        self._spend("kill")
        self._pool.kill(seat.process)
        seat.is_over = True
        self._let_lock_go()
        self._entry(seat.name, "killed", f"at {seat.place}")

    def _pause(self, seat: _Seat) -> None:
        self._spend("pause")
        self._pool.stop(seat.process)
        self._entry(seat.name, "paused", f"at {seat.place}")

    def _resume(self, seat: _Seat) -> None:
        self._pool.resume(seat.process)
        self._entry(seat.name, "resumed")

    def _jump(self, jump_s: float) -> None:
        self._jumps.remove(jump_s)
        self.played.faults["clock_jump"] += 1
        self._now_ms += round(jump_s * 1000)
        self._entry("clock", f"{jump_s:+g} s")
        self._check()

    def _spend(self, kind: str) -> None:
        self._left[kind] -= 1
        self.played.faults[kind] += 1

    def _pass_time(self) -> bool:
        """Let time pass until somebody wakes; return False when nobody is left to wait for.

        Raises:
            CheckFailed: somebody waits for a lock that nobody will give back.
        """
        waiting = [seat for seat in self._seats.values() if not seat.is_over]
        if not waiting:
            return False
        wakes = [seat.wake_at_ms for seat in waiting if not seat.is_busy]
        if not wakes:
            raise CheckFailed("everybody waits for a lock that nobody holds", "liveness")
        self._entry("clock", f"{(min(wakes) - self._now_ms) / 1000:+g} s", "all sleep")
        self._now_ms = min(wakes)
        return True

    def _check(self) -> None:
        self._is_to_check = False
        self._world.check(self._now_ms, is_final=False)

    def _let_lock_go(self) -> None:
        for seat in self._seats.values():
            seat.is_busy = False

    def _note_pairs(self) -> None:
        stands = sorted(
            f"{seat.name} at {seat.place}" for seat in self._seats.values() if not seat.is_over
        )
        self.played.pairs.update(f"{one} | {other}" for one, other in combinations(stands, 2))

    def _entry(
        self, lane: str, what: str, result: str = "", generation: int | None = None
    ) -> None:
        self.played.timeline.append(
            Moment(self._now_ms - START_MS, lane, what, result, generation)
        )

    def _give_up(self) -> None:
        """Leave every process that lives idle, with nothing open."""
        for seat in self._seats.values():
            if not seat.process.is_gone and seat.process.is_stopped:
                self._pool.resume(seat.process)
            if not seat.is_over:
                self._tell(seat, how="giveUp")
                while "ended" not in self._receive(seat):
                    pass

    def _tell(self, seat: _Seat, **message: JsonValue) -> None:
        try:
            seat.process.line.send(message | {"nowMs": self._now_ms})
        except PeerGone as error:
            raise PoolBroken(f"{seat.name} has ended by itself at {seat.place}") from error

    def _receive(self, seat: _Seat) -> JsonObject:
        try:
            message = seat.process.line.receive()
        except (PeerGone, TimeoutError) as error:
            raise PoolBroken(f"{seat.name} has ended or hangs after {seat.place}") from error
        if "refused" in message:
            raise ScenarioRefused(message["refused"])
        if "broken" in message:
            raise PoolBroken(f"{seat.name} after {seat.place}: {message['broken']}")
        return message

    def _hear(self, seat: _Seat) -> None:
        """Take what a process says until it stands at its next point, or its actor has ended."""
        while True:
            message = self._receive(seat)
            self._take_note(seat, message)
            if "choose" in message:
                options = cast("list[str]", message["options"])
                picked = self._choices.pick(cast("str", message["choose"]), options)
                self._tell(seat, picked=options.index(picked))
            elif "outside" in message:
                self._is_to_check = True
                self._tell(seat, answer=self._world.outside(seat.name, message))
            elif "ended" in message:
                seat.is_over = True
                if "gaveUp" in message:
                    self._entry(seat.name, "gave up", cast("str", message["gaveUp"]))
                if "failed" in message:
                    raise CheckFailed(f"{seat.name} failed: {message['failed']}", seat.name)
                return
            else:
                seat.place = cast("str", message["at"])
                seat.is_busy = "busy" in message
                seat.wake_at_ms = cast("int", message.get("wakeAtMs", 0))
                return

    def _take_note(self, seat: _Seat, message: JsonObject) -> None:
        """Note what has happened on the way."""
        if "freed" in message:
            self._let_lock_go()
        if "committed" in message:
            self._is_to_check = True
        if "acknowledged" in message:
            self._is_to_check = True
            self._world.acknowledged(seat.name, message)
        if "answered" in message:
            self._entry(
                seat.name,
                cast("str", message["answered"]),
                cast("str", message["words"]),
                cast("int | None", message["generation"]),
            )
