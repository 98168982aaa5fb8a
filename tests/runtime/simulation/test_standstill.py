"""A simulation that can go no further ends, and says who waits where; it never hangs.

Each of these tests would never end if nobody noticed.
"""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from runtime.simulation.machine import Machine, SimulationBroken
from runtime.simulation.processes import SimulatedProcess
from runtime.simulation.scheduling import STEPS_MAX

Story = Callable[[Machine], Awaitable[None]]


def broken_by(story: Story) -> str:
    """Return how a simulation is given up."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await story(Machine(7, nursery))

    with pytest.raises(trio.TrioInternalError) as raised:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    broken = raised.value.__cause__
    assert isinstance(broken, SimulationBroken)
    return str(broken)


async def wait_for_ever(_: SimulatedProcess) -> int:
    await trio.sleep_forever()
    raise AssertionError


async def wait_shielded(_: SimulatedProcess) -> int:
    with trio.CancelScope(shield=True):
        await trio.Event().wait()
    raise AssertionError


async def sleep_shielded(_: SimulatedProcess) -> int:
    with trio.CancelScope(shield=True):
        while True:  # noqa: ASYNC110 - waits for nothing
            await trio.sleep(60)
    raise AssertionError


def test_dead_process_that_is_never_let_go_ends_the_simulation() -> None:
    async def story(machine: Machine) -> None:
        process = machine.start("worker", wait_for_ever)
        await trio.sleep(1)
        machine.kill(process)
        process.scope.cancel()

    said = broken_by(story)
    assert said.startswith("nothing can go on any more: worker-1001 is held back in wait_for_ever")
    assert "test_standstill.py:" in said


def test_wait_that_nobody_ends_ends_the_simulation_and_is_named() -> None:
    async def story(_: Machine) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.Event().wait, name="reader of nothing")
            nursery.start_soon(wait_in_here)

    async def wait_in_here() -> None:
        await trio.Event().wait()

    said = broken_by(story)
    assert said.startswith("nothing can go on any more: ")
    assert "reader of nothing waits in trio" in said
    assert "wait_in_here waits in wait_in_here (test_standstill.py:" in said
    assert said == broken_by(story), "the same seed is given up in the same words"


def test_time_that_stands_still_ends_the_simulation_and_the_runner_is_named() -> None:
    async def spin(_: SimulatedProcess) -> int:
        while True:
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def story(machine: Machine) -> None:
        machine.start("idle", wait_for_ever)
        machine.start("spinner", spin)
        await trio.sleep(3_600)

    said = broken_by(story)
    assert said.startswith(f"time stands still for {STEPS_MAX:,} steps: spinner-1002 runs in spin")


@pytest.mark.parametrize("program", [wait_shielded, sleep_shielded])
def test_dead_process_that_does_not_end_ends_the_simulation_and_is_named(
    program: Callable[[SimulatedProcess], Awaitable[int]],
) -> None:
    """Whether it waits for nothing or goes on sleeping: an error must not wait for its end."""

    async def story(machine: Machine) -> None:
        machine.start("quick", wait_for_ever)
        machine.start("worker", program)
        await trio.sleep(1)
        with trio.CancelScope(shield=True):
            await machine.shut_down()

    said = broken_by(story)
    assert said.startswith("dead processes go on for 3600 s: ")
    assert f"worker-1002 waits in {program.__name__} (test_standstill.py:" in said
    assert "quick" not in said


def test_simulation_that_is_bounded_ends_though_its_tasks_sleep_on_and_on() -> None:
    told: list[tuple[float, str]] = []

    async def restless() -> None:
        with trio.CancelScope(shield=True):
            while True:  # noqa: ASYNC110 - waits for nothing
                await trio.sleep(45)

    async def story(machine: Machine) -> None:
        machine.bound(100, lambda: told.append((trio.current_time(), machine.waits())))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(restless)
            nursery.cancel_scope.cancel()

    said = broken_by(story)
    assert said.startswith("it still goes on after 7300 s: ")
    assert [(at_s, text.split(" (")[0]) for at_s, text in told] == [
        (135, "restless waits in restless")
    ]


def test_what_is_given_up_is_unwound_where_it_stands() -> None:
    """Else the interpreter would close it whenever it comes to it."""
    unwound: list[str] = []

    async def holding(name: str) -> None:
        try:
            with trio.CancelScope(shield=True):
                await trio.Event().wait()
        finally:
            unwound.append(name)
            await trio.sleep(1)  # Refused: nothing of it can go on.

    async def story(_: Machine) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(holding, "older")
            await trio.sleep(1)
            nursery.start_soon(holding, "younger")

    broken_by(story)
    assert unwound == ["younger", "older"]


def test_waiting_until_all_tasks_are_blocked_is_no_standstill() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            machine = Machine(7, nursery)
            process = machine.start("worker", wait_for_ever)
            await trio.testing.wait_all_tasks_blocked()
            machine.pause(process)
            process.scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            await machine.shut_down()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
