"""Behaviour of growing delays."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.backoff import Backoff


class _Fixed:
    def __init__(self, value: float) -> None:
        self._value = value

    def random(self) -> float:
        return self._value


@pytest.mark.parametrize(
    ("failures", "delay_ms"), [(1, 100), (2, 200), (3, 400), (7, 5_000), (10_000, 5_000)]
)
def test_delay_doubles_up_to_its_bound(failures: int, delay_ms: int) -> None:
    backoff = Backoff(initial_ms=100, delay_ms_max=5_000)
    assert backoff.delay_ms(failures, _Fixed(0.5)) == delay_ms


def test_jitter_spreads_to_both_sides() -> None:
    backoff = Backoff(initial_ms=1_000, jitter=0.2)
    assert backoff.delay_ms(1, _Fixed(0.0)) == 800
    assert backoff.delay_ms(1, _Fixed(1.0)) == 1_200


@given(failures=st.integers(1, 200), seed=st.integers())
def test_delay_never_leaves_the_jittered_bounds(failures: int, seed: int) -> None:
    backoff = Backoff(initial_ms=1_000, delay_ms_max=60_000, jitter=0.2)
    assert 800 <= backoff.delay_ms(failures, random.Random(seed)) <= 72_000  # noqa: S311
