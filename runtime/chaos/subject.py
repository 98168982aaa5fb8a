"""What the actors of a scenario act on, as the kernel of the orders sees it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, final

from runtime.chaos.acting import Request
from runtime.simulation.clock import START_MS


@final
class SteppedClock:
    """A wall clock that stands still until an order moves it.

    Attributes:
        now_ms: UTC epoch milliseconds.
    """

    def __init__(self) -> None:
        self.now_ms = START_MS

    def wall_ms(self) -> int:
        """Return the instant; see `SimulatedTime`."""
        return self.now_ms


class Answer(NamedTuple):
    """What came of a request: a result, or an error that the actor is to see raised."""

    result: object
    error: Exception | None = None


class Asked(NamedTuple):
    """A request and whose it is."""

    actor: str
    request: Request


class Words(NamedTuple):
    """An answer in words.

    Attributes:
        result: a few of them, without any secret; "" when there is nothing to say.
        generation: of the lease that the request was done under; None without one.
    """

    result: str
    generation: int | None


class MarksLost(Exception):
    """What was done took everything with it, the marks too: go through this order from scratch."""


class Subject(Protocol):
    """Carries requests out, and can go back to where it was before some of them."""

    def perform(self, group: Sequence[Asked]) -> list[Answer]:
        """Carry requests out, several of them as neighbours in one batch; answer each.

        Raises:
            MarksLost: `back_to` could not undo what this did. The subject has gone back to its
                beginning and has no marks any more.
        """
        ...

    def acknowledge(self, asked: Asked, answer: Answer) -> None:
        """Note that the answer has reached its actor."""
        ...

    def look(self) -> object:
        """Return what an invariant is shown of this instant."""
        ...

    def fingerprint(self) -> str:
        """Return a digest of all that the subject keeps, the same for the same history."""
        ...

    def mark(self) -> None:
        """Remember the present state above all other marks."""
        ...

    def back_to(self, mark: int) -> None:
        """Return to the state of a mark, 0 being the lowest; it stays, all above it are gone."""
        ...

    def may_fail(self, request: Request) -> bool:
        """Say whether the request, or its answer, can be lost, late or come twice."""
        ...

    def may_share(self, request: Request) -> bool:
        """Say whether the request can be carried out together with others."""
        ...

    def lost(self) -> Exception:
        """Return what an actor sees whose answer is lost."""
        ...

    def excuses(self, error: BaseException) -> bool:
        """Say whether an actor may end with this error without being at fault."""
        ...

    def words(self, asked: Asked, answer: Answer) -> Words:
        """Put an answer into words."""
        ...
