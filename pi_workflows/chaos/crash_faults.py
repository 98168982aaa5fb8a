"""I/O errors: every call of a life and of the next start fails, in every way, once and for good.

Whatever fails, the store says so in one of its own errors, what was answered is there after the
next start, and the commands beside it are unharmed.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, final

from pi_workflows.chaos.crash_account import Account, Workloads, order_of
from pi_workflows.chaos.crash_cuts import survive
from pi_workflows.chaos.crash_ground import Failing, Ground, Lived
from pi_workflows.chaos.crash_judge import LOG
from pi_workflows.chaos.crash_life import Life, complaint_of
from pi_workflows.chaos.crash_words import (
    CALLS_MAX,
    DISK_FAULT,
    DISK_FAULT_AT,
    DISK_FAULT_IN,
    DISK_FAULT_LASTS,
    FIRST_LIFE,
    LASTING,
    NEXT_START,
    ONCE,
    SURVIVES,
    decided,
)
from runtime.chaos.choices import Choices, Replayed
from runtime.chaos.disk_faults import Failure, Fault, Faults
from runtime.chaos.disk_log import DiskLog, Doing
from runtime.chaos.disk_model import DiskModel
from runtime.chaos.disk_survivors import Persistence

WHOLE_MAX: Final = 100
"""Operations of a life of which every call fails, also where nobody has asked for that."""

THINNED: Final = 4
"""Of so many calls one fails in a longer life, where not all of them are wanted."""

THINNED_WORK: Final = 20_000
"""About so many operations are done again for a kind of failure, where not all are wanted."""

AFTER: Final = (Persistence.KEPT, Persistence.DROPPED)
"""What may survive a failing disk: the machine goes on, or it dies too."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A life on a disk that fails, or a start.

    Attributes:
        disk: as it is afterwards.
    """

    life: Life
    disk: DiskModel
    faults: Faults


@final
class Course:
    """The disk of a life in which nothing fails, at any position of it."""

    def __init__(self, disk: DiskModel, log: DiskLog) -> None:
        """`disk` is as it was before; it is not changed."""
        self._before: Final = disk
        self._log: Final = log
        self._disk = disk.copy()
        self._position = 0

    def at(self, position: int) -> DiskModel:
        """Return a disk that goes its own way; fast where positions rise."""
        if position < self._position:
            self._disk, self._position = self._before.copy(), 0
        for operation in self._log.operations[self._position : position]:
            self._disk.apply(operation)
        self._position = position
        return self._disk.copy()


class References(NamedTuple):
    """What happens where nothing fails.

    Attributes:
        lived: a life; it is killed when it is about to end.
        killed: its disk then.
        position: in it, then.
        restarted: the start of the next server.
        courses: the disk of the life, and of the start.
    """

    lived: Lived
    killed: DiskModel
    position: int
    restarted: Life
    courses: tuple[Course, Course]


def references_of(ground: Ground, lived: Lived) -> References:
    """Kill a life and start the next server, without any fault."""
    killed, position = _killed(lived)
    restarted = ground.restart(killed, lived.life.history, position, lived.seed)
    courses = (Course(lived.disk, lived.life.log), Course(killed, restarted.log))
    return References(lived, killed, position, restarted, courses)


def explore_faults(ground: Ground, account: Account, workloads: Workloads) -> None:
    """Let every call fail in its turn; complete unless time is up or fewer are wanted.

    A life is a workload: who acts when is drawn by its seed. Without a goal there is one, and it
    is whole in core scenarios and where it is short; in a longer one every `THINNED`th call
    fails, or fewer.
    """
    account.tally.complete = True
    for seed in workloads.seeds():
        lived = ground.live(Choices(order_of(seed)), seed)
        if complaint_of(lived.life) is not None:
            account.tally.complete = False
            return  # Found by the power cuts.
        stride = _stride(ground, workloads, lived.life)
        is_enough = account.is_over if workloads.goal else account.is_enough
        is_whole = _explore_life(ground, account, lived, stride, is_enough) and stride == 1
        workloads.tally.explored += is_whole
        account.tally.complete = account.tally.complete and is_whole
        if is_enough():
            return


def _explore_life(
    ground: Ground, account: Account, lived: Lived, stride: int, is_enough: Callable[[], bool]
) -> bool:
    """Let calls of a life and of the next start fail; False if it was not brought to its end."""
    references = references_of(ground, lived)
    part, parts = account.part
    first = 1 + part + parts * (zlib.crc32(ground.scenario.name.encode()) % stride)
    for place in (FIRST_LIFE, NEXT_START):
        for failure in Failure:
            for at in range(first, CALLS_MAX, parts * stride):
                if is_enough():
                    return False
                if not _explore(ground, account, references, place, Fault(failure, at)):
                    break
    return True


def _stride(ground: Ground, workloads: Workloads, life: Life) -> int:
    if workloads.is_asked_for or ground.scenario.core or life.position <= WHOLE_MAX:
        return 1
    return max(THINNED, life.position**2 // THINNED_WORK)


def fail(ground: Ground, references: References, place: str, fault: Fault) -> Failed:
    """Live again, or start after such a life was killed, on a disk with this fault."""
    faults = Faults(fault)
    lived = references.lived
    reference = lived.life
    if place == FIRST_LIFE:
        failing = Failing(faults, reference)
        again = ground.live(Choices(Replayed(lived.choices.unusual)), lived.seed, failing)
        life, course = again.life, references.courses[0]
    else:
        failing = Failing(faults, references.restarted)
        killed, position, course = references.killed, references.position, references.courses[1]
        life = ground.restart(killed, reference.history, position, lived.seed, failing)
        life.acknowledged, life.sent = reference.acknowledged, reference.sent
        life.known = [replace(reference.known_at(position), position=0)]
    life.checks = reference.checks
    # Until the first call fails the same is done to the disk as where none does.
    struck_at = life.log.struck_at or 0
    disk = course.at(struck_at)
    for operation in life.log.operations[struck_at:]:
        disk.apply(operation)
    _note_what_was_under_way(life, failing.reference)
    return Failed(life, disk, faults)


def judge(ground: Ground, failed: Failed, seed: int, persistence: Persistence) -> str | None:
    """Say what does not hold after the next start; None if everything does."""
    if _has_removed_its_log(failed.life):
        return (
            "P12: a server that has failed has removed its log,"
            " so the next one does not look through the file"
        )
    left = survive(failed.disk, "failing disk", seed, persistence, 0)
    life = failed.life
    return ground.complaint(life, left, life.position, life.told())


def _has_removed_its_log(life: Life) -> bool:
    """Say whether a server that could not go on has ended like one that was told to stop.

    The log is what tells the next start of it (P12).
    """
    struck_at = life.log.struck_at
    if struck_at is None or not (life.is_down or life.refusal):
        return False
    after = life.log.operations[struck_at:]
    return any(done.doing is Doing.REMOVE and done.name == LOG for done in after)


def _explore(
    ground: Ground, account: Account, references: References, place: str, fault: Fault
) -> bool:
    """Try one fault, once and for good; False if the life is over before it comes up.

    Where no such call comes after the one that failed, for good is the same as once.
    """
    failed = fail(ground, references, place, fault)
    if not failed.faults.fired:
        return False
    _judge(ground, account, references.lived, place, failed)
    if failed.faults.seen > fault.at:
        lasting = fail(ground, references, place, replace(fault, times=None))
        _judge(ground, account, references.lived, place, lasting)
    return True


def _judge(ground: Ground, account: Account, lived: Lived, place: str, failed: Failed) -> None:
    fault, seed = failed.faults.armed, lived.seed
    assert fault is not None, "it has come up, and nobody has repaired it"
    account.count(fault.failure)
    chosen = {
        **lived.choices.unusual,
        f"{DISK_FAULT}#1": str(fault.failure),
        **decided(DISK_FAULT_AT, str(fault.at), "1"),
        **decided(DISK_FAULT_IN, place, FIRST_LIFE),
        **decided(DISK_FAULT_LASTS, ONCE if fault.times else LASTING, ONCE),
    }
    complaint = complaint_of(failed.life, has_failed=True)
    if complaint is not None:
        account.broke(chosen, seed, complaint)
        return
    for persistence in AFTER:
        complaint = judge(ground, failed, seed, persistence)
        if complaint is not None:
            survives = decided(SURVIVES, persistence, Persistence.KEPT)
            account.broke({**chosen, **survives}, seed, complaint)
            return


def _killed(reference: Lived) -> tuple[DiskModel, int]:
    """Return the disk of a server that was killed when it was about to end, and the position."""
    disk, position = reference.disk.copy(), 0
    for operation in reference.life.log.operations:
        if operation.label.startswith("end "):
            break
        disk.apply(operation)
        position += 1
    return disk, position


def _note_what_was_under_way(life: Life, reference: Life) -> None:
    """Let the commit that failed be found: nobody knows what became of it.

    What it would have made of the database is known from the life without a fault.
    """
    versions, known = life.history.versions, reference.history.versions
    count = len(versions)
    if count < len(known) and versions[-1].content == known[count - 1].content:
        life.history.add(known[count].content, 0, "what was under way")
