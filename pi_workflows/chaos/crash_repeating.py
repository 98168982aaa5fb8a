"""One power cut or fault again, from its choices alone, told as a timeline."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pi_workflows.chaos.crash_cuts import first_faults_at, survive
from pi_workflows.chaos.crash_faults import AFTER, fail, judge, references_of
from pi_workflows.chaos.crash_ground import Ground, Lived
from pi_workflows.chaos.crash_life import Life, complaint_of
from pi_workflows.chaos.crash_reopening import ToldOf
from pi_workflows.chaos.crash_words import (
    CALLS_MAX,
    DISK_FAULT,
    DISK_FAULT_AT,
    DISK_FAULT_IN,
    DISK_FAULT_LASTS,
    FIRST,
    FIRST_AT,
    FIRST_LIFE,
    FLUSH_FAILED,
    KILLED,
    LASTING,
    NEXT_START,
    NONE,
    ONCE,
    POWER_CUT,
    SURVIVES,
    TEARING,
    TEARINGS,
    digest_of,
    disk_moments,
    moments_before,
)
from runtime.chaos.choices import Choices, Replayed
from runtime.chaos.complaints import one_line, promise_of
from runtime.chaos.disk_faults import Failure, Fault
from runtime.chaos.disk_log import Operation
from runtime.chaos.disk_model import DiskModel
from runtime.chaos.disk_survivors import Persistence
from runtime.chaos.engine import Repeated
from runtime.chaos.outcome import Finding, Moment

_START_OF_NEXT: Final = "next start"


@dataclass(slots=True)
class _Story:
    """What is told.

    Attributes:
        operations: every operation of the disk.
        complaint: what does not hold.
    """

    moments: list[Moment] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    complaint: str | None = None

    @property
    def at_ms(self) -> int:
        """Instant of the last moment."""
        return self.moments[-1].at_ms if self.moments else 0

    def say(self, lane: str, what: str, result: str = "") -> None:
        """Add a moment."""
        self.moments.append(Moment(self.at_ms, lane, what, result))


def repeat(
    ground: Ground, kept: Mapping[str, str], seed: int, until: int | None = None
) -> Repeated:
    """Repeat one exploration; see `Engine.repeat`."""
    source = Replayed(kept)
    choices = Choices(source)
    lived = ground.live(choices, seed)
    story = _Story()
    life = lived.life
    story.complaint = complaint_of(life)
    failure = choices.pick(DISK_FAULT, [NONE, *Failure])
    first = choices.pick(FIRST, [NONE, KILLED, FLUSH_FAILED])
    if story.complaint is not None:
        story.moments, story.operations = list(life.moments), life.log.operations
    elif failure != NONE:
        _tell_failure(ground, story, lived, choices, Failure(failure))
    elif first != NONE:
        _tell_restart(ground, story, lived, choices, first)
    else:
        told = life.told()
        _tell_cut(ground, story, life, lived.disk, choices, told=told, seed=seed)
    story.say("check", story.complaint or "everything holds")
    moments = tuple(story.moments[:until])
    digest = digest_of(story.moments, story.operations, story.complaint or "")
    finding = None
    if story.complaint is not None:
        finding = Finding(
            ground.scenario.name,
            "crash",
            promise_of(story.complaint, ground.scenario.promises, _name_in(story.complaint)),
            story.complaint,
            dict(choices.unusual),
            seed,
            moments,
            digest,
        )
    return Repeated(finding, moments, digest, frozenset(source.unused))


def _tell_cut(
    ground: Ground,
    story: _Story,
    life: Life,
    disk: DiskModel,
    choices: Choices,
    *,
    told: ToldOf,
    seed: int,
) -> None:
    """Cut the power after the chosen operation; `disk` is as it was before the life."""
    labels = [operation.label for operation in life.log.operations]
    label = choices.pick(POWER_CUT, [NONE, *labels])
    survives = Persistence(choices.pick(SURVIVES, list(Persistence)))
    tearing = int(choices.pick(TEARING, [str(number) for number in range(TEARINGS)]))
    position = labels.index(label) + 1 if label != NONE else len(labels)
    operations = life.log.operations[:position]
    story.moments += moments_before(life, position)
    story.moments += disk_moments(operations, story.at_ms)
    story.operations += operations
    if label == NONE:
        return
    for operation in operations:
        disk.apply(operation)
    left = survive(disk, label, seed, survives, tearing)
    cut = "server killed" if survives is Persistence.KEPT else "power cut"
    story.say("faults", cut, f"kept {survives}")
    story.complaint = ground.complaint(life, left, position, told)


def _tell_restart(
    ground: Ground, story: _Story, lived: Lived, choices: Choices, kind: str
) -> None:
    """End the server with a first fault, start the next one and cut its power."""
    life, disk = lived.life, lived.disk
    label = choices.pick(FIRST_AT, [operation.label for operation in life.log.operations])
    for position, operation in enumerate(life.log.operations, 1):
        if operation.label == label:
            found = first_faults_at(disk, operation, position)
            first = next((each for each in found if each.kind == kind), found[0])
            break
        disk.apply(operation)
    else:
        raise AssertionError("one of the labels was picked")
    story.moments += moments_before(life, position)
    story.operations += life.log.operations[:position]
    story.moments += disk_moments(story.operations, story.at_ms)
    story.say("faults", first.kind)
    restarted = ground.restart(first.disk, life.history, first.position, lived.seed)
    story.say(_START_OF_NEXT, "starts")
    story.complaint = complaint_of(restarted)
    if story.complaint is None:
        known = life.told_between(first.position, first.position)
        _tell_cut(
            ground, story, restarted, first.disk, choices, told=lambda _: known, seed=lived.seed
        )


def _tell_failure(
    ground: Ground, story: _Story, lived: Lived, choices: Choices, failure: Failure
) -> None:
    """Live once more on a disk that fails, and open what is left."""
    at = int(choices.pick(DISK_FAULT_AT, [str(number) for number in range(1, CALLS_MAX)]))
    place = choices.pick(DISK_FAULT_IN, [FIRST_LIFE, NEXT_START])
    lasts = choices.pick(DISK_FAULT_LASTS, [ONCE, LASTING])
    survives = Persistence(choices.pick(SURVIVES, list(AFTER)))
    fault = Fault(failure, at, 1 if lasts == ONCE else None)
    failed = fail(ground, references_of(ground, lived), place, fault)
    life = failed.life
    story.moments += lived.life.moments if place == NEXT_START else life.moments
    story.operations += life.log.operations
    story.moments += disk_moments(life.log.operations, story.at_ms)
    story.say("faults", fault.text, f"in {place}")
    if life.refusal is not None:
        story.say(_START_OF_NEXT, "refused", one_line(life.refusal))
    for each in life.faults:
        story.say("store", "fails", one_line(each))
    story.complaint = complaint_of(life, has_failed=True)
    if story.complaint is None:
        story.complaint = judge(ground, failed, lived.seed, survives)


def _name_in(complaint: str) -> str:
    """Return the name of the invariant, which a complaint begins with."""
    return complaint.split(":", 1)[0]
