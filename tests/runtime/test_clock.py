"""Behaviour of the two clocks."""

import trio.testing

from runtime.clock import SystemClock


async def test_monotonic_time_is_the_loops_own_so_a_mock_clock_governs_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await trio.sleep(3_600)
    assert clock.monotonic() - before == 3_600
    assert autojump_clock.current_time() == clock.monotonic()


def test_wall_time_is_in_milliseconds_since_the_epoch() -> None:
    year_2020, year_2200 = 1_577_836_800_000, 7_258_118_400_000
    assert year_2020 < SystemClock().wall_ms() < year_2200
