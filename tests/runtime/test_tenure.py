"""Behaviour of a lease held as a cancel scope."""

# A test asks for the clock that jumps by naming it; what raises here is a whole block.
# ruff: noqa: ARG001, PT012

from collections.abc import Callable

import pytest
import trio
import trio.testing

from runtime.tenure import RELEASE_S, Tenure, TenureLost, Terms

Clock = trio.testing.MockClock


class _Lease:
    """What a tenure renews and releases, with every call noted at its time."""

    def __init__(self) -> None:
        self.renewed_at: list[float] = []
        self.released_at: list[float] = []
        self.refused: str | None = None
        self.renewal_takes_s = 0.0
        self.release_takes_s = 0.0

    async def renew(self) -> None:
        self.renewed_at.append(trio.current_time())
        await trio.sleep(self.renewal_takes_s)
        if self.refused is not None:
            raise TenureLost(self.refused)

    async def release(self) -> None:
        await trio.sleep(self.release_takes_s)
        self.released_at.append(trio.current_time())
        if self.refused is not None:
            raise TenureLost(self.refused)

    def tenure(self, *, lasts_s: float = 30, renew_every_s: float = 10) -> Tenure:
        terms = Terms(
            renew=self.renew, release=self.release, lasts_s=lasts_s, renew_every_s=renew_every_s
        )
        return Tenure(terms, claimed_at=trio.current_time())


@pytest.fixture
def lease() -> _Lease:
    return _Lease()


async def test_timer_renews_until_the_block_ends_which_releases_once(
    autojump_clock: Clock, lease: _Lease
) -> None:
    with trio.fail_after(100):
        async with lease.tenure() as tenure:
            await trio.sleep(35)
            assert tenure.is_held
        assert lease.renewed_at == [10, 20, 30]
        assert lease.released_at == [35]


async def test_expiry_of_the_last_acknowledged_renewal_cancels_the_block(
    autojump_clock: Clock, lease: _Lease
) -> None:
    """A renewal that hangs extends nothing: its answer counts, and from when it was asked."""
    lease.renewal_takes_s = 1_000
    with trio.fail_after(100):
        with pytest.raises(TenureLost) as caught:
            async with lease.tenure():
                await trio.sleep_forever()
        assert trio.current_time() == 30
        assert caught.value.reason == "expired"
        assert lease.released_at == []


async def test_slow_renewal_counts_from_when_it_was_sent(
    autojump_clock: Clock, lease: _Lease
) -> None:
    lease.renewal_takes_s = 15
    with trio.fail_after(100):
        with pytest.raises(TenureLost):
            async with lease.tenure(lasts_s=30, renew_every_s=20):
                await trio.sleep_forever()
        # Sent at 20, acknowledged never: 35 is later than the 30 that the claim lasts.
        assert trio.current_time() == 30
        assert lease.renewed_at == [20]


async def test_acknowledged_write_extends_the_tenure(autojump_clock: Clock, lease: _Lease) -> None:
    with trio.fail_after(100):
        with pytest.raises(TenureLost):
            async with lease.tenure(renew_every_s=1_000) as tenure:
                await trio.sleep(25)
                tenure.extended(trio.current_time() - 1)
                tenure.extended(3)
                await trio.sleep_forever()
        assert trio.current_time() == 24 + 30


async def test_refused_renewal_ends_the_block_with_its_reason_and_releases_nothing(
    autojump_clock: Clock, lease: _Lease
) -> None:
    lease.refused = "generationChanged"
    with trio.fail_after(100):
        with pytest.raises(TenureLost) as caught:
            async with lease.tenure() as tenure:
                await trio.sleep_forever()
        assert caught.value.reason == "generationChanged"
        assert not tenure.is_held
        assert trio.current_time() == 10
        assert lease.released_at == []


async def test_loss_leaves_a_block_of_nested_tasks_as_itself(
    autojump_clock: Clock, lease: _Lease
) -> None:
    """Never a group, however many tasks inside were cancelled, whichever way it was lost."""

    async def lose(how: Callable[[Tenure], None] | None) -> str:
        with pytest.raises(TenureLost) as caught:
            async with lease.tenure() as tenure, trio.open_nursery() as inner:
                inner.start_soon(trio.sleep_forever)
                inner.start_soon(trio.sleep_forever)
                if how is not None:
                    how(tenure)
                await trio.sleep_forever()
        return caught.value.reason

    lease.renewal_takes_s = 1_000
    with trio.fail_after(100):
        assert await lose(None) == "expired"
        assert await lose(lambda tenure: tenure.end("cancelled")) == "cancelled"


async def test_someone_outside_ends_the_block_and_the_first_reason_stays(
    autojump_clock: Clock, lease: _Lease
) -> None:
    async with trio.open_nursery() as nursery:
        tenure = lease.tenure()

        async def end_it() -> None:
            await trio.sleep(3)
            tenure.end("cancelled")
            tenure.end("again")

        nursery.start_soon(end_it)
        with pytest.raises(TenureLost) as caught:
            async with tenure:
                await trio.sleep_forever()
    assert caught.value.reason == "cancelled"
    assert trio.current_time() == 3


