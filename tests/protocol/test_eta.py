"""When it will be done: epochs, rates, bounds, and what an estimate is worth."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pi_workflows.protocol.eta import (
    INTERVALS_MAX,
    Basis,
    Confidence,
    Estimate,
    NoEstimate,
    Sample,
    estimate,
    newest_epoch,
)
from pi_workflows.protocol.progress import Progress, ProgressStatus

TOTAL: Final = 1_000.0
SECOND: Final = 1_000


def progress(completed: float | None, **fields: object) -> Progress:
    return replace(
        Progress(completed=completed, total=TOTAL, unit="file"),
        **fields,  # type: ignore[arg-type]
    )


def paced(*steps: float) -> list[Sample]:
    """Samples a second apart, the count growing by these steps."""
    counts = [0.0]
    for step in steps:
        counts.append(counts[-1] + step)
    return [Sample(number * SECOND, progress(count)) for number, count in enumerate(counts)]


def measured(samples: Sequence[Sample], now: int | None = None) -> Estimate:
    found = estimate(samples, samples[-1].at if now is None else now)
    assert isinstance(found, Estimate)
    return found


def test_steady_pace_gives_the_exact_end() -> None:
    found = measured(paced(*[10] * 5))
    assert found == Estimate(Basis.MEASURED, 95_000, 95_000, 95_000, Confidence.HIGH)


def test_time_that_has_passed_since_the_last_report_is_taken_off_and_never_below_zero() -> None:
    samples = paced(10, 10)
    assert measured(samples, 2_000 + 18_000).remaining_ms == 98_000 - 18_000
    assert measured(samples, 10_000_000).remaining_ms == 0


def test_quartiles_are_the_bounds() -> None:
    found = measured(paced(10, 20, 30, 40, 50))
    left = TOTAL - 150
    assert found.remaining_ms == round(left / 30 * SECOND)
    assert found.soonest_ms == round(left / 40 * SECOND)
    assert found.latest_ms == round(left / 20 * SECOND)


def test_upper_bound_is_dropped_when_the_slower_quarter_stands_still() -> None:
    found = measured(paced(0, 0, 10, 10, 10))
    assert found.latest_ms is None
    assert found.remaining_ms == 97_000


def test_only_the_last_eight_intervals_count() -> None:
    assert measured(paced(*[100] * 3, *[1] * INTERVALS_MAX)).remaining_ms == 692_000


def test_intervals_without_progress_count_and_without_time_do_not() -> None:
    assert estimate(paced(10, 0, 0), 3_000) is NoEstimate.NO_PROGRESS
    doubled = [sample for sample in paced(10, 10) for _ in range(2)]
    assert measured(doubled).remaining_ms == 98_000
    same_instant = [Sample(0, progress(0)), Sample(0, progress(10))]
    assert estimate(same_instant, 0) is NoEstimate.TOO_FEW


@pytest.mark.parametrize(
    ("steps", "confidence"),
    [
        ([10], Confidence.LOW),
        ([10, 10], Confidence.MEDIUM),
        ([10] * 4, Confidence.MEDIUM),
        ([10, 10, 30, 30], Confidence.LOW),
        ([10, 12, 14, 16], Confidence.MEDIUM),
        ([10] * 5, Confidence.HIGH),
        ([10, 12, 14, 16, 18], Confidence.MEDIUM),
        ([12, 13, 14, 15, 16], Confidence.HIGH),
        ([10, 10, 20, 40, 40], Confidence.LOW),
    ],
)
def test_number_of_intervals_and_their_spread_say_what_an_estimate_is_worth(
    steps: list[float], confidence: Confidence
) -> None:
    """Case: B66."""
    assert measured(paced(*steps)).confidence is confidence


@pytest.mark.parametrize(
    "before",
    [
        {"phase": "another"},
        {"unit": "byte"},
        {"total": 999.0},
        {"completed": 31.0},
        {"status": ProgressStatus.FAILED},
    ],
    ids=str,
)
def test_what_cannot_be_compared_begins_a_new_epoch(before: dict[str, object]) -> None:
    """Case: B66."""
    old = [
        Sample(at, replace(progress(at / 100), **before))  # type: ignore[arg-type]
        for at in (0, 500)
    ]
    new = [Sample(at + 1_000, progress(30 + at / 100)) for at in (0, 1_000)]
    assert newest_epoch([*old, *new]) == new
    assert measured([*old, *new]).remaining_ms == 96_000


def test_new_epoch_has_no_estimate_before_its_first_interval() -> None:
    samples = [*paced(10, 10), Sample(3_000, progress(0, phase="next"))]
    assert estimate(samples, 3_000) is NoEstimate.TOO_FEW


@pytest.mark.parametrize("status", [ProgressStatus.WAITING, ProgressStatus.BLOCKED])
def test_what_waits_has_no_measured_estimate(status: ProgressStatus) -> None:
    samples = [*paced(10), Sample(2_000, progress(20, status=status))]
    assert estimate(samples, 2_000) is NoEstimate.PAUSED


@pytest.mark.parametrize("status", [status for status in ProgressStatus if status.terminal])
def test_what_has_ended_has_none_whatever_its_source_says(status: ProgressStatus) -> None:
    ended = progress(20, status=status, source_estimated_finish_at=9_000)
    assert estimate([*paced(10), Sample(2_000, ended)], 2_000) is NoEstimate.ENDED


def test_word_of_the_source_wins_until_it_has_passed() -> None:
    said = progress(20, source_updated_at=1_000, source_estimated_finish_at=9_000)
    samples = [*paced(10), Sample(2_000, said)]
    assert estimate(samples, 2_000) == Estimate(Basis.SOURCE, 7_000)
    assert measured(samples, 9_001).basis is Basis.MEASURED
    early = replace(said, source_updated_at=9_000)
    assert measured([*paced(10), Sample(2_000, early)]).basis is Basis.MEASURED


def test_without_counts_or_samples_the_reason_is_said() -> None:
    assert estimate([], 0) is NoEstimate.TOO_FEW
    assert estimate([Sample(0, Progress())], 0) is NoEstimate.NOTHING_COUNTED
    assert estimate([Sample(0, progress(1))], 0) is NoEstimate.TOO_FEW


STATUSES: Final = st.sampled_from(ProgressStatus)
REPORTS: Final = st.lists(
    st.tuples(
        st.integers(0, 10**6),
        st.floats(0, TOTAL),
        st.sampled_from([None, "one", "two"]),
        STATUSES,
        st.none() | st.integers(0, 10**9),
    ),
    max_size=30,
)


@given(reports=REPORTS, later=st.integers(-(10**6), 10**9))
def test_estimate_is_never_negative_and_lies_between_its_bounds(
    reports: list[tuple[int, float, str | None, ProgressStatus, int | None]], later: int
) -> None:
    at, samples = 0, []
    for pause, completed, phase, status, finish in reports:
        at += pause
        shown = progress(completed, phase=phase, status=status, source_estimated_finish_at=finish)
        samples.append(Sample(at, shown))
    found = estimate(samples, max(0, at + later))
    if isinstance(found, NoEstimate):
        return
    assert found.remaining_ms >= 0
    if found.basis is Basis.SOURCE:
        assert found.confidence is None
        return
    assert not samples[-1].progress.status.terminal
    assert found.soonest_ms is not None
    assert 0 <= found.soonest_ms <= found.remaining_ms
    assert found.latest_ms is None or found.latest_ms >= found.remaining_ms


@given(
    steps=st.lists(st.floats(0, 5), min_size=1, max_size=20),
    older=st.lists(st.floats(0, 5), max_size=20),
)
@example(steps=[2.2250738585072014e-308], older=[])
def test_what_lies_before_an_epoch_changes_nothing(steps: list[float], older: list[float]) -> None:
    new = [replace(sample, at=sample.at + 10**6) for sample in paced(*steps)]
    old = [
        replace(sample, progress=replace(sample.progress, phase="old")) for sample in paced(*older)
    ]
    assert estimate([*old, *new], 10**7) == estimate(new, 10**7)


def test_what_would_take_a_hundred_years_does_not_progress() -> None:
    """However small a step, it is no error."""
    assert estimate(paced(2.2250738585072014e-308), 10**7) is NoEstimate.NO_PROGRESS
    assert estimate(paced(1e-12), 10**7) is NoEstimate.NO_PROGRESS
