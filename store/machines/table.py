"""What every state machine is: a name and a table of legal moves."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from store.errors import IllegalTransitionError

StateT = TypeVar("StateT", bound=enum.StrEnum)
MoveT = TypeVar("MoveT", bound=enum.StrEnum)


@dataclass(frozen=True, slots=True)
class Machine(Generic[StateT, MoveT]):
    """A table of legal moves.

    Attributes:
        name: noun shown in refusals and in the drawn documentation.
        moves: target state by (state, move); a pair that is absent is illegal.
    """

    name: str
    moves: Mapping[tuple[StateT, MoveT], StateT]

    @property
    def states(self) -> list[StateT]:
        """All states in the order of their enum, whose first member is where rows begin."""
        (state, _), *_ = self.moves
        return list(type(state))

    def apply(self, state: StateT, move: MoveT) -> StateT:
        """Return the state that `move` leads to.

        Raises:
            IllegalTransitionError: the table has no such move from `state`.
        """
        target = self.moves.get((state, move))
        if target is None:
            raise IllegalTransitionError(self.name, state, move)
        return target
