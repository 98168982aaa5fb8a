"""When something that reports its progress will be done. Pure: samples in, an estimate out.

Samples of one epoch are comparable: a new one begins when phase, unit or total changes, when the
count falls, or when something that had ended goes on. Of the newest epoch the last eight intervals
in which time passed give rates; their median is the centre, their quartiles are the bounds.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pi_workflows.protocol.progress import Progress, ProgressStatus

INTERVALS_MAX: Final = 8
"""How many of the newest intervals give the rate."""

_FEW_INTERVALS: Final = 5
"""From so many intervals on the spread alone decides how much an estimate is worth."""

_TOO_LONG_MS: Final = 100 * 365 * 24 * 60 * 60 * 1_000
"""What would take a hundred years does not progress."""

_NARROW: Final = 0.25
_FAIR: Final = 0.5


class Confidence(enum.StrEnum):
    """How much an estimate is worth."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Basis(enum.StrEnum):
    """Where an estimate comes from."""

    MEASURED = "measured"
    SOURCE = "source"


class NoEstimate(enum.StrEnum):
    """Why there is none."""

    ENDED = "it has ended"
    PAUSED = "it waits"
    NOTHING_COUNTED = "it counts nothing, or has no total"
    TOO_FEW = "it has reported too seldom"
    NO_PROGRESS = "it does not progress"


@dataclass(frozen=True, slots=True)
class Sample:
    """A progress as it was reported.

    Attributes:
        at: UTC epoch ms.
    """

    at: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long it will still take, in milliseconds from now, never negative.

    Attributes:
        soonest_ms: if it goes on as in its faster quarter; None where only a source says so.
        latest_ms: if it goes on as in its slower quarter; None where it would never end then.
        confidence: None for what a source says.
    """

    basis: Basis
    remaining_ms: int
    soonest_ms: int | None = None
    latest_ms: int | None = None
    confidence: Confidence | None = None


def estimate(samples: Sequence[Sample], now: int) -> Estimate | NoEstimate:
    """Say how long it will still take, or why nobody can say.

    Args:
        samples: oldest first; those before the newest epoch are passed over.
        now: UTC epoch ms.
    """
    if not samples:
        return NoEstimate.TOO_FEW
    newest = samples[-1].progress
    if newest.status.terminal:
        return NoEstimate.ENDED
    told = _told_by_source(newest, now)
    if told is not None:
        return told
    if newest.status in {ProgressStatus.WAITING, ProgressStatus.BLOCKED}:
        return NoEstimate.PAUSED
    return _measured(newest_epoch(samples), now)


def newest_epoch(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples that can be compared with the newest one, oldest first."""
    first = len(samples) - 1
    while first > 0 and not _begins_anew(samples[first - 1].progress, samples[first].progress):
        first -= 1
    return samples[max(first, 0) :]


def _begins_anew(before: Progress, after: Progress) -> bool:
    if (before.phase, before.unit, before.total) != (after.phase, after.unit, after.total):
        return True
    if before.status.terminal and not after.status.terminal:
        return True
    return (
        before.completed is not None
        and after.completed is not None
        and after.completed < before.completed
    )


def _told_by_source(newest: Progress, now: int) -> Estimate | None:
    finish_at, said_at = newest.source_estimated_finish_at, newest.source_updated_at
    if finish_at is None or finish_at < now or (said_at is not None and finish_at <= said_at):
        return None
    return Estimate(Basis.SOURCE, finish_at - now)


def _measured(epoch: Sequence[Sample], now: int) -> Estimate | NoEstimate:
    newest = epoch[-1]
    completed, total = newest.progress.completed, newest.progress.total
    if completed is None or total is None:
        return NoEstimate.NOTHING_COUNTED
    rates = _rates(epoch)
    if not rates:
        return NoEstimate.TOO_FEW
    slow, median, fast = (_quantile(rates, share) for share in (0.25, 0.5, 0.75))
    too_slow = max(0.0, (total - completed) / _TOO_LONG_MS)
    if median <= too_slow:
        return NoEstimate.NO_PROGRESS

    def left(rate: float) -> int:
        return max(0, round(newest.at + (total - completed) / rate - now))

    return Estimate(
        Basis.MEASURED,
        left(median),
        left(fast),
        left(slow) if slow > too_slow else None,
        _confidence(len(rates), (fast - slow) / median),
    )


def _rates(epoch: Sequence[Sample]) -> list[float]:
    """Return progress per millisecond of the newest intervals in which time passed, sorted."""
    rates: list[float] = []
    counted = [
        (sample.at, sample.progress.completed)
        for sample in epoch
        if sample.progress.completed is not None
    ]
    for (began, before), (ended, after) in pairwise(counted):
        if ended > began:
            rates.append((after - before) / (ended - began))
    return sorted(rates[-INTERVALS_MAX:])


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile by linear interpolation between the two nearest values."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _confidence(intervals: int, spread: float) -> Confidence:
    if intervals == 1 or spread > _FAIR:
        return Confidence.LOW
    if intervals >= _FEW_INTERVALS and spread <= _NARROW:
        return Confidence.HIGH
    return Confidence.MEDIUM
