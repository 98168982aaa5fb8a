"""When user code is late, and when it is given up."""

import pytest

from pi_workflows.runner.cancellation import CancelReason
from pi_workflows.runner.messages import Send
from pi_workflows.runner.turn import Turn


def turn(timeout_ms: int | None = 1_000) -> Turn:
    """A turn that starts at 100 s and has a grace of half a second."""
    abandon = Send("run.advance", {}, 1)
    return Turn(started_at=100.0, timeout_ms=timeout_ms, grace_ms=lambda: 500, abandon=abandon)


def test_code_is_cancelled_at_its_deadline_and_abandoned_after_the_grace() -> None:
    one = turn()
    assert not one.watch(100.9)
    assert not one.cancellation.is_cancelled()
    assert not one.watch(101.0)
    assert one.cancellation.reason is CancelReason.DEADLINE
    assert one.wakes_at == 101.5
    assert not one.watch(101.4)
    assert one.watch(101.5)


def test_a_late_watch_still_grants_the_whole_grace() -> None:
    """A process that was frozen past its deadline gets to hear of it first."""
    one = turn()
    assert not one.watch(500.0)
    assert one.wakes_at == 500.5


@pytest.mark.parametrize(("now", "late"), [(100.999, False), (101.0, True)])
def test_code_that_returns_after_its_deadline_is_late_even_unwatched(
    now: float,
    late: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    one = turn()
    one.close(now)
    assert (one.cancellation.reason is CancelReason.DEADLINE) is late


def test_an_unlimited_turn_never_ends_by_itself() -> None:
    """Case: B26."""
    one = turn(timeout_ms=None)
    assert one.wakes_at is None
    assert not one.watch(1e12)


def test_a_listener_that_comes_late_is_told_at_once_and_only_once() -> None:
    heard: list[int] = []
    cancellation = turn().cancellation
    cancellation.cancel(CancelReason.STOP)
    with cancellation.listener(lambda: heard.append(1)):
        cancellation.cancel(CancelReason.DEADLINE)
    assert heard == [1]
    assert cancellation.reason is CancelReason.STOP
