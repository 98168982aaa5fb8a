"""How a runner can end, and what each end means: for its row, for its run, for whoever asks.

Two questions are kept apart. What became of the *process* is one of six outcomes, recorded with
its row. What becomes of the *run* follows from committed facts alone; where nobody may go on with
it at once, its class says why, and no class stands for another.
"""

import enum
from dataclasses import dataclass
from typing import Final

from pi_workflows.protocol.states import ParkReason, WorkerStatus
from runtime.process import ExitStatus
from store.run_parking import Departure


class RunnerEnd(enum.Enum):
    """Why a conversation ended."""

    FINISHED = enum.auto()
    PARKED = enum.auto()
    ABANDONED_CODE = enum.auto()
    SOURCE_CHANGED = enum.auto()
    SETTINGS_BROKEN = enum.auto()
    NOT_REGISTERED = enum.auto()
    NOT_READY = enum.auto()
    SILENT = enum.auto()
    CRASHED = enum.auto()
    PROTOCOL = enum.auto()
    REFUSED = enum.auto()
    CLAIM_LOST = enum.auto()
    INTERRUPTED = enum.auto()
    TERMINATED = enum.auto()


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What an end means.

    Attributes:
        outcome: of the process, unless it did not do what its last words said.
        departure: how the run is given up; None when a commit has settled that already.
        death: the class of a death; None when it was none.
    """

    outcome: WorkerStatus
    departure: Departure | None
    death: ParkReason | None = None


_DIED: Final = Departure.DIED_WITHOUT_PROGRESS

_MEANINGS: Final = {
    RunnerEnd.FINISHED: _Meaning(WorkerStatus.EXITED, None),
    RunnerEnd.PARKED: _Meaning(WorkerStatus.EXITED, None),
    RunnerEnd.ABANDONED_CODE: _Meaning(WorkerStatus.EXITED, Departure.ABANDONED_CODE),
    RunnerEnd.SOURCE_CHANGED: _Meaning(WorkerStatus.EXITED, Departure.SOURCE_CHANGED),
    RunnerEnd.SETTINGS_BROKEN: _Meaning(WorkerStatus.EXITED, Departure.SETTINGS_BROKEN),
    # A full disk says nothing against the run, which must not be given up for it.
    RunnerEnd.NOT_REGISTERED: _Meaning(WorkerStatus.CANCELLED, Departure.HELD_UP),
    RunnerEnd.NOT_READY: _Meaning(WorkerStatus.TIMED_OUT, _DIED, ParkReason.TIMED_OUT),
    RunnerEnd.SILENT: _Meaning(WorkerStatus.TIMED_OUT, _DIED, ParkReason.TIMED_OUT),
    RunnerEnd.CRASHED: _Meaning(WorkerStatus.CRASHED, _DIED, ParkReason.CRASHED),
    RunnerEnd.PROTOCOL: _Meaning(WorkerStatus.CRASHED, _DIED, ParkReason.PROTOCOL_REJECTED),
    RunnerEnd.REFUSED: _Meaning(WorkerStatus.CRASHED, _DIED, ParkReason.CRASHED),
    RunnerEnd.CLAIM_LOST: _Meaning(WorkerStatus.CLAIM_LOST, Departure.HANDED_OFF),
    # SIGTERM of a stranger, or of its own code: one that comes again at each try must not be
    # taken up again for ever. The server stops a child only after it has ceased to listen to it.
    RunnerEnd.TERMINATED: _Meaning(WorkerStatus.CRASHED, _DIED, ParkReason.CRASHED),
    RunnerEnd.INTERRUPTED: _Meaning(WorkerStatus.CANCELLED, Departure.HANDED_OFF),
}


@dataclass(frozen=True, slots=True)
class Leave:
    """How an owner gives its run up.

    Attributes:
        departure: None when a commit has settled that already.
        death: the class of the death, if it was one.
        words: what the runner said that gave the run up, bounded; None when it said nothing.
    """

    departure: Departure | None
    death: ParkReason = ParkReason.CRASHED
    words: str | None = None


def leave(end: RunnerEnd, *, progressed: bool, words: str | None) -> Leave:
    """Say how the run is left after this end.

    Args:
        end: why the conversation ended.
        progressed: an attempt finished or an effect was settled since the hello.
        words: what the runner said of it.
    """
    meaning = _MEANINGS[end]
    departure = meaning.departure
    if departure is _DIED and progressed:
        departure = Departure.DIED_AFTER_PROGRESS
    return Leave(departure, meaning.death or ParkReason.CRASHED, words)


def outcome_of(end: RunnerEnd, status: ExitStatus, *, said_goodbye: bool) -> WorkerStatus:
    """Return what became of the process.

    `exited` is only a process that said goodbye and then left with code 0. One whose work was
    over and that had to be stopped was `cancelled`; any other has `crashed`, though its run may
    have ended well.
    """
    outcome = _MEANINGS[end].outcome
    if outcome is not WorkerStatus.EXITED:
        return outcome
    if said_goodbye and status.code == 0:
        return outcome
    if end is RunnerEnd.PARKED or status.signal is not None:
        return WorkerStatus.CANCELLED
    return WorkerStatus.CRASHED
