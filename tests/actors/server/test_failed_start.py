"""A start that fails at any step leaves no lock, no socket, no claim and no child."""

# ruff: noqa: ARG001, ARG002 - a test asks for the clock that jumps by naming it; fakes have the
# signatures of what they stand for

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw
import pytest
import trio
import trio.testing

from actors.errors import AlreadyRunning
from actors.startup import Startup
from actors.state_files import DiskStateFiles
from pi_workflows.protocol.paths import StatePaths
from runtime.errors import ProcessesSurvived
from runtime.flock import FileLock
from runtime.lock_file import read_lock_file
from runtime.log import Log, LogFile
from runtime.registry import ProcessRegistry
from runtime.sync_points import SyncPoint
from store import host
from store.database import Writer
from store.errors import OutcomeUnknown, StateBusyError
from store.host import HOST_CLAIM_MS, HostRow

if TYPE_CHECKING:
    from runtime.world import World
    from tests.actors.server.conftest import Begin, Start

Clock = trio.testing.MockClock
STARTS: Final = [point for point in SyncPoint if point.startswith("start.")]
UNPROVABLE: Final = """
    UPDATE workflow_host_state SET epoch = 7, host_id = 'server-elsewhere', pid = 1,
           token_hash = zeroblob(32), process_start_identity = 'another-scheme:1',
           started_at = 1, heartbeat_at = :beat, expires_at = :beat + 30000
"""


class FailingAt:
    """Sync points of which one raises, as the step behind it might."""

    def __init__(self) -> None:
        self.point: SyncPoint | None = None

    def reached(self, point: SyncPoint) -> None:
        if point is self.point:
            raise ProcessesSurvived("told to fail")

    def is_armed(self, point: SyncPoint) -> bool:
        return False


@pytest.fixture
def failing() -> FailingAt:
    return FailingAt()


@pytest.fixture
def paths(home: Path) -> StatePaths:
    return StatePaths(home)


@pytest.fixture
def world(world: "World", failing: FailingAt) -> "World":
    return replace(world, sync_points=failing)


def host_row(paths: StatePaths) -> HostRow | None:
    return DiskStateFiles(paths).host_row()


def assert_nothing_left(paths: StatePaths) -> None:
    lock = FileLock(paths.flock)
    assert lock.try_acquire()
    lock.release()
    assert not paths.lock.exists()
    assert not paths.socket.exists()
    row = host_row(paths)
    if row is not None:
        assert (row.host_id, row.token_hash, row.pid, row.expires_at) == (None, None, None, None)


@pytest.mark.parametrize("point", STARTS)
@pytest.mark.parametrize("is_first", [True, False], ids=["new home", "a run in hand"])
async def test_start_that_fails_at_a_step_leaves_nothing_and_the_next_one_serves(
    *,
    autojump_clock: Clock,
    start: "Start",
    begin: "Begin",
    paths: StatePaths,
    failing: FailingAt,
    point: SyncPoint,
    is_first: bool,
) -> None:
    """Case: C13."""
    with trio.fail_after(1_000):
        epoch = 0
        if not is_first:
            async with start() as running:
                running.bench.children(running.bench.idling)
                await running.bench.create()
                await trio.sleep(1)
                running.server.stopping.set()
                await running.ended.wait()
            epoch = 1
        failing.point = point
        if point is SyncPoint.START_SOCKET_BOUND:
            async with start() as running:
                await running.ended.wait()
                assert "told to fail" in str(running.failure)
        else:
            with pytest.raises(ProcessesSurvived, match="told to fail"):
                async with AsyncExitStack() as undo:
                    await begin(undo)
        assert_nothing_left(paths)
        took_epoch = STARTS.index(point) >= STARTS.index(SyncPoint.START_EPOCH_TAKEN)
        row = host_row(paths)
        assert (0 if row is None else row.epoch) == epoch + took_epoch
        failing.point = None
        async with start() as running:
            async with running.client() as client:
                found = (await client.call("server.status")).receipt["epoch"]
            assert found == epoch + took_epoch + 1
            running.server.stopping.set()
            await running.ended.wait()
            assert running.failure is None
        assert_nothing_left(paths)


