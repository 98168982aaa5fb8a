"""Our store as the subject of orders: real statements on a real database, batch by batch."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from pi_workflows.chaos.answers import arrive, few_words, words_of
from pi_workflows.chaos.inline_store import CountedIds, InlineStore
from pi_workflows.chaos.scene import (
    Acknowledged,
    AnswerLost,
    Command,
    Look,
    Outcome,
    Sending,
    Sent,
    StoreQuery,
    StoreWork,
)
from runtime.chaos.acting import Request
from runtime.chaos.outcome import PromiseBroken, ScenarioRefused
from runtime.chaos.scenario import SimulatedTime
from runtime.chaos.subject import Answer, Asked, MarksLost, Words
from store.chaos.branching import BranchingWriter, BranchLost
from store.database import Writer
from store.event_log import every_event


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a mark remembers beside the database."""

    ids_drawn: int
    acknowledged: int
    sent: int
    is_down: bool


@final
class StoreSubject:
    """Carries out what the actors of a `Scene` ask for; see `Subject`."""

    def __init__(self, writer: Writer, clock: SimulatedTime, ids: CountedIds) -> None:
        """Take over a writer whose database is prepared.

        Args:
            writer: a `BranchingWriter` that has taken root can go back to marks; with any other
                this is good for one order.
            ids: as the preparation has left them.
        """
        self._writer: Final = writer
        self._branches: Final = writer if isinstance(writer, BranchingWriter) else None
        self._clock: Final = clock
        self._ids: Final = ids
        self._store = InlineStore(writer, clock, ids)
        self._acknowledged: Final[list[Acknowledged]] = []
        self._sent: Final[list[Sent]] = []
        self._marks: Final[list[_Mark]] = []
        self._root: Final = self._present()

    def on_answer(self, answered: Callable[[], None]) -> None:
        """Call this at the instant at which the store answers a command."""
        self._store.answered = lambda _: answered()

    def perform(self, group: Sequence[Asked]) -> list[Answer]:
        """Carry out a group of commands, or one other request; see `Subject`.

        Raises:
            MarksLost: a command let SQLite throw the transaction away.
        """
        works = [each.request.work for each in group]
        commands = [work.command for work in works if isinstance(work, StoreWork)]
        if len(commands) == len(group):
            return self._carry_out(commands)
        [asked] = group
        if isinstance(asked.request.work, StoreQuery):
            return [self._ask(asked.request.work)]
        if isinstance(asked.request.work, Sending):
            return [self._send(asked.actor, asked.request.work)]
        raise ScenarioRefused(
            f"{asked.actor} asks for {asked.request.work!r}, which a store does not do;"
            " await only what Me offers."
        )

    def acknowledge(self, asked: Asked, answer: Answer) -> None:
        """Note that a command's result has reached its actor; refusals are not noted."""
        if answer.error is None and isinstance(asked.request.work, StoreWork):
            self._acknowledged.append(
                Acknowledged(asked.actor, asked.request.point, answer.result)
            )

    def look(self) -> Look:
        """Return the committed state, and what the actors know."""
        return Look(self._store.reading(), self._acknowledged, self._sent)

    def fingerprint(self) -> str:
        """Return a digest of every event and of all that is known outside."""
        digest = hashlib.sha256()
        for row in [*every_event(self._store.reading()), *self._sent]:
            digest.update(repr(row).encode())
        for known in self._acknowledged:
            digest.update(f"{known.actor} {known.point} {few_words(known.result)}".encode())
        return digest.hexdigest()

    def mark(self) -> None:
        """Remember the present state; without branches there is no way back, and no need."""
        if self._branches is not None:
            self._branches.mark()
            self._marks.append(self._present())

    def back_to(self, mark: int) -> None:
        """Return to a mark; see `Subject`."""
        assert self._branches is not None, "this subject is good for one order"
        self._branches.back_to(mark)
        del self._marks[mark + 1 :]
        self._restore(self._marks[mark])

    def may_fail(self, request: Request) -> bool:
        """Commands and what is sent outside can get lost; a lost question is asked again."""
        return isinstance(request.work, StoreWork | Sending)

    def may_share(self, request: Request) -> bool:
        """Commands share batches."""
        return isinstance(request.work, StoreWork)

    def lost(self) -> Exception:
        """Return what stands for a lost answer."""
        return AnswerLost("the answer was lost")

    def excuses(self, error: BaseException) -> bool:
        """An actor may end with what it cannot know."""
        return isinstance(error, Outcome)

    def words(self, asked: Asked, answer: Answer) -> Words:
        """Put an answer into words, without tokens and payloads."""
        return words_of(asked.request.work, answer)

    def _carry_out(self, commands: list[Command[object]]) -> list[Answer]:
        try:
            answers = self._store.carry_out(commands)
        except BranchLost:
            answers = []
        if self._branches is not None and self._branches.is_lost:
            self._branches.take_root()
            self._marks.clear()
            self._restore(self._root)
            raise MarksLost
        return answers

    def _present(self) -> _Mark:
        return _Mark(
            self._ids.drawn, len(self._acknowledged), len(self._sent), self._store.is_down
        )

    def _restore(self, mark: _Mark) -> None:
        self._ids.drawn = mark.ids_drawn
        del self._acknowledged[mark.acknowledged :]
        del self._sent[mark.sent :]
        self._store.is_down = mark.is_down

    def _ask(self, question: StoreQuery) -> Answer:
        changes = self._writer.connection.total_changes
        before = changes()
        try:
            answer = Answer(question.query(self._store.reading()))
        except Exception as error:  # noqa: BLE001 - every error of a question is its asker's
            answer = Answer(None, error)
        if changes() != before:
            return Answer(None, PromiseBroken("a question has changed rows"))
        return answer

    def _send(self, actor: str, sending: Sending) -> Answer:
        """Let something arrive outside."""
        return Answer(arrive(self._sent, actor, sending))
