"""Behaviour of a whole server: from its start to its end, orderly or not."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

import os
import signal
import stat
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from actors.errors import AlreadyRunning
from pi_workflows.client.errors import ClientError
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.states import RunStatus
from runtime.process import ExitStatus
from store import host
from store.database import Writer
from store.errors import EpochLost, OutcomeUnknown
from store.files import OsFiles
from store.opening import open_reader
from store.transaction import Reading
from store.wal import wal_bytes

if TYPE_CHECKING:
    from pi_workflows.client.sans_io import Reply
    from tests.actors.conftest import RunnerEnd
    from tests.actors.server.conftest import Begin, Running, Start

Clock = trio.testing.MockClock
START: JsonObject = {"projectPath": "/", "workflow": "tally", "input": 3}


def host_row(running: "Running") -> host.HostRow:
    reader = open_reader(running.paths.database)
    with reader.snapshot() as connection:
        row = host.current(Reading(connection, 0))
    reader.close()
    return row


async def stop(running: "Running") -> None:
    running.server.stopping.set()
    await running.ended.wait()
    assert running.failure is None


async def test_client_starts_a_run_and_sees_its_result(
    autojump_clock: Clock, start: "Start"
) -> None:
    """Resolver, scheduler, owner, child, store, views: the whole way in one loop."""
    with trio.fail_after(60):
        async with start() as running:
            running.bench.children(running.bench.resolving, running.bench.working)
            async with running.client() as client:
                reply = await client.call("run.start", START)
                run_id = str(reply.receipt["runId"])
                watched = await client.watch("view.run.watch", run_id=run_id)
                shown: JsonObject = {}
                while "finalOutput" not in shown:
                    shown = (await watched.events.receive()).payload
            assert shown["finalOutput"] == {"node": "second"}
            await stop(running)


async def test_sigterm_hands_runs_off_releases_the_claim_and_removes_socket_and_lock(
    autojump_clock: Clock, start: "Start"
) -> None:
    """Case: C12."""
    with trio.fail_after(60):
        async with start() as running:
            running.bench.children(running.bench.resolving, running.bench.idling)
            async with running.client() as client:
                run_id = (await client.call("run.start", START)).receipt["runId"]
                await trio.sleep(1)
                assert running.bench.spawner.living == 1
                os.kill(os.getpid(), signal.SIGTERM)
                await running.ended.wait()
            assert running.failure is None
            assert running.bench.spawner.living == 0
    paths = running.paths
    assert not paths.socket.exists()
    assert not paths.lock.exists()
    assert paths.flock.exists()
    assert wal_bytes(paths.database, OsFiles()) == 0
    row = host_row(running)
    assert (row.epoch, row.host_id, row.token_hash, row.expires_at) == (1, None, None, None)
    reader = open_reader(paths.database)
    found = list(reader.connection.execute("SELECT run_id, status, error_code FROM run_queue"))
    leases = list(reader.connection.execute("SELECT * FROM leases WHERE owner_id IS NOT NULL"))
    reader.close()
    assert found == [(run_id, "parked", "handoff")]
    assert leases == []


async def test_stop_admits_nobody_and_starts_nothing_more_but_answers_what_is_due(
    autojump_clock: Clock, start: "Start"
) -> None:
    """Admission ends first, then the listener; the run that was asked for waits for a server.

    Case: C12.
    """

    async def resolve_late(child: "RunnerEnd") -> ExitStatus:
        await trio.sleep(5)
        return await child.resolve()

    replies: list[Reply] = []
    with trio.fail_after(60):
        async with start() as running, trio.open_nursery() as nursery:
            running.bench.children(resolve_late, running.bench.working)

            async def ask() -> None:
                async with running.client() as client:
                    replies.append(await client.call("run.start", START))

            nursery.start_soon(ask)
            await trio.sleep(4.5)
            running.server.stopping.set()
            await trio.testing.wait_all_tasks_blocked()
            assert not running.paths.socket.exists()
            with pytest.raises(OSError, match="No such file"):
                await trio.open_unix_socket(str(running.paths.socket))
            await running.ended.wait()
            assert running.failure is None
            assert [reply.receipt["status"] for reply in replies] == ["queued"]
            assert len(running.bench.spawner.spawned) == 1
        async with start() as running:
            await trio.sleep(1)
            assert running.bench.rows("SELECT status FROM runs") == [("completed",)]
            await stop(running)


async def test_run_that_was_handed_off_is_finished_by_the_next_server(
    autojump_clock: Clock, start: "Start"
) -> None:
    """Every start takes the next epoch.

    Case: C4.
    """
    with trio.fail_after(60):
        async with start() as running:
            running.bench.children(running.bench.resolving, running.bench.idling)
            async with running.client() as client:
                await client.call("run.start", START)
                await trio.sleep(1)
            await stop(running)
        running.bench.children(running.bench.working)
        async with start() as running:
            await trio.sleep(1)
            assert running.bench.rows("SELECT status FROM runs") == [("completed",)]
            assert host_row(running).epoch == 2
            await stop(running)
        async with start() as running:
            assert host_row(running).epoch == 3
            await stop(running)


async def test_everything_is_private(autojump_clock: Clock, start: "Start") -> None:
    """Case: C7."""
    with trio.fail_after(60):
        async with start() as running:
            running.bench.children(running.bench.resolving, running.bench.idling)
            async with running.client() as client:
                await client.call("run.start", START)
                await trio.sleep(1)
            for found in (running.paths.state_dir, *running.paths.state_dir.rglob("*")):
                mode = stat.S_IMODE(found.lstat().st_mode)
                assert mode == (0o700 if found.is_dir() else 0o600), found
            assert running.paths.socket.is_socket()
            assert running.paths.registry.exists()
            await stop(running)


async def test_second_server_is_refused_and_the_first_is_not_touched(
    autojump_clock: Clock, start: "Start", begin: "Begin"
) -> None:
    """Case: C1."""
    with trio.fail_after(60):
        async with start() as running:
            lock = running.paths.lock.read_bytes()
            with pytest.raises(AlreadyRunning, match=f"PID {os.getpid()}"):
                async with AsyncExitStack() as undo:
                    await begin(undo)
            assert trio.current_time() < 1
            assert running.paths.lock.read_bytes() == lock
            async with running.client() as client:
                assert (await client.call("server.status")).receipt["epoch"] == 1
            await stop(running)


async def test_holder_of_the_lock_that_does_not_answer_is_waited_for(
    autojump_clock: Clock, begin: "Begin"
) -> None:
    """It may be starting or stopping; nothing of it is touched."""
    with trio.fail_after(60):
        async with AsyncExitStack() as first:
            await begin(first)
            with pytest.raises(AlreadyRunning):
                async with AsyncExitStack() as undo:
                    await begin(undo)
            assert 8 <= trio.current_time() < 9
        async with AsyncExitStack() as undo:
            assert (await begin(undo)).claim.claim.epoch == 2


async def test_idle_server_ends_once_nobody_needs_it(
    autojump_clock: Clock, start: "Start"
) -> None:
    """A client keeps it alive, and so does a run that is due later."""
    with trio.fail_after(10_000):
        async with start(idle_exit_ms=600_000) as running:
            async with running.client() as client:
                await client.call("server.status")
                await trio.sleep(1_000)
                assert not running.ended.is_set()
            left_at = trio.current_time()
            run_id = await running.bench.create()
            later = (
                "UPDATE run_queue"
                " SET error_code = 'runnerCrashed', available_at = updated_at + 1000000"
            )
            await running.bench.alter(later)
            running.bench.children(running.bench.working)
            await trio.sleep(990)
            assert not running.ended.is_set()
            await running.ended.wait()
            assert running.failure is None
            assert 1_000 + 600 <= trio.current_time() - left_at < 1_000 + 610
            assert run_id
    assert not running.paths.socket.exists()


async def test_server_without_idle_exit_stays(autojump_clock: Clock, start: "Start") -> None:
    with trio.fail_after(10_000):
        async with start() as running:
            await trio.sleep(2_000)
            assert not running.ended.is_set()
            await stop(running)


async def test_own_claim_that_expired_while_the_machine_slept_is_taken_up_again(
    autojump_clock: Clock, start: "Start"
) -> None:
    """Case: C5."""
    with trio.fail_after(1_000):
        async with start() as running:
            running.bench.clock.stepped_ms = 600_000
            await trio.sleep(11)
            row = host_row(running)
            assert row.epoch == 1
            assert row.expires_at is not None
            assert row.expires_at > running.bench.clock.wall_ms()
            await stop(running)


async def test_server_that_was_superseded_ends_and_writes_nothing_more(
    autojump_clock: Clock, start: "Start"
) -> None:
    """Case: C5."""
    with trio.fail_after(1_000):
        async with start() as running:
            reader = open_reader(running.paths.database)
            running.steal_epoch()
            before = list(reader.connection.execute("SELECT * FROM workflow_host_state"))
            await running.ended.wait()
            assert isinstance(running.failure, EpochLost)
            assert trio.current_time() < 11
            assert list(reader.connection.execute("SELECT * FROM workflow_host_state")) == before
            reader.close()
    assert not running.paths.socket.exists()


async def test_failed_commit_ends_the_server_and_its_children(
    autojump_clock: Clock, start: "Start", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs under way stay as they are on disk: recovery decides, not a guess."""

    def fail(_: Writer) -> None:
        raise OutcomeUnknown

    with trio.fail_after(1_000):
        async with start() as running:
            running.bench.children(running.bench.resolving, running.bench.idling)
            async with running.client() as client:
                run_id = str((await client.call("run.start", START)).receipt["runId"])
                await trio.sleep(1)
                assert running.bench.spawner.living == 1
                monkeypatch.setattr(Writer, "commit", fail)
                with pytest.raises(ClientError):
                    await client.call("run.cancel", run_id=run_id)
                await running.ended.wait()
            assert isinstance(running.failure, OutcomeUnknown), running.failure
            assert running.bench.spawner.living == 0
            monkeypatch.undo()
        assert not running.paths.socket.exists()
        assert not running.paths.lock.exists()
        running.bench.children(running.bench.working)
        async with start() as running:
            await trio.sleep(2)
            assert running.bench.rows("SELECT status FROM runs") == [(RunStatus.COMPLETED,)]
            await stop(running)


async def test_start_that_fails_at_the_socket_leaves_no_lock(
    autojump_clock: Clock, start: "Start", home: Path
) -> None:
    """Case: C13."""
    with trio.fail_after(1_000):
        async with start() as running:
            await stop(running)
        running.paths.socket.write_text("in the way")
        async with start() as running:
            await running.ended.wait()
            assert "not a socket" in str(running.failure)
        assert not running.paths.lock.exists()
        assert running.paths.socket.read_text() == "in the way"
        running.paths.socket.unlink()
        async with start() as running:
            async with running.client() as client:
                assert (await client.call("server.status")).receipt["state"] == "ready"
            await stop(running)
