"""Behaviour of the queue in which large frames are parsed."""

import pytest
import trio
import trio.testing

from actors import frame_turns
from actors.frame_turns import SMALL_BYTES, FrameTurns
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.frames import FrameError, encode_frame, parse_canonical
from runtime.clock import WallMs

PARSING_S = 0.5


class BusyClock:
    """Time goes on while a frame is parsed, which takes half a second."""

    def __init__(self) -> None:
        self.parsed = 0

    def wall_ms(self) -> WallMs:
        return WallMs(0)

    def monotonic(self) -> float:
        return trio.current_time() + self.parsed * PARSING_S


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> BusyClock:
    found = BusyClock()

    def slowly(line: bytes) -> JsonObject:
        found.parsed += 1
        return parse_canonical(line)

    monkeypatch.setattr(frame_turns, "parse_canonical", slowly)
    return found


async def test_large_frames_are_parsed_one_at_a_time_with_as_much_time_in_between(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001 - the clock that jumps
    clock: BusyClock,
) -> None:
    """Whoever else has something to do, a renewal first of all, waits for one frame."""
    turns = FrameTurns(clock)
    line = encode_frame({"filling": "x" * SMALL_BYTES})[:-1]
    seen: list[tuple[float, int]] = []

    async def look() -> None:
        while True:
            seen.append((trio.current_time(), clock.parsed))
            await trio.sleep(PARSING_S)

    with trio.fail_after(60):
        async with trio.open_nursery() as looking:
            looking.start_soon(look)
            async with trio.open_nursery() as parsing:
                for _ in range(10):
                    parsing.start_soon(turns.parse, line, trio.Lock())
            looking.cancel_scope.cancel()
    assert trio.current_time() == pytest.approx(10 * PARSING_S)
    assert all(parsed <= at / PARSING_S + 1 for at, parsed in seen)


async def test_small_frame_waits_for_nobody(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001 - the clock that jumps
    clock: BusyClock,
) -> None:
    turns, sender = FrameTurns(clock), trio.Lock()
    large = encode_frame({"filling": "x" * SMALL_BYTES})[:-1]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turns.parse, large, sender)
            await trio.testing.wait_all_tasks_blocked()
            began_at = trio.current_time()
            assert await turns.parse(b'{"a":1}', sender) == {"a": 1}
            assert trio.current_time() == began_at
    with pytest.raises(FrameError):
        await turns.parse(b"[" + b"1," * SMALL_BYTES, sender)


async def test_frame_of_one_process_does_not_wait_for_all_that_another_has_sent(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001 - the clock that jumps
    clock: BusyClock,
) -> None:
    turns = FrameTurns(clock)
    line = encode_frame({"filling": "x" * SMALL_BYTES})[:-1]
    flooding = trio.Lock()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(60):
                nursery.start_soon(turns.parse, line, flooding)
            await trio.testing.wait_all_tasks_blocked()
            await turns.parse(line, trio.Lock())
            assert clock.parsed == 2
            nursery.cancel_scope.cancel()
