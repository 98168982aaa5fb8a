"""Behaviour of a start on a file that is too large to be looked through before it is served."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import apsw
import pytest
import trio

from actors import soundness
from actors.errors import DatabaseDamaged
from actors.startup import Started, Startup
from pi_workflows.protocol.paths import StatePaths
from runtime.errors import SpawnFailed
from runtime.exec_spawner import ExecSpawner
from runtime.log import Log, LogFile
from runtime.process import ChildSpec, ExitStatus
from runtime.scripted_process import ScriptedSpawner
from store.creation import create_database
from store.damage import StateDamaged
from store.errors import EpochLost
from store.files import OsFiles
from store.state_dir import prepare_state_dir
from store.wal import wal_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.world import World
    from tests.actors.server.conftest import Begin, Start

DAMAGE = "INSERT INTO leases (resource_id, generation) VALUES ('nobody', 0)"
NOTHING = "INSERT INTO blobs VALUES (zeroblob(32), 'text/plain', 0, zeroblob(0), 1)"


@pytest.fixture
def paths(home: "Path") -> StatePaths:
    return StatePaths(home)


@pytest.fixture
def spawner(nursery: trio.Nursery) -> ScriptedSpawner:
    """Starts real children."""
    found = ScriptedSpawner(nursery)
    found.spawn = ExecSpawner().spawn  # type: ignore[method-assign, assignment]
    return found


@pytest.fixture
def begin(paths: StatePaths, world: "World") -> "Begin":
    """Bring a server up for which every file is a large one."""

    async def beginning(undo: AsyncExitStack) -> Started:
        file = LogFile(paths.logs / "server.log")
        undo.callback(file.close)
        log = Log(file, world.clock, "server")
        return await Startup(world, paths, log, 4, check_bytes_max=0).run(undo)

    return beginning


def leave_log(paths: StatePaths, change: str) -> None:
    """Leave a database as a server does that was killed after a change."""
    prepare_state_dir(paths.state_dir)
    create_database(paths.database, now=1)
    connection = apsw.Connection(str(paths.database))
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.execute(change)
    connection.close()
    assert wal_bytes(paths.database, OsFiles()) > 0


async def test_damage_found_beside_the_work_ends_the_server_and_is_found_again(
    start: "Start", begin: "Begin", paths: StatePaths
) -> None:
    """The log is left, so that the next start looks at the file too.

    Case: D2.
    """
    leave_log(paths, DAMAGE)
    with trio.fail_after(120):
        async with start() as running:
            await running.ended.wait()
            assert isinstance(running.failure, DatabaseDamaged)
            assert "put a sound copy in their place" in str(running.failure)
        assert not paths.socket.exists()
        async with AsyncExitStack() as undo:
            assert (await begin(undo)).unchecked


async def test_sound_file_is_served_while_it_is_looked_through(
    start: "Start", paths: StatePaths
) -> None:
    leave_log(paths, NOTHING)
    with trio.fail_after(120):
        async with start() as running:
            assert running.server.started.unchecked
            async with running.client() as client:
                assert (await client.call("server.status")).receipt["state"] == "ready"
                while "quick_check_passed" not in (paths.logs / "server.log").read_text():
                    await trio.lowlevel.checkpoint()
                assert (await client.call("server.status")).receipt["state"] == "ready"
            running.server.stopping.set()
            await running.ended.wait()
            assert running.failure is None
    log = (paths.logs / "server.log").read_text()
    assert log.index("quick_check_deferred") < log.index("quick_check_passed")


async def test_orderly_stop_before_the_look_is_finished_leaves_it_owed(
    start: "Start", begin: "Begin", paths: StatePaths, spawner: ScriptedSpawner
) -> None:
    """Neither a stop nor a row of them turns a file that nobody has looked at into a sound one.

    Case: D2.
    """

    async def hang(_: trio.SocketStream) -> ExitStatus:
        await trio.sleep_forever()
        raise AssertionError

    leave_log(paths, DAMAGE)
    looking = spawner.spawn
    del spawner.spawn
    spawner.scripts = [hang]
    with trio.fail_after(120):
        for stops in (1, 2):
            async with start() as running:
                assert running.server.started.unchecked
                while len(spawner.spawned) < stops:
                    await trio.lowlevel.checkpoint()
                running.server.stopping.set()
                await running.ended.wait()
                assert running.failure is None
        spawner.spawn = looking  # type: ignore[method-assign]
        async with start() as running:
            await running.ended.wait()
            assert isinstance(running.failure, DatabaseDamaged)
        async with AsyncExitStack() as undo:
            assert (await begin(undo)).unchecked


async def test_look_that_no_child_can_finish_is_tried_again(
    start: "Start",
    paths: StatePaths,
    spawner: ScriptedSpawner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file is served meanwhile, and stays one that has to be looked at."""
    monkeypatch.setattr(soundness, "RETRY_S", 0)
    leave_log(paths, NOTHING)
    looking, refusals = spawner.spawn, 2

    async def refuse_first(spec: ChildSpec) -> object:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise SpawnFailed("told to refuse")
        return await looking(spec)

    spawner.spawn = refuse_first  # type: ignore[method-assign, assignment]
    with trio.fail_after(120):
        async with start() as running:
            while "quick_check_passed" not in (paths.logs / "server.log").read_text():
                await trio.lowlevel.checkpoint()
            running.server.stopping.set()
            await running.ended.wait()
            assert running.failure is None
    assert (paths.logs / "server.log").read_text().count('"quick_check_failed"') == 2
    assert wal_bytes(paths.database, OsFiles()) == 0


async def test_server_that_does_not_end_in_order_leaves_its_log(
    start: "Start", paths: StatePaths
) -> None:
    """By it the next start knows that this one was no orderly stop, and nothing is moved now."""
    with trio.fail_after(120):
        async with start() as running:
            before = paths.database.stat().st_mtime_ns
            running.steal_epoch()
            with pytest.raises(EpochLost):
                await running.bench.create()
            await running.ended.wait()
            assert isinstance(running.failure, EpochLost)
    assert wal_bytes(paths.database, OsFiles()) > 0
    assert paths.database.stat().st_mtime_ns == before


async def test_damage_that_a_read_meets_ends_the_server(start: "Start", paths: StatePaths) -> None:
    """The log stays, so that the next start looks at the file before it serves it.

    Case: D2.
    """
    with trio.fail_after(120):
        async with start() as running:
            await running.bench.create()
            reading = running.bench.services.readers

            def meet() -> None:
                with reading.reading():
                    raise StateDamaged

            with pytest.raises(StateDamaged):
                meet()
            await running.ended.wait()
            assert isinstance(running.failure, StateDamaged)
            assert "put a sound copy in their place" in str(running.failure)
        assert not paths.socket.exists()
    assert wal_bytes(paths.database, OsFiles()) > 0


async def test_clean_stop_leaves_nothing_to_look_at(begin: "Begin") -> None:
    async with AsyncExitStack() as undo:
        assert not (await begin(undo)).unchecked
