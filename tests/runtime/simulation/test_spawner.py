"""Children, real and simulated, keep the same promises."""

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import pytest
import trio

from runtime.exec_spawner import ExecSpawner
from runtime.identity import Liveness
from runtime.process import Child, ChildSpec, ExitStatus, Spawner
from runtime.processes import ProcessTable, SystemProcessTable
from runtime.simulation.machine import Machine
from runtime.simulation.processes import SimulatedProcess, SimulatedProcessTable
from runtime.simulation.spawner import ChildProgram, SimulatedSpawner
from runtime.simulation.streams import SimulatedStream
from tests.runtime.children.conftest import script


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One thing that a child does, as a script and as a coroutine."""

    code: str
    program: ChildProgram


async def _shout(_: SimulatedProcess, stream: SimulatedStream, __: ChildSpec) -> int:
    heard = b""
    while len(heard) < 5:
        heard += await stream.receive_some(100)
    await stream.send_all(heard.upper())
    return 3


async def _wait(_: SimulatedProcess, stream: SimulatedStream, __: ChildSpec) -> int:
    await stream.send_all(b"ready")
    await trio.sleep_forever()
    raise AssertionError


async def _ignore(process: SimulatedProcess, stream: SimulatedStream, __: ChildSpec) -> int:
    process.handlers[signal.SIGTERM] = lambda: None
    return await _wait(process, stream, __)


async def _obey(process: SimulatedProcess, stream: SimulatedStream, __: ChildSpec) -> int:
    told = trio.Event()
    process.handlers[signal.SIGTERM] = told.set
    await stream.send_all(b"ready")
    await told.wait()
    return 7


SHOUTING: Final = Behaviour(
    """
    import os
    os.write(fd, os.read(fd, 100).upper())
    raise SystemExit(3)
    """,
    _shout,
)
WAITING: Final = Behaviour("import os, signal; os.write(fd, b'ready'); signal.pause()", _wait)
IGNORING: Final = Behaviour(
    """
    import os, signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(fd, b"ready")
    signal.pause()
    """,
    _ignore,
)
OBEYING: Final = Behaviour(
    """
    import os, signal
    def leave(*_):
        raise SystemExit(7)
    signal.signal(signal.SIGTERM, leave)
    os.write(fd, b"ready")
    signal.pause()
    """,
    _obey,
)

Start: TypeAlias = Callable[[Behaviour], Awaitable[tuple[Child, ProcessTable]]]


async def sleeping(_: SimulatedProcess) -> int:
    await trio.sleep_forever()
    raise AssertionError


@pytest.fixture(params=["real", "simulated"])
def start(request: pytest.FixtureRequest, machine: Machine) -> Start:
    """Start a child that behaves in this way."""

    async def starting(behaviour: Behaviour) -> tuple[Child, ProcessTable]:
        if request.param == "real":
            spawner: Spawner = ExecSpawner()
            return await spawner.spawn(script(behaviour.code)), SystemProcessTable()
        parent = machine.start("parent", sleeping)
        spawner = SimulatedSpawner(machine, parent, lambda _: ("child", behaviour.program))
        table = SimulatedProcessTable(machine.processes, parent)
        return await spawner.spawn(script("")), table

    return starting


async def test_child_talks_over_its_stream_and_its_exit_is_told_to_all(start: Start) -> None:
    with trio.fail_after(120):
        child, table = await start(SHOUTING)
        assert table.is_alive(child.identity) is Liveness.ALIVE
        assert table.identity_of(child.pid) == child.identity
        await child.stream.send_all(b"hello")
        received = b""
        while data := await child.stream.receive_some():
            received += data
        assert received == b"HELLO"
        assert [await child.wait() for _ in range(2)] == [ExitStatus(3, None)] * 2
        assert await child.stop() == ExitStatus(3, None)
        assert table.is_alive(child.identity) is Liveness.GONE


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [
        (WAITING, ExitStatus(None, signal.SIGTERM)),
        (OBEYING, ExitStatus(7, None)),
        (IGNORING, ExitStatus(None, signal.SIGKILL)),
    ],
    ids=["waiting", "obeying", "ignoring"],
)
async def test_stop_asks_first_and_kills_what_does_not_listen(
    start: Start, behaviour: Behaviour, status: ExitStatus
) -> None:
    with trio.fail_after(120):
        child, table = await start(behaviour)
        assert (await child.stream.receive_some()) != b""
        assert await child.stop(grace_s=5 if behaviour is not IGNORING else 0.05) == status
        assert table.is_alive(child.identity) is Liveness.GONE
        with pytest.raises(trio.ClosedResourceError):
            await child.stream.send_all(b"x")


async def test_stop_is_finished_even_when_it_is_cancelled(start: Start) -> None:
    with trio.fail_after(120):
        child, table = await start(WAITING)
        assert (await child.stream.receive_some()) != b""
        with trio.CancelScope() as scope:
            scope.cancel()
            await child.stop()
        assert table.is_alive(child.identity) is Liveness.GONE
        assert await child.wait() == ExitStatus(None, signal.SIGTERM)


async def test_cancelled_wait_leaves_the_child_alone(start: Start) -> None:
    with trio.fail_after(120):
        child, table = await start(WAITING)
        assert (await child.stream.receive_some()) != b""
        with trio.move_on_after(0.01) as waited:
            await child.wait()
        assert waited.cancelled_caught
        assert table.is_alive(child.identity) is Liveness.ALIVE
        await child.stop()


async def test_exactly_the_child_is_signalled(start: Start) -> None:
    with trio.fail_after(120):
        child, table = await start(WAITING)
        assert table.signal_exactly(child.identity, signal.SIGKILL)
        await table.wait_gone(child.identity)
        assert await child.wait() == ExitStatus(None, signal.SIGKILL)
        assert not table.signal_exactly(child.identity, signal.SIGKILL)
        await child.stop()
