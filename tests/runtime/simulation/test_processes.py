"""Behaviour of simulated processes: death, standstill, identity, signals, sessions."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import signal

import pytest
import trio
from trio.testing import MockClock

from runtime.identity import Liveness, ProcessIdentity
from runtime.process import ExitStatus
from runtime.simulation.machine import Machine
from runtime.simulation.processes import (
    ProcessDied,
    SimulatedProcess,
    SimulatedProcessTable,
)


async def sleeping(_: SimulatedProcess) -> int:
    await trio.sleep_forever()
    raise AssertionError


async def test_exit_code_is_what_the_program_returns(
    autojump_clock: MockClock, machine: Machine
) -> None:
    async def program(_: SimulatedProcess) -> int:
        await trio.sleep(5)
        return 3

    process = machine.start("worker", program)
    await process.ended.wait()
    assert process.status == ExitStatus(3, None)
    assert trio.current_time() == 5


async def test_killed_process_runs_not_one_more_line_not_even_a_finally(
    autojump_clock: MockClock, machine: Machine
) -> None:
    lines: list[str] = []

    async def program(_: SimulatedProcess) -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep(1)
            finally:
                lines.append("finally")
        return 0

    process = machine.start("worker", program)
    await trio.sleep(0.5)
    machine.kill(process)
    await trio.sleep(10)
    assert process.status == ExitStatus(None, signal.SIGKILL)
    assert lines == []


async def test_dead_process_that_is_unwound_can_ask_the_machine_for_nothing(
    autojump_clock: MockClock,
    machine: Machine,
) -> None:
    refused: list[bool] = []

    async def program(process: SimulatedProcess) -> int:
        try:
            await trio.sleep_forever()
        finally:
            with pytest.raises(ProcessDied):
                SimulatedProcessTable(machine.processes, process).own_pid()
            refused.append(True)
        raise AssertionError

    process = machine.start("worker", program)
    await trio.sleep(1)
    machine.kill(process)
    await trio.sleep(1)
    assert refused == []
    await machine.shut_down()
    assert refused == [True]


async def test_stopped_process_stands_still_until_it_goes_on(
    autojump_clock: MockClock, machine: Machine
) -> None:
    ticks: list[float] = []

    async def program(_: SimulatedProcess) -> int:
        while True:
            await trio.sleep(1)
            ticks.append(trio.current_time())

    process = machine.start("worker", program)
    await trio.sleep(1.5)
    machine.pause(process)
    await trio.sleep(10)
    machine.resume(process)
    await trio.sleep(1.25)
    assert ticks == [1, 11.5, 12.5]


async def test_sigterm_ends_a_process_unless_it_handles_it(
    autojump_clock: MockClock, machine: Machine
) -> None:
    heard: list[int] = []
    plain, handling = machine.start("plain", sleeping), machine.start("handling", sleeping)
    handling.handlers[signal.SIGTERM] = lambda: heard.append(1)
    machine.terminate(plain)
    machine.terminate(handling)
    assert plain.status == ExitStatus(None, signal.SIGTERM)
    assert (handling.status, heard) == (None, [1])


async def test_signal_waits_for_a_stopped_process_but_sigkill_does_not(
    autojump_clock: MockClock, machine: Machine
) -> None:
    first, second = machine.start("first", sleeping), machine.start("second", sleeping)
    for process in (first, second):
        machine.pause(process)
    machine.terminate(first)
    assert not first.ended.is_set()
    machine.resume(first)
    assert first.status == ExitStatus(None, signal.SIGTERM)
    machine.kill(second)
    assert second.status == ExitStatus(None, signal.SIGKILL)


async def test_stranger_with_a_reused_number_is_never_signalled(
    autojump_clock: MockClock, machine: Machine
) -> None:
    table = SimulatedProcessTable(machine.processes, machine.start("own", sleeping))
    old = machine.start("old", sleeping)
    machine.kill(old)
    strangers = [machine.start("stranger", sleeping) for _ in range(20)]
    assert old.pid in {stranger.pid for stranger in strangers}
    assert not table.signal_exactly(old.identity, signal.SIGKILL)
    assert table.is_alive(old.identity) is Liveness.GONE
    assert table.identity_of(old.pid) not in {None, old.identity}
    assert all(stranger.status is None for stranger in strangers)
    assert len({process.identity for process in (old, *strangers)}) == 21


async def test_end_of_a_session_spares_its_leader_and_other_sessions(
    autojump_clock: MockClock, machine: Machine
) -> None:
    own = machine.start("own", sleeping)
    leader = machine.start("leader", sleeping)
    member = machine.start("member", sleeping, leader=leader.identity)
    table = SimulatedProcessTable(machine.processes, own)
    await table.end_session(leader.identity, "marker")
    assert member.status == ExitStatus(None, signal.SIGKILL)
    assert leader.status is None
    assert own.status is None


async def test_waiting_for_the_end_of_a_process_returns_with_it(
    autojump_clock: MockClock, machine: Machine
) -> None:
    table = SimulatedProcessTable(machine.processes, machine.start("own", sleeping))
    process = machine.start("worker", sleeping)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(table.wait_gone, process.identity)
        await trio.sleep(3)
        machine.kill(process)
    assert trio.current_time() == 3
    await table.wait_gone(process.identity)
    await table.wait_gone(ProcessIdentity(2, "linux-proc-start:other:1"))


async def test_error_of_a_living_process_is_a_failure_of_the_simulation(
    autojump_clock: MockClock,
    machine: Machine,
) -> None:
    async def program(_: SimulatedProcess) -> int:
        raise OSError("out of luck")

    process = machine.start("worker", program)
    await process.ended.wait()
    assert process.status == ExitStatus(1, None)
    name, error = machine.failures.pop()
    assert name == process.name
    assert isinstance(error, OSError)


async def test_sleep_of_the_machine_moves_both_clocks_and_no_process(
    autojump_clock: MockClock, machine: Machine
) -> None:
    ticks: list[float] = []

    async def program(_: SimulatedProcess) -> int:
        while True:
            await trio.sleep(1)
            ticks.append(trio.current_time())

    machine.start("worker", program)
    await trio.sleep(0.5)
    before = machine.clock.wall_ms()
    await machine.sleep(600)
    await trio.sleep(0.25)
    assert ticks == [600.5]
    assert machine.clock.wall_ms() == before + 600_250


async def test_step_of_the_wall_clock_moves_no_timer(
    autojump_clock: MockClock, machine: Machine
) -> None:
    before = machine.clock.wall_ms()
    machine.step_clock(-3_600_000)
    await trio.sleep(1)
    assert machine.clock.wall_ms() == before - 3_600_000 + 1_000
    assert machine.clock.monotonic() == 1
