"""The order of a simulation: chosen by its seed, held back where a group is held."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import trio
from trio.testing import MockClock

from runtime.simulation.chance import Chance, SeededIds
from runtime.simulation.machine import Machine
from runtime.simulation.processes import ProcessDied, SimulatedProcess
from runtime.simulation.sync_points import SimulatedSyncPoints
from runtime.simulation.trace import Trace
from runtime.sync_points import SyncPoint


def order_of(seed: int) -> str:
    """Return in which order three tasks of three steps take them."""
    steps: list[str] = []

    async def stepping(name: str) -> None:
        for _ in range(3):
            steps.append(name)
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            Machine(seed, nursery)
            for name in "abc":
                nursery.start_soon(stepping, name)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return "".join(steps)


def test_seed_decides_the_order_and_many_orders_come_about() -> None:
    """A task may take all its steps before another takes one, which stock trio never lets it."""
    orders = [order_of(seed) for seed in range(200)]
    assert orders == [order_of(seed) for seed in range(200)]
    assert len(set(orders)) > 150
    assert any(order.startswith(("aaa", "bbb", "ccc")) for order in orders)


def test_streams_of_chance_do_not_disturb_each_other() -> None:
    chance = Chance(5)
    first = chance.stream("first")
    drawn = [first.random() for _ in range(3)]
    other = chance.stream("other")
    assert [other.random() for _ in range(3)] != drawn
    assert [chance.stream("first").random(), *drawn[1:]] == drawn
    assert Chance(6).stream("first").random() != drawn[0]


def test_ids_are_uuids_of_the_seed() -> None:
    first, second = (SeededIds(Chance(1).stream("ids")) for _ in range(2))
    made = [first.new_uuid() for _ in range(100)]
    assert made == [second.new_uuid() for _ in range(100)]
    assert len(set(made)) == 100
    assert {(len(text), text[14]) for text in made} == {(36, "4")}
    assert first.token_bytes(8) == second.token_bytes(8)
    assert len(first.token_bytes()) == 32


async def test_trace_covers_what_it_does_not_show(autojump_clock: MockClock) -> None:
    first, second = Trace(), Trace()
    for trace, end in ((first, "a"), (second, "b")):
        trace.note("somebody", "said", "x" * 1_000 + end)
    assert first.entries == second.entries
    assert first.digest() != second.digest()
    before = first.digest()
    first.close()
    first.note("somebody", "said", "more")
    assert first.digest() == before


async def test_process_dies_at_the_armed_time_it_reaches_a_place(
    autojump_clock: MockClock, machine: Machine
) -> None:
    passed: list[int] = []

    async def program(process: SimulatedProcess) -> int:
        points = SimulatedSyncPoints(process, machine.kill)
        points.arm(SyncPoint.COMMAND_BEFORE_BEGIN, 3)
        assert points.is_armed(SyncPoint.COMMAND_BEFORE_BEGIN)
        for number in range(10):
            try:
                points.reached(SyncPoint.COMMAND_BEFORE_BEGIN)
            except ProcessDied:
                assert points.reached_count[SyncPoint.COMMAND_BEFORE_BEGIN] == 3
                raise
            passed.append(number)
        return 0

    process = machine.start("worker", program)
    await process.ended.wait()
    assert passed == [0, 1]
    assert process.status is not None
    assert process.status.signal == 9
