"""What becomes of bytes on their way: the wires ask, whoever simulates faults answers."""

from dataclasses import dataclass
from typing import Final, Protocol, final


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of what one end has just sent.

    Attributes:
        late_s: how long it is under way beyond the ordinary; what follows it waits behind it.
        is_lost: True: it never arrives, and the connection is broken for both ends.
    """

    late_s: float = 0.0
    is_lost: bool = False


ARRIVES: Final = Fate()
LOST: Final = Fate(is_lost=True)


class Fates(Protocol):
    """Who answers."""

    def of_sending(self, end: str) -> Fate:
        """Return what becomes of the next thing that this end sends.

        Args:
            end: name of the sender's end of its connection: `client-1001#3:a`.
        """
        ...


@final
class FairFates:
    """Everything arrives."""

    def of_sending(self, end: str) -> Fate:  # noqa: ARG002 - the protocol's signature
        """Return the ordinary fate."""
        return ARRIVES
