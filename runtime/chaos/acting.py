"""An actor of a scenario: a coroutine that says what it wants to do next and waits to be let.

The engine decides when. A request names its point, so that orders, faults and coverage can speak
of "worker-0 at claim"; what the request carries is the business of the engine's subject alone.
"""

import contextlib
import types
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Final, final

from runtime.chaos.guard import Guard
from runtime.chaos.outcome import ScenarioRefused

_NOTHING: Final = object()
"""What an actor asks for that has ended."""


@dataclass(frozen=True, slots=True)
class Request:
    """What an actor wants to do next.

    Attributes:
        point: stable name of the place: "claim", "sync before_complete", "sleep".
        work: what the subject carries out; None for a mere place.
        wake_at_ms: simulated wall time before which the actor is not to go on; None at once.
    """

    point: str
    work: object | None = None
    wake_at_ms: int | None = None


@types.coroutine
def ask(request: Request) -> Generator[Request, object, object]:
    """Wait until the engine has carried out the request; return or raise what came of it."""
    return (yield request)


@final
class Acting:
    """One actor under way.

    Attributes:
        name: `worker-0`, unique in the scenario.
        waiting: what it wants to do next; None when it has ended.
        failure: the error it ended with; None if none.
        killed: True when it was killed: it takes no further step, not even a `finally`.
    """

    def __init__(self, name: str, coroutine: Coroutine[Any, Any, object], guard: Guard) -> None:
        """Take over a coroutine that has not begun; `start` lets it run to its first request."""
        self.name: Final = name
        self._coroutine: Final = coroutine
        self._guard: Final = guard
        self.waiting: Request | None = None
        self.failure: BaseException | None = None
        self.killed = False

    @property
    def ended(self) -> bool:
        """Whether it will ask for nothing more."""
        return self.waiting is None

    def start(self) -> None:
        """Run it to its first request."""
        self._step(None, None)

    def answer(self, result: object) -> None:
        """Hand it what its request came to and run it to the next one."""
        self._step(result, None)

    def throw(self, error: BaseException) -> None:
        """Let its request fail with `error` and run it to the next one."""
        self._step(None, error)

    def kill(self) -> None:
        """Let it never take another step."""
        self.killed = True
        self.waiting = None

    def close(self) -> None:
        """Throw the coroutine away at the end of an exploration; its `finally` has no effect."""
        with contextlib.suppress(BaseException):
            self._coroutine.close()

    def _step(self, result: object, error: BaseException | None) -> None:
        self.waiting = None
        asked: object = _NOTHING
        try:
            with self._guard:
                asked = (
                    self._coroutine.send(result) if error is None else self._coroutine.throw(error)
                )
        except StopIteration:
            pass
        except ScenarioRefused:
            raise
        except Exception as failed:  # noqa: BLE001 - judged by the engine
            self.failure = failed
        if self._guard.refusal is not None:
            raise self._guard.refusal  # Whether the actor has caught it or not.
        if asked is _NOTHING:
            return
        if not isinstance(asked, Request):
            raise ScenarioRefused.foreign_await(self.name, self._coroutine)
        self.waiting = asked