async def test_start_whose_commit_fails_writes_the_file_no_more(
    autojump_clock: Clock, begin: "Begin", paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim stays and lapses, because its process is gone; the lock does not."""
    commit = Writer.commit
    commits: list[Writer] = []

    def fail_the_second(writer: Writer) -> None:
        commits.append(writer)
        if len(commits) > 1:
            writer.rollback()
            raise OutcomeUnknown
        commit(writer)

    monkeypatch.setattr(Writer, "commit", fail_the_second)
    with pytest.raises(OutcomeUnknown):
        async with AsyncExitStack() as undo:
            await begin(undo)
    assert len(commits) == 2
    assert not paths.lock.exists()
    row = host_row(paths)
    assert row is not None
    assert (row.epoch, row.host_id is None) == (1, False)
    monkeypatch.undo()
    async with AsyncExitStack() as undo:
        assert (await begin(undo)).claim.claim.epoch == 2


async def test_claim_is_renewed_while_left_over_children_take_long_to_end(
    autojump_clock: Clock, begin: "Begin", paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that comes meanwhile must not find a lapsed claim."""
    seen: list[HostRow | None] = []
    end_registered = ProcessRegistry.end_registered

    async def end_slowly(registry: ProcessRegistry) -> object:
        await trio.sleep(45)
        seen.append(host_row(paths))
        return await end_registered(registry)

    monkeypatch.setattr(ProcessRegistry, "end_registered", end_slowly)
    async with AsyncExitStack() as undo:
        started = await begin(undo)
        (row,) = seen
        assert row is not None
        now = started.services.world.clock.wall_ms()
        assert row.epoch == 1
        assert HOST_CLAIM_MS - 6_000 < row.left_ms(now) <= HOST_CLAIM_MS


@pytest.mark.parametrize("free_at", [3.0, 30.0])
async def test_file_that_a_last_child_has_open_is_waited_for_within_bounds(
    autojump_clock: Clock,
    world: "World",
    paths: StatePaths,
    monkeypatch: pytest.MonkeyPatch,
    free_at: float,
) -> None:
    file = LogFile(paths.logs / "server.log")
    state = DiskStateFiles(paths)
    open_writer = state.open_writer

    def open_once_free() -> Writer:
        if trio.current_time() < free_at:
            raise StateBusyError
        return open_writer()

    monkeypatch.setattr(state, "open_writer", open_once_free)
    startup = Startup(world, paths, Log(file, world.clock, "server"), 4, state)
    async with AsyncExitStack() as undo:
        if free_at > 5:
            with pytest.raises(StateBusyError):
                await startup.run(undo)
            assert 5 <= trio.current_time() < 6
        else:
            await startup.run(undo)
            assert 3 <= trio.current_time() < 4
    assert_nothing_left(paths)
    file.close()


@pytest.mark.parametrize("beat_ago_s", [10, -3_600])
async def test_live_claim_of_somebody_unprovable_is_waited_for_until_it_lapses(
    autojump_clock: Clock,
    begin: "Begin",
    world: "World",
    paths: StatePaths,
    beat_ago_s: int,
) -> None:
    """Nothing names it but the database; one that lies an hour ahead is not waited for."""
    async with AsyncExitStack() as undo:
        await begin(undo)
    connection = apsw.Connection(str(paths.database))
    connection.execute(UNPROVABLE, {"beat": world.clock.wall_ms() - beat_ago_s * 1000})
    connection.close()
    before = trio.current_time()
    async with AsyncExitStack() as undo:
        if beat_ago_s < 0:
            with pytest.raises(AlreadyRunning, match="has a live claim on the state"):
                await begin(undo)
        else:
            assert (await begin(undo)).claim.claim.epoch == 8
    waited = trio.current_time() - before
    assert (waited == 0) if beat_ago_s < 0 else (20 <= waited < 21)
    assert read_lock_file(paths.lock) is None


async def test_claim_is_not_given_back_twice(autojump_clock: Clock, begin: "Begin") -> None:
    """Nor after the file was closed."""
    async with AsyncExitStack() as undo:
        started = await begin(undo)
        started.claim.give_back()
        started.claim.give_back()
        found = DiskStateFiles(started.services.paths).host_row()
        assert found is not None
        assert found.host_id is None
    assert isinstance(found, host.HostRow)
