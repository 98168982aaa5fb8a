"""What a process of the pool does: it plays one actor of an order, then the next, until let go.

It goes on only when it is let, from point to point. Between two points it does what its actor has
asked for; at a point it has said where it stands, and blocks. Time, outside and choices are the
controller's.
"""

import traceback
from collections.abc import Sequence
from typing import Final, Protocol, cast, final

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from runtime.chaos.acting import Acting, Request
from runtime.chaos.choices import Choices
from runtime.chaos.complaints import is_about_a_loop, one_line, one_line_with_place, place_of
from runtime.chaos.guard import Guard
from runtime.chaos.outcome import ScenarioRefused
from runtime.chaos.procs_wire import Line, PeerGone


class GivenUp(BaseException):
    """The controller has ended the order here; not an `Exception`, so that nobody takes it on."""


class Subject(Protocol):
    """What actors act on, as one process has it.

    Attributes:
        guard: installed before the processes are forked, so that none has to do it: touching so
            many modules would cost each some 5 ms of copied memory.
    """

    guard: Guard

    def open(self, place: str) -> None:
        """Use the resources at `place` from now on."""
        ...

    def actor(self, name: str, stand: "Stand", guard: Guard) -> Acting:
        """Return an actor of a fresh call of the scenario, not begun."""
        ...

    def carry_out(self, request: Request, stand: "Stand") -> object:
        """Do what an actor has asked for, standing at every point on the way.

        Raises:
            GivenUp: passed on; nothing stays open.
            Exception: whatever the actor is to be told.
        """
        ...

    def told(self, request: Request, result: object, error: Exception | None) -> JsonObject:
        """Return what the controller is told of an answer that reaches its actor.

        Among it `words` and `generation`, for the timeline.
        """
        ...

    def excuses(self, error: BaseException) -> bool:
        """Say whether an actor may end with this error without being at fault."""
        ...


@final
class Stand:
    """Where this process stands; also the clock, the choices and the outside it is given.

    Attributes:
        now_ms: simulated wall time, UTC epoch ms, as of the last release.
        choices: every decision goes to the controller.
    """

    def __init__(self, line: Line, now_ms: int) -> None:
        self._line: Final = line
        self._facts: JsonObject = {}
        self._is_given_up = False
        self.now_ms = now_ms
        self.choices: Final = Choices(self)

    def wall_ms(self) -> int:
        """Return the simulated wall time: this is a `SimulatedTime`."""
        return self.now_ms

    def note(self, **facts: JsonValue) -> None:
        """Tell these with the next report."""
        self._facts |= facts

    def at(self, place: str, **facts: JsonValue) -> str:
        """Report a place and block until let go on; return how.

        Returns:
            "go", or the word of the fault that is to happen here.

        Raises:
            GivenUp: the order ends here.
        """
        answer = self.ask(at=place, **facts)
        self.now_ms = cast("int", answer["nowMs"])
        return cast("str", answer["how"])

    def ask(self, **question: JsonValue) -> JsonObject:
        """Put a question to the controller, and all that was noted with it; return the answer.

        Raises:
            GivenUp: the order ends here; also whatever is asked after that.
        """
        if self._is_given_up:
            raise GivenUp
        noted, self._facts = self._facts, {}
        self._line.send(question | noted)
        answer = self._line.receive()
        if answer.get("how") == "giveUp":
            self._is_given_up = True
            raise GivenUp
        return answer

    def end(self) -> None:
        """Report that this actor asks for nothing more."""
        self._line.send(self._facts | {"ended": True})

    def pick(self, name: str, options: Sequence[str]) -> int:
        """Let the controller decide: this is a `Source`."""
        family = name.rpartition("#")[0]
        return cast("int", self.ask(choose=family, options=list(options))["picked"])


def serve(line: Line, subject: Subject) -> None:
    """Do what the controller says until it leaves.

    An error that is neither an actor's nor a refusal of the scenario is reported in full; it means
    that the harness or the product is broken, and the controller ends the pool.
    """
    try:
        while True:
            _serve_one(line, subject, subject.guard)
    except PeerGone:
        return
    except ScenarioRefused as refused:
        line.send({"refused": str(refused)})
    except Exception:  # noqa: BLE001 - there is nobody else to tell
        line.send({"broken": traceback.format_exc()})


def _serve_one(line: Line, subject: Subject, guard: Guard) -> None:
    wish = line.receive()
    if "open" in wish:
        subject.open(cast("str", wish["open"]))
        line.send({"opened": True})
        return
    stand = Stand(line, cast("int", wish["nowMs"]))
    acting = subject.actor(cast("str", wish["act"]), stand, guard)
    try:
        _act(acting, subject, stand)
    except GivenUp:
        stand.end()
    finally:
        acting.close()


def _act(acting: Acting, subject: Subject, stand: Stand) -> None:
    """Let an actor act to its end."""
    acting.start()
    while (request := acting.waiting) is not None:
        result, error = None, None
        try:
            result = subject.carry_out(request, stand)
        except ScenarioRefused:
            raise
        except Exception as raised:  # noqa: BLE001 - the actor's to judge
            error = raised
        stand.note(answered=request.point, **subject.told(request, result, error))
        if error is None:
            acting.answer(result)
        else:
            acting.throw(error)
    if acting.failure is not None:
        _report(acting, acting.failure, subject, stand)
    stand.end()


def _report(acting: Acting, failure: BaseException, subject: Subject, stand: Stand) -> None:
    """Say with what an actor has ended.

    Raises:
        ScenarioRefused: it has awaited what cannot be ordered, or made a mistake.
    """
    if is_about_a_loop(failure):
        raise ScenarioRefused(
            f"{place_of(failure)}: {acting.name} awaits something the harness cannot order;"
            " await only what its handle offers (do, sync, sleep, …)."
        )
    is_excused = subject.excuses(failure)
    if not is_excused:
        subject.guard.own.require_sound(failure, f"the actor {acting.name}")
        stand.note(failed=one_line_with_place(failure))
    else:
        stand.note(gaveUp=one_line(failure))
