"""What a subject was made to do on the way to an order, so that the next one can share it.

Going depth first, an order differs from the one before it only from some decision on. Everything
up to there is not carried out again: the subject goes back to a mark, and the actors, which cannot
go back, are begun anew and handed the answers that are kept here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from runtime.chaos.choices import Decision
from runtime.chaos.subject import Answer, Asked, Subject


@dataclass(frozen=True, slots=True)
class _Operation:
    """One call of the subject.

    Attributes:
        decisions: how many had been made before it.
        mark: the last one at or before it.
    """

    decisions: int
    mark: int
    answers: list[Answer]


@final
class Course:
    """The operations of the present order.

    Attributes:
        moves: what could happen at each step; those of steps that are not known are stale.
        known: what happens after at most so many decisions was seen and checked in the order
            before; -1: nothing was.
    """

    def __init__(self, subject: Subject) -> None:
        """Take over a subject that has no mark yet."""
        self.subject: Final = subject
        self.moves: Final[list[list[str]]] = []
        self._operations: Final[list[_Operation]] = []
        self._marks = 0
        self._is_at_mark = False
        self._next = 0
        self.known = -1

    def begin_again(self) -> None:
        """Share nothing: the next order begins where the very first one did."""
        self.share(-1)
        self.moves.clear()

    def share(self, decisions: int) -> None:
        """Begin an order whose first `decisions` fall as in the one before.

        Args:
            decisions: -1 shares nothing at all, 0 what was done before any decision.
        """
        kept = self._operations
        count = len(kept)
        while count and kept[count - 1].decisions > decisions:
            count -= 1
        if count < len(kept):
            mark = kept[count].mark
            self.subject.back_to(mark)
            self._marks = mark + 1
            self._is_at_mark = True
            del kept[count:]
        self._next = 0
        self.known = decisions

    def forget(self) -> None:
        """The subject stands at its beginning again, and has no mark."""
        self._operations.clear()
        self.moves.clear()
        self._marks = self._next = 0
        self._is_at_mark = False
        self.known = -1

    def perform(
        self, group: Sequence[Asked], made: Sequence[Decision], *, is_deaf: bool = False
    ) -> list[Answer]:
        """Carry requests out, or hand out what came of them before.

        Args:
            made: the decisions so far.
            is_deaf: whoever asked first is not going to see the answer.

        Raises:
            MarksLost: see `Subject.perform`.
        """
        if self._next < len(self._operations):
            operation = self._operations[self._next]
            self._next += 1
            return operation.answers
        if not self._is_at_mark and self._may_come_back(made):
            self.subject.mark()
            self._marks += 1
        self._is_at_mark = False
        answers = self.subject.perform(group)
        for asked, answer in list(zip(group, answers, strict=True))[is_deaf:]:
            self.subject.acknowledge(asked, answer)
        self._operations.append(_Operation(len(made), self._marks - 1, answers))
        self._next += 1
        return answers

    def _may_come_back(self, made: Sequence[Decision]) -> bool:
        """Say whether another order can leave this one right here: an option is still untried."""
        if not self._operations:
            return True
        since = made[self._operations[-1].decisions :]
        return any(decision.picked + 1 < decision.count for decision in since)
