"""The actors of a scenario on a server whose disk is recorded."""

from collections.abc import Sequence
from typing import Final, final

from actors.state_files import StateFiles
from pi_workflows.chaos.crash_life import Known, Life, end
from pi_workflows.chaos.crash_start import Serving
from pi_workflows.chaos.inline_store import CountedIds
from pi_workflows.chaos.scene import Look, StoreQuery, StoreWork
from pi_workflows.chaos.store_subject import StoreSubject
from runtime.chaos.acting import Request
from runtime.chaos.choices import Choices
from runtime.chaos.course import Course
from runtime.chaos.orders import Broken, Order, Stage
from runtime.chaos.seen import Seen
from runtime.chaos.subject import Answer, Asked, Words
from store import host
from store.database import Reader, Writer
from store.errors import (
    EpochLost,
    Fault,
    OutcomeUnknown,
    StateIncompatibleError,
    StoreDown,
    StoreError,
)
from store.wal import CheckpointMode, checkpoint

CHECKPOINT: Final = "checkpoint"
"""The family of the decision that is made after each commit."""

_NONE: Final = "none"
_MODES: Final = {
    "passive": CheckpointMode.PASSIVE,
    "passive beside a reader": CheckpointMode.PASSIVE,
    "truncate": CheckpointMode.TRUNCATE,
}
_FATAL: Final = (OutcomeUnknown, EpochLost, StateIncompatibleError, StoreDown)


def play(
    life: Life,
    serving: Serving,
    state: StateFiles,
    stage: Stage,
    *,
    ids: CountedIds,
    choices: Choices,
) -> None:
    """Let the actors of a scenario act on the server, then end it in an orderly way.

    The claim of the start is given back first: servers that a scenario starts are its actors.
    A fault of the disk ends the server; the actors see what its clients would see.

    Raises:
        StoreError: the claim cannot be given back.
    """
    claim = serving.claim
    claim.run(lambda tx: host.release(tx, claim.claim))
    inner = StoreSubject(serving.writer, stage.clock, ids)
    subject = _RecordedSubject(inner, life, serving.writer, state, choices)
    order = Order(stage, Course(subject), choices, Seen())
    life.checks = order.plan.always_checks
    try:
        order.run()
        subject.end()
    except Broken as broken:
        life.broken = broken
    finally:
        if not serving.writer.closed:
            serving.writer.close()
    life.moments = order.timeline()


@final
class _RecordedSubject:
    """A store whose every commit is noted; see `runtime.chaos.subject.Subject`."""

    def __init__(
        self,
        inner: StoreSubject,
        life: Life,
        writer: Writer,
        state: StateFiles,
        choices: Choices,
    ) -> None:
        self._inner: Final = inner
        self._life: Final = life
        self._writer: Final = writer
        self._state: Final = state
        self._choices: Final = choices
        self._commits = 0
        self._commit_of: Final[dict[int, int]] = {}
        look = inner.look()
        life.acknowledged, life.sent = look.acknowledged, look.sent
        self._owes_decision = False
        self._answered_at = 0
        inner.on_answer(self._note_answer)

    def perform(self, group: Sequence[Asked]) -> list[Answer]:
        """Carry requests out; note what they have committed."""
        self._checkpoint()
        if not isinstance(group[0].request.work, StoreWork):
            answers = self._inner.perform(group)
            if isinstance(group[0].request.work, StoreQuery):
                self._life.history.tell(self._life.position)
            self._note_known()
            return answers
        life = self._life
        self._commits += 1
        life.log.place = f"commit {self._commits}"
        answers = self._inner.perform(group)
        for each in group:
            self._commit_of[id(each)] = self._commits
        self._note_faults(answers)
        if not life.is_down:
            self._owes_decision = True
        return answers

    def acknowledge(self, asked: Asked, answer: Answer) -> None:
        """Note that somebody relies on what was committed."""
        self._inner.acknowledge(asked, answer)
        if answer.error is None and isinstance(asked.request.work, StoreWork):
            self._life.history.tell(self._answered_at)
        self._note_known()

    def end(self) -> None:
        """End as a server that is told to stop: empty the log and close the file."""
        self._checkpoint()
        if self._life.is_down:
            return
        try:
            end(self._life, self._writer)
        except StoreError as fault:
            self._go_down(fault)

    def look(self) -> Look:
        """Return the committed state."""
        return self._inner.look()

    def fingerprint(self) -> str:
        """Return the store's."""
        return self._inner.fingerprint()

    def mark(self) -> None:
        """Do nothing: there is no way back."""

    def back_to(self, mark: int) -> None:
        """Refuse: a life is lived once."""
        raise AssertionError(f"mark {mark} of a life that is lived once")

    def may_fail(self, request: Request) -> bool:
        """Say what the store says."""
        return self._inner.may_fail(request)

    def may_share(self, request: Request) -> bool:
        """Say what the store says."""
        return self._inner.may_share(request)

    def lost(self) -> Exception:
        """Return what the store does."""
        return self._inner.lost()

    def excuses(self, error: BaseException) -> bool:
        """An actor may also end with a fault of the store."""
        return isinstance(error, Fault) or self._inner.excuses(error)

    def words(self, asked: Asked, answer: Answer) -> Words:
        """Put an answer into words, and name its commit as the disk does."""
        words = self._inner.words(asked, answer)
        commit = self._commit_of.get(id(asked))
        if commit is None:
            return words
        said = f"commit {commit}"
        return Words(f"{words.result}, {said}" if words.result else said, words.generation)

    def _note_answer(self) -> None:
        self._answered_at = self._life.position

    def _note_known(self) -> None:
        life = self._life
        life.known.append(Known(life.position, len(life.acknowledged), len(life.sent)))

    def _note_faults(self, answers: list[Answer]) -> None:
        for answer in answers:
            if isinstance(answer.error, Fault):
                self._life.faults.append(answer.error)
                if isinstance(answer.error, _FATAL):
                    self._life.is_down = True

    def _go_down(self, fault: Exception) -> None:
        self._life.faults.append(fault)
        self._life.is_down = True
        self._writer.keep_log()

    def _checkpoint(self) -> None:
        """Decide whether the log is moved now: after the answers, before the next batch."""
        if not self._owes_decision or self._life.is_down:
            return
        self._owes_decision = False
        how = self._choices.pick(CHECKPOINT, [_NONE, *_MODES])
        if how == _NONE:
            return
        self._life.log.place = f"checkpoint {self._commits}"
        reader: Reader | None = None
        try:
            if "reader" in how:
                reader = self._state.open_reader()
                with reader.snapshot():
                    checkpoint(self._writer.connection, _MODES[how])
            else:
                checkpoint(self._writer.connection, _MODES[how])
        except StoreError as fault:
            self._go_down(fault)
        finally:
            if reader is not None:
                reader.close()
