"""Where two things go wrong at once: a run is always left to whoever claims it next."""

# ruff: noqa: ARG001 - a test asks for the clock that jumps by naming it

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import apsw
import pytest
import trio
import trio.testing

from pi_workflows.protocol.states import QueueStatus
from runtime.mailbox import Lane
from runtime.process import ExitStatus
from runtime.sync_points import InertSyncPoints, SyncPoint
from store.errors import RunUnknownError, StateBusyError, StorageFault
from store.transaction import Transaction

if TYPE_CHECKING:
    from runtime.identity import ProcessIdentity
    from tests.actors.conftest import Bench, RunnerEnd

Clock = trio.testing.MockClock
T = TypeVar("T")

LEASES_LAPSED: Final = "UPDATE leases SET expires_at = 1 WHERE expires_at IS NOT NULL"
OWNED: Final = "SELECT count(*) FROM leases WHERE owner_id IS NOT NULL"
OPEN_WORKERS: Final = "SELECT count(*) FROM run_workers WHERE finished_at IS NULL"


async def crash(child: "RunnerEnd") -> ExitStatus:
    await child.ready()
    await child.advance(child.started("first"))
    return ExitStatus(1, None)


async def test_owner_whose_claim_lapsed_leaves_a_run_that_can_be_claimed_again(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Nobody took it meanwhile: it must not read `running` until the next restart."""
    bench.children(bench.idling, bench.working)
    with trio.fail_after(120):
        run_id = await bench.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.owner(run_id).run)
            await trio.sleep(1)
            await bench.alter(LEASES_LAPSED)
        assert bench.queue_row(run_id).status is QueueStatus.PARKED
        assert bench.rows(OWNED) == [(0,)]
        assert bench.rows(OPEN_WORKERS) == [(0,)]
        assert await bench.owner(run_id).run()
    assert bench.run_row(run_id).terminal


async def test_registry_that_cannot_be_written_does_not_keep_the_run(
    autojump_clock: Clock, bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(identity: "ProcessIdentity") -> None:
        raise OSError(28, "No space left on device")

    bench.children(crash)
    with trio.fail_after(120):
        run_id = await bench.create()
        monkeypatch.setattr(bench.services.processes, "remove", refuse)
        assert await bench.owner(run_id).run()
    assert bench.queue_row(run_id).status is QueueStatus.PARKED
    assert bench.rows(OPEN_WORKERS) == [(0,)]


async def test_proposal_waits_for_a_foreign_write_lock_and_runs_nothing_again(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """The effect has happened and its runner is alive and says so: nothing is ambiguous."""
    stranger = apsw.Connection(str(bench.paths.database))

    async def act(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        granted = child.granted(
            await child.advance(
                child.finished("first"),
                child.started("second", node_type="action"),
                child.reserve("second", "mail.send", "manual"),
            )
        )
        stranger.execute("BEGIN IMMEDIATE")
        await child.advance(child.settled(granted, "applied"), child.finished("second"))
        return await child.leave("failed")

    async def let_go() -> None:
        await trio.sleep(12)
        stranger.execute("ROLLBACK")

    bench.children(act)
    with trio.fail_after(120):
        run_id = await bench.create_with_effect("mail.send", "manual")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_go)
            assert await bench.owner(run_id).run()
    stranger.close()
    assert bench.rows("SELECT status FROM effects WHERE effect_type = 'mail.send'") == [
        ("applied",)
    ]
    assert bench.rows("SELECT count(*) FROM run_steps") == [(2,)]


async def test_dead_child_is_noticed_although_somebody_holds_its_socket(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """A process it had forked keeps the stream open: the exit is what counts."""
    held: list[trio.SocketStream] = []

    async def fork_and_die(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        stream = child.lines._stream
        assert isinstance(stream, trio.SocketStream)
        held.append(trio.SocketStream(stream.socket.dup()))
        return ExitStatus(None, 9)

    bench.children(fork_and_die)
    with trio.fail_after(30):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
    for stream in held:
        await stream.aclose()
    assert bench.queue_row(run_id).status is QueueStatus.PARKED


async def test_claim_that_was_tried_and_never_committed_is_forgotten(
    autojump_clock: Clock, bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour makes the batch begin anew, and somebody has the write lock by then."""
    stranger = apsw.Connection(str(bench.paths.database))
    begun: list[str] = []

    def interfere(_: InertSyncPoints, point: SyncPoint) -> None:
        if point is SyncPoint.COMMAND_BEFORE_BEGIN:
            begun.append(point.value)
            if len(begun) == 2:
                stranger.execute("BEGIN IMMEDIATE")

    def fail_late(tx: Transaction) -> None:
        tx.connection.execute("UPDATE runs SET updated_at = updated_at")
        raise RunUnknownError("nobody")

    async def neighbour() -> None:
        with pytest.raises(StateBusyError):
            await bench.services.store.do(fail_late)

    claimed: list[bool] = []

    async def claim() -> None:
        claimed.append(await bench.owner(run_id).run())

    with trio.fail_after(60):
        run_id = await bench.create()
        monkeypatch.setattr(InertSyncPoints, "reached", interfere)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(claim)
            nursery.start_soon(neighbour)
        stranger.execute("ROLLBACK")
        assert claimed == [False]
        assert bench.services.claims.count == 0
        assert await bench.owner(run_id).run()
    stranger.close()
    assert bench.run_row(run_id).terminal


async def test_end_that_a_foreign_write_lock_holds_up_for_minutes_is_written_in_the_end(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """The lease has lapsed long before; the run does not read `running` until a restart."""
    stranger = apsw.Connection(str(bench.paths.database))

    async def die_under_a_lock(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        stranger.execute("BEGIN IMMEDIATE")
        return ExitStatus(1, None)

    async def let_go() -> None:
        await trio.sleep(600)
        stranger.execute("ROLLBACK")

    bench.children(die_under_a_lock, bench.working)
    with trio.fail_after(1_200):
        run_id = await bench.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_go)
            assert await bench.owner(run_id).run()
        assert bench.queue_row(run_id).status is QueueStatus.PARKED
        assert bench.rows(OWNED) == [(0,)]
        assert bench.rows(OPEN_WORKERS) == [(0,)]
        assert await bench.owner(run_id).run()
    stranger.close()
    assert bench.run_row(run_id).terminal


async def test_end_that_a_full_disk_holds_up_for_minutes_is_written_in_the_end(
    autojump_clock: Clock, bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements fail, and with them each renewal; no commit does, so the server goes on."""
    store = bench.services.store
    ask = store._ask
    full_until: list[float] = []

    async def ask_a_full_disk(command: Callable[..., T], lane: Lane) -> T:
        if full_until and trio.current_time() < full_until[0]:
            await trio.lowlevel.checkpoint()
            raise StorageFault("FullError")
        return await ask(command, lane)

    async def die_on_a_full_disk(child: "RunnerEnd") -> ExitStatus:
        await child.ready()
        await child.advance(child.started("first"))
        full_until.append(trio.current_time() + 600)
        return ExitStatus(1, None)

    monkeypatch.setattr(store, "_ask", ask_a_full_disk)
    bench.children(die_on_a_full_disk, bench.working)
    with trio.fail_after(1_200):
        run_id = await bench.create()
        assert await bench.owner(run_id).run()
        assert trio.current_time() >= full_until[0]
        assert bench.queue_row(run_id).status is QueueStatus.PARKED
        assert bench.rows(OWNED) == [(0,)]
        assert bench.rows(OPEN_WORKERS) == [(0,)]
        assert await bench.owner(run_id).run()
    assert bench.run_row(run_id).terminal


async def test_stop_of_the_server_does_not_wait_for_a_foreign_write_lock(
    autojump_clock: Clock, bench: "Bench"
) -> None:
    """Within bounds it does; then the next server recovers the run."""
    stranger = apsw.Connection(str(bench.paths.database))
    with trio.fail_after(300):
        bench.children(bench.idling)
        run_id = await bench.create()
        with trio.move_on_after(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.owner(run_id).run)
                await trio.sleep(1)
                stranger.execute("BEGIN IMMEDIATE")
    stranger.execute("ROLLBACK")
    stranger.close()
    assert bench.queue_row(run_id).status is QueueStatus.RUNNING