async def test_tenure_that_ended_before_the_block_never_works(
    autojump_clock: Clock, lease: _Lease
) -> None:
    tenure = lease.tenure()
    tenure.released()
    tenure.end("cancelled")
    worked = False
    with trio.fail_after(5), pytest.raises(TenureLost, match="cancelled"):
        async with tenure:
            await trio.lowlevel.checkpoint()
            worked = True
    assert not worked
    assert lease.released_at == []


async def test_released_lease_is_neither_renewed_nor_released_nor_does_it_expire(
    autojump_clock: Clock, lease: _Lease
) -> None:
    with trio.fail_after(1_000):
        async with lease.tenure() as tenure:
            await trio.sleep(5)
            tenure.released()
            assert not tenure.is_held
            await trio.sleep(500)
    assert lease.renewed_at == []
    assert lease.released_at == []


async def test_refused_renewal_after_the_release_ends_nothing(
    autojump_clock: Clock, lease: _Lease
) -> None:
    """The commit that freed the lease may overtake a renewal that is under way."""
    lease.renewal_takes_s = 5
    lease.refused = "ownerChanged"
    with trio.fail_after(100):
        async with lease.tenure() as tenure:
            await trio.sleep(12)
            tenure.released()
            await trio.sleep(20)
    assert lease.renewed_at == [10]


async def test_release_that_comes_with_the_expiry_lets_the_block_end_well(
    autojump_clock: Clock, lease: _Lease
) -> None:
    """What was committed just in time is done, although the scope had to cut the rest short."""
    lease.renewal_takes_s = 1_000
    with trio.fail_after(100):
        async with lease.tenure() as tenure:
            with trio.CancelScope(shield=True):
                await trio.sleep(31)
                tenure.released()
            await trio.sleep_forever()
        assert trio.current_time() == 31
    assert lease.released_at == []


async def test_release_is_shielded_from_the_cancellation_that_ends_the_block(
    autojump_clock: Clock, lease: _Lease
) -> None:
    lease.release_takes_s = 2
    with trio.move_on_after(7) as outer:
        async with lease.tenure():
            await trio.sleep_forever()
    assert outer.cancelled_caught
    assert lease.released_at == [9]


async def test_release_that_hangs_is_given_up(autojump_clock: Clock, lease: _Lease) -> None:
    lease.release_takes_s = 1_000
    with trio.fail_after(100):
        async with lease.tenure():
            pass
        assert trio.current_time() == RELEASE_S
    assert lease.released_at == []


async def test_refused_release_is_no_error(autojump_clock: Clock, lease: _Lease) -> None:
    async with lease.tenure():
        lease.refused = "ownerChanged"
    assert len(lease.released_at) == 1


async def test_error_of_the_block_leaves_as_itself_after_the_release(
    autojump_clock: Clock, lease: _Lease
) -> None:
    error = LookupError("of the block")
    with pytest.raises(LookupError) as caught:
        async with lease.tenure():
            await trio.sleep(12)
            raise error
    assert caught.value is error
    assert lease.released_at == [12]


async def test_error_of_a_renewal_leaves_as_itself(autojump_clock: Clock, lease: _Lease) -> None:
    """Only `TenureLost` says that the lease is gone; anything else is a failure."""

    async def fail() -> None:
        raise ConnectionError("the store is gone")

    terms = Terms(renew=fail, release=lease.release, lasts_s=30, renew_every_s=10)
    with pytest.raises(ConnectionError):
        async with Tenure(terms, claimed_at=0):
            await trio.sleep_forever()


async def test_error_while_cleaning_up_after_the_loss_is_not_hidden_by_it(
    autojump_clock: Clock, lease: _Lease
) -> None:
    with pytest.raises(OSError, match="while cleaning up"):
        async with lease.tenure() as tenure:
            tenure.end("cancelled")
            try:
                await trio.sleep_forever()
            finally:
                raise OSError("while cleaning up")


async def test_cancellation_from_outside_is_not_swallowed(
    autojump_clock: Clock, lease: _Lease
) -> None:
    after = False
    with trio.move_on_after(12) as outer:
        async with lease.tenure():
            await trio.sleep_forever()
        after = True
    assert outer.cancelled_caught
    assert not after
    assert lease.released_at == [12]


async def test_cancellation_from_outside_is_not_swallowed_by_a_loss_at_the_same_time(
    autojump_clock: Clock, lease: _Lease
) -> None:
    lease.renewal_takes_s = 1_000
    for lose_by_hand in (False, True):
        started_at = trio.current_time()
        after = False
        with trio.move_on_after(30) as outer:
            async with lease.tenure() as tenure:
                try:
                    await trio.sleep_forever()
                finally:
                    if lose_by_hand:
                        tenure.end("cancelled")
            after = True
        assert outer.cancelled_caught
        assert not after
        assert trio.current_time() - started_at == 30


async def test_block_that_waits_for_others_does_not_stop_the_renewal(
    autojump_clock: Clock, lease: _Lease
) -> None:
    """The block, and every task in it, may be stuck: the timer is a task of its own."""
    with trio.move_on_after(100):
        async with lease.tenure():
            with trio.CancelScope(shield=True):
                await trio.sleep(95)
            assert lease.renewed_at == [10, 20, 30, 40, 50, 60, 70, 80, 90]
