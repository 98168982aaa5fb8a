"""Behaviour of the rate limit."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.token_bucket import TokenBucket


def test_burst_is_given_at_once_and_no_more() -> None:
    bucket = TokenBucket(20, 100, 7.0)
    assert [bucket.take(7.0) for _ in range(101)] == [True] * 100 + [False]


def test_tokens_come_back_with_time_up_to_the_burst() -> None:
    bucket = TokenBucket(20, 100, 0.0)
    for _ in range(100):
        bucket.take(0.0)
    assert [bucket.take(0.1) for _ in range(3)] == [True, True, False]
    assert sum(bucket.take(1_000.0) for _ in range(200)) == 100


def test_refusal_costs_nothing_and_a_clock_that_stands_gives_nothing() -> None:
    bucket = TokenBucket(20, 1, 0.0)
    assert bucket.take(0.0)
    assert not any(bucket.take(0.04) for _ in range(50))
    assert bucket.take(0.05)
    assert not bucket.take(0.0), "an earlier instant gives no token"


@given(pauses=st.lists(st.floats(0, 10), min_size=1, max_size=300))
def test_never_more_than_the_burst_and_the_rate_allow(pauses: list[float]) -> None:
    bucket = TokenBucket(20, 100, 0.0)
    now, given_out = 0.0, 0
    for pause in pauses:
        now += pause
        given_out += bucket.take(now)
        assert given_out <= 100 + 20 * now + 1e-6
